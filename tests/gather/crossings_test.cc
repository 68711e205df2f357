// Batches that wait for a slow store (world.h), while other events happen at random: reloads,
// overrides, clients that leave or stop sending, answers of the store group by group and in any
// order, a stop. Each reply is compared with an exact model, which knows the quotas that each line
// was matched with.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "tests/gather/world.h"

namespace sluice::tests::crossings_test {
namespace {

using Quotas = std::map<std::string, int64_t>;

// One line. Its keys are charged in `groups`, each all or nothing.
struct Line {
  std::string id;
  std::vector<std::vector<std::string>> groups;
  Quotas quotas;       // of its keys, at the time of matching
  std::string reply;   // so far
  std::string first;   // its first key, by which SlowStore knows its batch
  bool holds = false;  // the session takes nothing after it
};

struct Client {
  int fd = -1;
  size_t serial = 0;
  bool in_order = false;
  bool half_closed = false;          // it sends no more
  bool gone = false;                 // it has closed its socket
  bool held = false;                 // its session holds back: a stop drops what it sent after that
  std::deque<Line> sent;             // not taken yet: too many batches are under way
  std::vector<Line> under_way;       // waiting at the store
  std::string expected = "hello\n";  // all output, in order
  std::string got;
  size_t lines = 0;
};

struct Counts {
  size_t yes = 0, no = 0, left = 0, reset = 0, half_closed = 0, behind = 0, reloads = 0,
         overrides = 0, held = 0;
};

class Trial {
 public:
  explicit Trial(uint32_t seed) : random_(seed) {
    world_.store.in_steps = dice(2) == 0;
    for (size_t i = 0; i < 3; ++i) add_client();
  }

  void run() {
    ASSERT_TRUE(world_.store.await_waiting(waiting()));
    for (int step = 0; step < 120 && !testing::Test::HasFailure(); ++step) {
      switch (dice(12)) {
        case 0:
          quota_ = 1 + static_cast<int64_t>(dice(5));
          world_.reload(quota_);
          ++counts.reloads;
          break;
        case 1:
          change_override();
          break;
        case 2:
          if (dice(4) == 0) leave();
          break;
        case 3:
        case 4:
        case 5:
        case 6:
          send_lines();
          break;
        default:
          answer();
      }
      // The worker has now taken all lines that it may, so the next event comes after these.
      ASSERT_TRUE(world_.store.await_waiting(waiting()));
    }
    if (!testing::Test::HasFailure()) end();
  }

  Counts counts;

 private:
  size_t dice(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  void add_client() {
    Client& client = clients_.emplace_back();
    client.in_order = dice(3) == 0;
    client.fd = world_.client(client.in_order ? "gather_in_order" : "gather");
    client.serial = made_++;
    send_lines(client);
  }

  std::string shared_key() { return "s" + std::to_string(dice(6)); }
  int64_t quota_of(const std::string& key) const {
    const auto at = overridden_.find(key);
    return at == overridden_.end() ? quota_ : at->second;
  }

  void change_override() {
    const std::string key = shared_key();
    const bool remove = overridden_.contains(key) && dice(2) == 0;
    const int64_t quota = remove ? 0 : 1 + static_cast<int64_t>(dice(6));
    world_.set_override(key, quota);
    if (remove)
      overridden_.erase(key);
    else
      overridden_[key] = quota;
    ++counts.overrides;
  }

  void send_lines() {
    Client& client = clients_[dice(clients_.size())];
    if (!client.half_closed && !client.gone) send_lines(client);
  }

  void send_lines(Client& client, bool with_hold = false) {
    std::string text;
    for (size_t n = 1 + dice(3); n > 0; --n) {
      Line line;
      line.holds = std::exchange(with_hold, false);
      line.id = std::to_string(client.serial) + "." + std::to_string(client.lines++);
      const bool together = !line.holds && dice(2) == 0;
      std::vector<std::string> keys{"k" + line.id};
      for (size_t more = dice(4); more > 0; --more) keys.push_back(shared_key());
      line.first = keys.front();
      text += line.id + (line.holds ? " hold" : together ? " all" : " each");
      for (const std::string& key : keys) {
        text += " " + key;
        if (together && !line.groups.empty())
          line.groups.front().push_back(key);
        else
          line.groups.push_back({key});
      }
      text += '\n';
      client.sent.push_back(std::move(line));
    }
    // Sent in two pieces, cut at any byte.
    const size_t cut = dice(text.size() + 1);
    send(client.fd, std::string_view(text).substr(0, cut));
    send(client.fd, std::string_view(text).substr(cut));
    take(client);
  }

  // The worker takes lines up to its bound, and matches them with the present quotas.
  void take(Client& client) {
    const size_t most = client.in_order ? 1 : base::bounds::batches_per_connection_max;
    while (!client.held && client.under_way.size() < most && !client.sent.empty()) {
      Line& line = client.under_way.emplace_back(std::move(client.sent.front()));
      client.sent.pop_front();
      client.held = line.holds;
      for (const auto& group : line.groups)
        for (const std::string& key : group) line.quotas[key] = quota_of(key);
    }
    counts.behind += client.sent.empty() ? 0u : 1u;
  }

  size_t waiting() const {
    size_t count = 0;
    for (const Client& client : clients_) count += client.under_way.size();
    return count;
  }

  // Takes a unit of each key of the group if all keys have one. Returns whether they have.
  bool settle(const std::vector<std::string>& group, const Quotas& quotas) {
    std::map<std::string, int64_t> costs;
    for (const std::string& key : group) ++costs[key];
    const bool allowed = std::all_of(costs.begin(), costs.end(), [&](const auto& cost) {
      return used_[cost.first] + cost.second <= quotas.at(cost.first);
    });
    if (allowed)
      for (const auto& [key, cost] : costs) used_[key] += cost;
    return allowed;
  }

  void answer() {
    std::vector<std::pair<size_t, size_t>> all;
    for (size_t at = 0; at < clients_.size(); ++at)
      for (size_t i = 0; i < clients_[at].under_way.size(); ++i) all.emplace_back(at, i);
    if (all.empty()) return;
    const auto [at, i] = all[dice(all.size())];
    Client& client = clients_[at];
    Line& line = client.under_way[i];
    do {
      const bool allowed = settle(line.groups.front(), line.quotas);
      line.reply += allowed ? " yes" : " no";
      ++(allowed ? counts.yes : counts.no);
      line.groups.erase(line.groups.begin());
    } while (!world_.store.in_steps && !line.groups.empty());
    const std::string first = line.first;
    if (line.groups.empty()) {
      client.expected += line.id + line.reply + '\n';
      client.under_way.erase(client.under_way.begin() + static_cast<ptrdiff_t>(i));
      take(client);
    }
    world_.store.answer(first);
    if ((client.half_closed || client.gone) && client.under_way.empty()) finish(at);
  }

  // A client stops sending, resets its connection, or closes it after reading the replies so far.
  void leave() {
    const size_t at = dice(clients_.size());
    Client& client = clients_[at];
    if (client.half_closed || client.gone) return;
    if (dice(2) == 0) {
      ASSERT_EQ(::shutdown(client.fd, SHUT_WR), 0);
      client.half_closed = true;
      ++counts.half_closed;
    } else if (!client.in_order && client.sent.empty() &&
               client.under_way.size() < base::bounds::batches_per_connection_max && dice(2) == 0) {
      // Closed with an unread reply, so the server sees a reset and abandons the client's batches.
      char byte;
      ASSERT_EQ(::recv(client.fd, &byte, 1, MSG_PEEK), 1);
      ASSERT_TRUE(world_.store.await_resumed());
      abandoned_ += client.under_way.size();
      world_.close(client.fd);
      ASSERT_TRUE(world_.store.await_abandoned(abandoned_));
      ++counts.reset;
      return remove(at);
    } else {
      // A normal end: the client's batches are still decided.
      EXPECT_EQ(read_until(client.fd, client.expected), client.expected);
      world_.close(client.fd);
      client.gone = true;
      ++counts.left;
    }
    if (client.under_way.empty()) finish(at);
  }

  // Removes a client without batches. One that only stopped sending must have all its replies.
  void finish(size_t at) {
    if (clients_[at].half_closed) expect_end(clients_[at]);
    remove(at);
  }

  static void expect_end(const Client& client) {
    EXPECT_EQ(read_until(client.fd, "(end)"), client.expected + "(end)");
  }

  // A new client replaces it, except during a stop.
  void remove(size_t at) {
    clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(at));
    if (!stopping_) add_client();
  }

  // A stop answers the batches under way. It also answers lines that had arrived but were not
  // taken, unless the session holds back.
  void end() {
    for (Client& client : clients_) {
      if (client.half_closed || client.gone || dice(2) == 0) continue;
      send_lines(client, true);
      ++counts.held;
      ASSERT_TRUE(world_.store.await_waiting(waiting()));
    }
    stopping_ = true;
    world_.worker->stop(std::chrono::minutes(2));
    while (waiting() > 0 && !testing::Test::HasFailure()) {
      answer();
      ASSERT_TRUE(world_.store.await_waiting(waiting()));
    }
    for (Client& client : clients_) {
      if (client.gone) continue;
      client.expected += "goodbye\n";
      expect_end(client);
    }
  }

  std::mt19937 random_;
  World world_;
  int64_t quota_ = 2;
  Quotas overridden_, used_;
  std::vector<Client> clients_;
  size_t made_ = 0, abandoned_ = 0;
  bool stopping_ = false;
};

TEST(GatherCrossings, EveryReplyMatchesTheModel) {
  Counts all;
  for (uint32_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed);
    trial.run();
    all.yes += trial.counts.yes, all.no += trial.counts.no, all.left += trial.counts.left;
    all.reset += trial.counts.reset;
    all.half_closed += trial.counts.half_closed, all.behind += trial.counts.behind;
    all.reloads += trial.counts.reloads, all.overrides += trial.counts.overrides;
    all.held += trial.counts.held;
  }
  if (HasFailure()) return;
  // Each kind of event happened often enough to test it.
  EXPECT_GT(all.yes, 500u);
  EXPECT_GT(all.no, 500u);
  EXPECT_GT(all.left, 10u);
  EXPECT_GT(all.reset, 10u);
  EXPECT_GT(all.half_closed, 10u);
  EXPECT_GT(all.behind, 50u);
  EXPECT_GT(all.reloads, 100u);
  EXPECT_GT(all.overrides, 100u);
  EXPECT_GT(all.held, 20u);
}

}  // namespace
}  // namespace sluice::tests::crossings_test
