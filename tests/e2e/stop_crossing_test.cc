// Random lives of the real server, each ended by a stop, a stop behind a drain, or a kill, which
// cross all that changes what may be taken: requests under way and ones that wait, reloads,
// overrides, a store that fails. A model knows exactly what each counter may hold after the start.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/file_limit.h"
#include "tests/e2e/http_peers.h"
#include "tests/support/comes.h"
#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::stop_crossing_test {
namespace {

using http_e2e::about;
using http_e2e::Http1;
using http_e2e::post;
using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr int lives = 6, actors = 4;
// No unit comes back by itself. Each quota lets every request wait, and all counters of a test
// together stay below the one by which they are looked at.
constexpr int quotas[] = {10, 25, 60}, quota_of_looks = 1'000'000, units_max = 3;

enum class Kind : uint8_t { always, interval, redis };

// A request whose answer is not read yet, on a connection of its own.
struct Asking {
  int actor, units;
  Http1 connection;
  bool waits = false;
};

// What an actor has used, and what holds for it. The bounds differ only while it is not known
// whether something was charged.
struct Actor {
  int low = 0, high = 0;
  int base = 0;                // low of the last start: what a kill cannot forget with `interval`
  std::optional<int> quota{};  // of its override
  std::string override_id{};
  std::deque<std::unique_ptr<Asking>> queue{};  // requests that wait, in order
};

class StopCrossing : public testing::TestWithParam<Kind> {
 protected:
  static std::string name_of(int actor) { return "u" + std::to_string(actor); }

  void write(int quota) const {
    const std::string store =
        GetParam() == Kind::redis
            ? "store: { redis: { nodes: [\"" + redis_->address() + "\"] } }\n"
            : "store: { path: data, durability: " +
                  std::string(GetParam() == Kind::always ? "always" : "interval") + " }\n";
    folder_.write("sluice.yaml",
                  "listen:\n"
                  "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                  "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                  "drain: " +
                      std::string(drains_ ? "300s" : "0s") + "\n" + store +
                      "rules:\n"
                      "  - { name: api, match: { user: \"*\" }, actor: user,\n"
                      "      limit: { quota: " +
                      std::to_string(quota) + ", algorithm: fixed_bucket } }\n");
  }

  Json admin(const std::string& method, const std::string& target, const std::string& body,
             int status) const {
    const HttpAnswer answer = http(admin_, method, target, body,
                                   body.empty() ? "" : "Content-Type: application/json\r\n");
    EXPECT_EQ(answer.status, status) << method << ' ' << target << ": " << answer.body;
    return Json::parse(answer.body, nullptr, false);
  }
  static http_e2e::Asked request(const char* target, int actor, int units, Json more = {}) {
    if (more.is_null()) more = Json::object();
    more["n"] = units;
    return post(target, about({{"user", name_of(actor)}}, more));
  }
  HttpAnswer ask(const char* target, int actor, int units) const {
    return Http1(port_).ask(request(target, actor, units));
  }
  static std::string override_text(int actor, int quota) {
    return Json{{"dialect", "native"},
                {"rule", "api"},
                {"actor", name_of(actor)},
                {"limit", {{"quota", quota}, {"algorithm", "fixed_bucket"}}}}
        .dump();
  }

  int limit_of(const Actor& actor) const { return actor.quota.value_or(quota_); }
  size_t waiting() const {
    size_t count = 0;
    for (const Actor& actor : all_) count += actor.queue.size();
    return count;
  }
  bool await_waiting() const {
    return comes(
        [&] { return sample(admin_, "sluice_waiting_requests") == std::to_string(waiting()); });
  }
  static void charge(Actor& actor, int units) {
    actor.low += units;
    actor.high += units;
  }

  // Starts the server and compares all counters and overrides with the model, which is exact
  // afterwards; then the limits hold that held before.
  void start() {
    write(quota_of_looks);
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.path() + "/sluice.yaml",
                                       "--log-level", "warn"}});
    port_ = await_listening(*process_, "http");
    admin_ = await_listening(*process_, "admin");
    std::map<std::string, Json> overrides;
    const Json listed = admin("GET", "/v1/overrides", "", 200);
    for (const Json& one : listed.at("overrides"))
      overrides[one.at("actor").get<std::string>()] = one;
    for (int i = 0; i < actors; ++i) {
      Actor& actor = all_[static_cast<size_t>(i)];
      const auto kept = overrides.find(name_of(i));
      const auto quota = kept == overrides.end()
                             ? std::nullopt
                             : std::optional<int>(kept->second.at("limits")[0].at("quota"));
      const auto may_be = may_have_.find(i);
      if (may_be == may_have_.end() || quota != may_be->second) {
        EXPECT_EQ(quota, actor.quota) << name_of(i);
      }
      // The override would hide what is used beyond it.
      if (quota)
        admin("DELETE", "/v1/overrides/" + kept->second.at("id").get<std::string>(), "", 200);
      const HttpAnswer answer = ask("/v1/peek", i, 0);
      ASSERT_EQ(answer.status, 200) << answer.body;
      const int used = quota_of_looks - Json::parse(answer.body).at("remaining").get<int>();
      EXPECT_GE(used, actor.low) << name_of(i) << ": what was answered is forgotten";
      EXPECT_LE(used, actor.high) << name_of(i)
                                  << ": what was not granted is charged; the last end:" << told_;
      actor.low = actor.high = actor.base = used;
      actor.quota.reset();
      if (quota) set_override(i, *quota);
    }
    may_have_.clear();
    reload(quota_);
  }

  // Grants what waits, as the limits now let it.
  void grant(Actor& actor) {
    while (!actor.queue.empty() && actor.high + actor.queue.front()->units <= limit_of(actor)) {
      const std::unique_ptr<Asking> first = std::move(actor.queue.front());
      actor.queue.pop_front();
      const HttpAnswer answer = first->connection.read();
      EXPECT_EQ(answer.status, 200) << answer.body;
      charge(actor, first->units);
    }
  }

  void take(int i, int units) {
    Actor& actor = all_[static_cast<size_t>(i)];
    const bool fits = actor.queue.empty() && actor.high + units <= limit_of(actor);
    const HttpAnswer answer = ask("/v1/take", i, units);
    EXPECT_EQ(answer.status, fits ? 200 : 429) << name_of(i) << ": " << answer.body;
    if (fits) charge(actor, units);
    if (!fits && !actor.queue.empty()) return;
    EXPECT_EQ(Json::parse(answer.body).at("remaining"), std::max(limit_of(actor) - actor.high, 0));
  }
  void wait(int i, int units) {
    Actor& actor = all_[static_cast<size_t>(i)];
    auto asking = std::make_unique<Asking>(Asking{i, units, Http1(port_), true});
    asking->connection.send(request("/v1/wait", i, units, {{"timeout", 60}}));
    const bool is_first = actor.queue.empty();
    actor.queue.push_back(std::move(asking));
    if (is_first) grant(actor);
    EXPECT_TRUE(await_waiting());
  }
  // A client that waits is gone.
  void leave(int i) {
    Actor& actor = all_[static_cast<size_t>(i)];
    if (actor.queue.empty()) return;
    actor.queue.erase(actor.queue.begin() + dice_(static_cast<int>(actor.queue.size())));
    grant(actor);
    EXPECT_TRUE(await_waiting());
  }
  void reload(int quota) {
    quota_ = quota;
    write(quota);
    admin("POST", "/v1/reload", "{}", 200);
    for (Actor& actor : all_) grant(actor);
  }
  void set_override(int i, int quota) {
    Actor& actor = all_[static_cast<size_t>(i)];
    actor.override_id =
        admin("POST", "/v1/overrides", override_text(i, quota), actor.quota ? 200 : 201).at("id");
    actor.quota = quota;
    grant(actor);
  }
  void remove_override(int i) {
    Actor& actor = all_[static_cast<size_t>(i)];
    if (!actor.quota) return;
    admin("DELETE", "/v1/overrides/" + actor.override_id, "", 200);
    actor.quota.reset();
    grant(actor);
  }
  int any_actor() { return dice_(actors); }
  int any_units() { return 1 + dice_(units_max); }
  int any_quota() { return quotas[dice_(std::size(quotas))]; }

  // One request after another, each answer exact.
  void ask_some(int count) {
    while (count-- > 0 && !HasFailure()) {
      switch (dice_(12)) {
        case 0:
          reload(any_quota());
          break;
        case 1:
          set_override(any_actor(), any_quota());
          break;
        case 2:
          remove_override(any_actor());
          break;
        case 3:
        case 4:
          if (waiting() < 6) wait(any_actor(), any_units());
          break;
        case 5:
          leave(any_actor());
          break;
        default:
          take(any_actor(), any_units());
      }
    }
  }

  // Requests while the store fails. None is granted that could be forgotten; what is not granted
  // may be charged, as its commit is made once it can be.
  void ask_while_it_fails() {
    for (int count = 6; count-- > 0;) {
      const int i = any_actor(), units = any_units();
      Actor& actor = all_[static_cast<size_t>(i)];
      auto asking = std::make_unique<Asking>(Asking{i, units, Http1(port_)});
      asking->connection.send(request("/v1/take", i, units));
      const int status = status_of(*asking);
      const bool may_fit = actor.queue.empty() && actor.low + units <= limit_of(actor);
      EXPECT_TRUE(status != 200 || may_fit);
      EXPECT_TRUE(status == 200 || status == 429 || status == 503 || status == 0) << status;
      if (may_fit && status != 429) actor.high += units;
      if (status == 200) actor.low += units;
    }
  }
  // 0: the connection ended without an answer.
  static int status_of(Asking& asking) {
    try {
      return asking.connection.read().status;
    } catch (const std::exception&) {
      if (!asking.connection.socket().ended()) throw;
      return 0;
    }
  }

  // The end of a life, with requests under way.
  void cross(int signal, bool fails) {
    told_ = " signal " + std::to_string(signal) + ',';
    std::vector<std::unique_ptr<Asking>> asked;
    const int count = 4 + dice_(8), stops_at = dice_(count);
    std::optional<int> new_quota;
    std::optional<Http1> reloading, overriding;
    int overridden = -1;
    for (int k = 0; k < count; ++k) {
      if (k == stops_at) process_->signal(signal);
      try {
        const int i = any_actor(), what = dice_(fails ? 6 : 10);
        if (what == 6 && !reloading) {
          new_quota = any_quota();
          write(*new_quota);
          reloading.emplace(admin_);
          reloading->send(post("/v1/reload", Json::object()));
        } else if (what == 7 && !overriding) {
          overridden = i;
          may_have_[i] = any_quota();
          overriding.emplace(admin_);
          overriding->send(http_e2e::post_text("/v1/overrides", override_text(i, *may_have_[i])));
        } else {
          const bool waits = what == 8 && GetParam() != Kind::redis;
          auto one = std::make_unique<Asking>(Asking{i, any_units(), Http1(port_), waits});
          asked.push_back(std::move(one));
          asked.back()->connection.send(request(waits ? "/v1/wait" : "/v1/take", i,
                                                asked.back()->units,
                                                waits ? Json{{"timeout", 60}} : Json()));
        }
      } catch (const std::exception&) {  // the server listens no more, or has closed it
        if (k < stops_at) throw;
      }
    }
    // Any of the limits that held meanwhile may have been that of a request.
    const int override_status = overriding ? status_of_admin(*overriding) : 0;
    const bool is_overridden = override_status == 200 || override_status == 201;
    if (reloading) status_of_admin(*reloading);
    overriding.reset();
    reloading.reset();
    std::vector<int> least(actors), most(actors), had(actors);
    std::vector<bool> waited(actors);
    for (int i = 0; i < actors; ++i) {
      Actor& actor = all_[static_cast<size_t>(i)];
      const size_t at = static_cast<size_t>(i);
      least[at] = most[at] = limit_of(actor);
      had[at] = actor.low;
      const auto may_be = [&](int quota) {
        least[at] = std::min(least[at], quota);
        most[at] = std::max(most[at], quota);
      };
      if (new_quota && !actor.quota) may_be(*new_quota);
      if (i == overridden) may_be(*may_have_[i]);
      waited[at] = !actor.queue.empty();
      for (auto& one : actor.queue) asked.push_back(std::move(one));
      actor.queue.clear();
    }
    std::vector<std::pair<int, int>> refused;
    for (auto& one : asked) {
      Actor& actor = all_[static_cast<size_t>(one->actor)];
      const int told = status_of(*one);
      waited[static_cast<size_t>(one->actor)] =
          waited[static_cast<size_t>(one->actor)] || one->waits;
      ++answers_[told];
      told_ += ' ' + name_of(one->actor) + (one->waits ? " waits " : " takes ") +
               std::to_string(one->units) + ": " + std::to_string(told) + ',';
      EXPECT_TRUE(told == 200 || told == 429 || told == 503 || told == 0) << told;
      if (told == 200)
        charge(actor, one->units);
      else if (told == 429)
        refused.emplace_back(one->actor, one->units);
      else if (signal == SIGKILL || fails)
        actor.high += one->units;
      one.reset();  // the server waits until its clients have read all
    }
    const auto status = process_->wait();
    EXPECT_TRUE(signal == SIGKILL ? status == 128 + SIGKILL
                                  : status == 0 || (fails_at_the_end_ && status == 1))
        << status.value_or(-1) << process_->err();
    for (int i = 0; i < actors; ++i) {
      const size_t at = static_cast<size_t>(i);
      EXPECT_LE(all_[at].low, std::max(had[at], most[at])) << name_of(i) << ": more than its limit";
    }
    for (const auto& [i, units] : refused) {
      const size_t at = static_cast<size_t>(i);
      EXPECT_TRUE(waited[at] || all_[at].high + units > least[at])
          << name_of(i) << ": " << units << " refused, " << all_[at].high << " used of "
          << least[at];
    }
    if (is_overridden) {
      all_[static_cast<size_t>(overridden)].quota = may_have_[overridden];
      may_have_.erase(overridden);
    }
    if (new_quota) quota_ = *new_quota;
  }
  // 0: it ended without an answer.
  static int status_of_admin(Http1& connection) {
    try {
      return connection.read().status;
    } catch (const std::exception&) {
      return 0;
    }
  }

  // Whatever is forgotten was so before.
  void forget() {
    for (Actor& actor : all_) actor.low = actor.base;
  }

  void live() {
    drains_ = dice_(3) == 0;
    start();
    ask_some(15 + dice_(10));
    if (HasFailure()) return;
    const bool is_redis = GetParam() == Kind::redis;
    // A Redis that does not answer keeps the turn of those that wait for some time, and so do
    // requests of a server that was killed.
    const bool may_fail = !is_redis || waiting() == 0;
    // A stop tries for two seconds to write what it cannot, so one end is enough.
    const bool fails = may_fail && (ends_on_full_disk_ == 0 || waiting() == 0) && dice_(3) == 0,
               recovers = ends_on_full_disk_ > 0 && waiting() == 0;
    if (fails) {
      begin_failure();
      ask_while_it_fails();
      if (recovers || is_redis) end_failure();
    }
    fails_at_the_end_ = fails && !recovers && !is_redis;
    ends_on_full_disk_ += fails_at_the_end_;
    if (dice_(4) == 0 && may_fail) {
      cross(SIGKILL, fails);
      if (GetParam() == Kind::interval) forget();
      return;
    }
    if (drains_) {
      process_->signal(SIGTERM);
      ASSERT_TRUE(comes([&] { return http_get(admin_, "/health/ready").status == 503; }));
      if (!fails) ask_some(6);
    }
    cross(SIGTERM, fails);
    if (fails_at_the_end_ && GetParam() == Kind::interval) forget();
  }

  void begin_failure() {
    if (GetParam() == Kind::redis) return redis_->signal(SIGSTOP);
    limit_files(*process_, 0);
  }
  void end_failure() {
    if (GetParam() == Kind::redis) return redis_->signal(SIGCONT);
    limit_files(*process_, RLIM_INFINITY);
    if (process_->err().find("until it can be written") != std::string::npos) {
      EXPECT_TRUE(process_->says("can be written again")) << process_->err();
    }
  }

  Dice dice_{0};
  Folder folder_;
  std::unique_ptr<RedisServer> redis_ =
      GetParam() == Kind::redis ? std::make_unique<RedisServer>() : nullptr;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0, admin_ = 0;
  bool drains_ = false, fails_at_the_end_ = false;
  int ends_on_full_disk_ = 0;
  int quota_ = quotas[0];
  std::vector<Actor> all_ = std::vector<Actor>(actors);
  std::map<int, std::optional<int>> may_have_;  // overrides whose setting was not answered
  std::map<int, int> answers_;                  // to requests that crossed an end
  std::string told_;                            // by the last end, to whom
};

TEST_P(StopCrossing, ForgetsAndInventsNothing) {
  const uint32_t seed = std::random_device()();
  dice_ = Dice(seed);
  for (int life = 0; life < lives && !HasFailure(); ++life) {
    SCOPED_TRACE("life " + std::to_string(life) + ", seed " + std::to_string(seed));
    live();
  }
  if (HasFailure()) return;
  drains_ = false;
  start();
  std::printf("stop crossing: %d granted, %d refused, %d told of the end, %d without an answer\n",
              answers_[200], answers_[429], answers_[503], answers_[0]);
}

INSTANTIATE_TEST_SUITE_P(Stores, StopCrossing,
                         testing::Values(Kind::always, Kind::interval, Kind::redis),
                         [](const auto& kind) {
                           return kind.param == Kind::always     ? "Always"
                                  : kind.param == Kind::interval ? "Interval"
                                                                 : "Redis";
                         });

}  // namespace
}  // namespace sluice::tests::stop_crossing_test
