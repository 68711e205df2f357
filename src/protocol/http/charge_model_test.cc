// Charges with ids while the store answers late or fails, rules are reloaded, clients disconnect
// and ids are forgotten, in random order: each answer and each counter is that of an exact model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "tests/support/dice.h"

namespace sluice::http::charge_model_test {
namespace {

using namespace session_world;

constexpr std::array quotas = {5, 40};

std::string rules_with(int64_t quota) {
  return "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: " +
         std::to_string(quota) + ", window: 365d, algorithm: fixed_window } }\n";
}

struct Content {
  size_t actor = 0;
  int64_t n = 1;
  friend bool operator==(const Content&, const Content&) = default;

  std::string body(const std::string& more = {}) const {
    return by_ip(std::string(1, static_cast<char>('a' + actor)),
                 ", \"n\": " + std::to_string(n) + more);
  }
};

struct Id {
  enum class State { unknown, under_way, remembered };
  State state = State::unknown;
  Content content{};
  std::string answer{};
};

struct Client {
  std::unique_ptr<Connection> connection;
  size_t id = 0;
  Content content{};
  bool is_first = false;  // it has claimed the id
  int64_t quota = 0;      // of the rules when it asked
};

class Trial {
 public:
  explicit Trial(uint32_t seed) : dice_(seed) {
    for (Client& client : clients_) client.connection = std::make_unique<Connection>(world_);
  }

  void step() {
    switch (dice_(16)) {
      case 0:
        quota_ = quotas[dice_(quotas.size())];
        return world_.load(rules_with(quota_));
      case 1:
        return disconnect(dice_(clients_.size()));
      case 2:
        if (dice_(4) == 0) forget();
        return;
      case 3:
      case 4:
      case 5:
      case 6:
        if (!late_.empty()) resume(dice_(late_.size()), dice_(4) == 0);
        return;
      default:
        return send(dice_(clients_.size()));
    }
  }
  void finish() {
    while (!late_.empty()) resume(0, false);
    EXPECT_EQ(world_.ids->figures().under_way, 0u);
    for (size_t actor = 0; actor < used_.size(); ++actor) {
      const HttpAnswer answer = ask(world_, post("/v1/charge", Content{actor, 0}.body()));
      EXPECT_TRUE(answer.tells(standing(actor, quota_))) << answer.body;
    }
  }

  // How often each of the rare things happened.
  int repeated = 0, early = 0, cut = 0, failed = 0, other = 0, old_rules = 0;

 private:
  bool is_late(size_t k) const { return std::ranges::count(late_, k) > 0; }
  void settle_late(bool late) {
    world_.store.settles = [late](size_t all) { return late ? 0 : all; };
  }

  void send(size_t k) {
    if (is_late(k)) return;
    Client& client = clients_[k];
    client.id = dice_(ids_.size());
    client.content = {dice_(used_.size()), 1 + dice_(int64_t{2})};
    client.quota = quota_;
    Id& id = ids_[client.id];
    // Most often it is sent again as it was.
    if (id.state != Id::State::unknown && dice_(4) != 0) client.content = id.content;
    client.is_first = id.state == Id::State::unknown;
    const bool is_refused = !client.is_first && id.content != client.content;
    const bool late = !is_refused && dice_(2) == 0;
    if (client.is_first) {
      id.state = Id::State::under_way;
      id.content = client.content;
    }
    settle_late(late);
    world_.store.fails = !late && dice_(8) == 0;
    const std::string name = "charge-model-000" + std::to_string(client.id);
    client.connection->send(post("/v1/charge", client.content.body(", \"id\": \"" + name + "\"")));
    if (late) {
      EXPECT_EQ(client.connection->take(), "");
      late_.push_back(k);
    } else {
      expect_answer(client);
    }
    world_.store.fails = false;
    settle_late(false);
    EXPECT_EQ(world_.store.asked(), late_.size());
  }

  // `again`: the store puts it off once more.
  void resume(size_t at, bool again) {
    const size_t k = late_[at];
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(at));
    settle_late(again);
    world_.store.name(at);
    world_.settle();
    settle_late(false);
    if (!again) return expect_answer(clients_[k]);
    EXPECT_EQ(clients_[k].connection->take(), "");
    late_.push_back(k);
  }

  void disconnect(size_t k) {
    Client& client = clients_[k];
    if (is_late(k)) {
      ++cut;
      std::erase(late_, k);
      if (client.is_first) ids_[client.id].state = Id::State::unknown;
    }
    client.connection = std::make_unique<Connection>(world_);
    EXPECT_EQ(world_.store.asked(), late_.size());
  }

  void forget() {
    world_.pass(600 * second);
    for (Id& id : ids_)
      if (id.state == Id::State::remembered) id.state = Id::State::unknown;
  }

  void expect_answer(Client& client) {
    const auto answers = answers_of(client.connection->take());
    ASSERT_EQ(answers.size(), 1u);
    const HttpAnswer& answer = answers[0];
    Id& id = ids_[client.id];
    if (!client.is_first && id.state != Id::State::unknown && id.content != client.content) {
      ++other;
      EXPECT_EQ(answer.status, 409);
      return;
    }
    if (world_.store.fails) {
      ++failed;
      EXPECT_EQ(answer.status, 503);
      if (client.is_first) id.state = Id::State::unknown;
      return;
    }
    if (client.is_first) {
      used_[client.content.actor] += client.content.n;
      old_rules += client.quota != quota_ ? 1 : 0;
      EXPECT_EQ(answer.status, 200);
      EXPECT_TRUE(answer.body.starts_with("{\"charged\": " + std::to_string(client.content.n) +
                                          ", " + standing(client.content.actor, client.quota)))
          << answer.body;
      EXPECT_FALSE(answer.tells("repeated"));
      id.state = Id::State::remembered;
      id.answer = answer.body;
      id.answer.insert(id.answer.find(", \"generation\""), ", \"repeated\": true");
    } else if (id.state == Id::State::remembered) {
      ++repeated;
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(answer.body, id.answer);
    } else {
      ++early;
      EXPECT_EQ(answer.status, 503);
      EXPECT_TRUE(answer.tells(id.state == Id::State::under_way ? "has no answer yet"
                                                                : "failed; send it again"))
          << answer.body;
    }
  }

  // Of the actor's counter, as a charge's answer shows it.
  std::string standing(size_t actor, int64_t quota) const {
    const int64_t left = quota - used_[actor];
    return std::string("\"over\": ") + (left < 0 ? "true" : "false") +
           ", \"limit\": " + std::to_string(quota) +
           ", \"remaining\": " + std::to_string(std::max<int64_t>(left, 0)) +
           ", \"debt\": " + std::to_string(std::max<int64_t>(-left, 0));
  }

  tests::Dice dice_;
  int64_t quota_ = quotas[0];
  World world_{{.rules = rules_with(quota_)}};
  std::array<Client, 6> clients_;
  std::vector<size_t> late_;  // the clients whose batches the store has put off, in its order
  std::array<Id, 4> ids_;
  std::array<int64_t, 3> used_{};  // the units of each actor
};

TEST(ChargeModel, EachIdIsChargedOnceWhateverComesBetween) {
  std::array<int, 6> seen{};
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial(seed);
    for (int i = 0; i < 500 && !HasFailure(); ++i) trial.step();
    trial.finish();
    ASSERT_FALSE(HasFailure());
    const std::array<int, 6> its{trial.repeated, trial.early, trial.cut,
                                 trial.failed,   trial.other, trial.old_rules};
    for (size_t i = 0; i < its.size(); ++i) seen[i] += its[i];
  }
  for (const int count : seen) EXPECT_GT(count, 40);
}

}  // namespace
}  // namespace sluice::http::charge_model_test
