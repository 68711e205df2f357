// `sluice store import-redis` while everything happens at once: it is killed, slots of the cluster
// move, keys expire, and servers count in both stores. Compared with an exact ledger.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "redis/slots.h"
#include "tests/redis/import_world.h"
#include "tests/support/comes.h"
#include "tests/support/dice.h"

namespace sluice::tests::redis_import_crossing_test {
namespace {

// Counters of `s` expire while they are copied.
const std::string short_rule =
    "  - name: short\n    match: { s: \"*\" }\n    actor: s\n    limits:\n"
    "      - { quota: 100, window: 2s }\n";

// Moves slots of the cluster, one after the other, until it is destroyed.
class Mover {
 public:
  Mover(RedisCluster& cluster, std::vector<uint16_t> slots)
      : thread_([this, &cluster, slots = std::move(slots)] {
          for (size_t i = 0; !stops_; ++i) {
            const uint16_t slot = slots[i % slots.size()];
            const size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
            cluster.begin_move(slot, from, to);
            std::this_thread::sleep_for(Milliseconds(10));  // so that the import meets it moving
            cluster.move_keys(slot, from, to);
            cluster.end_move(slot, from, to);
            ++moved;
          }
        }) {}
  ~Mover() { stop(); }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::atomic<int> moved{0};

 private:
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

class RedisImportCrossing : public ImportWorld {
 protected:
  RedisImportCrossing() { rules += short_rule; }

  // Takes one unit at that server, and notes a grant in the ledger.
  static void hit(RedisWorld& server, const std::string& pair, std::map<std::string, int>& ledger) {
    const std::string reply = server.hit(pair);
    ASSERT_TRUE(reply.starts_with("OK ")) << reply;
    if (reply.starts_with("OK true")) ++ledger[pair];
  }
  // A pass, which is killed if it has not ended after `time`.
  void pass(const RedisWorld& rules_of, Milliseconds time) {
    const auto start = std::chrono::steady_clock::now();
    Process process({.arguments = {"store", "import-redis", "--from", single.address(),
                                   "--to-cluster", cluster.addresses()[0], "--config",
                                   rules_of.folder().path() + "/sluice.yaml"}});
    const auto status = process.wait(start + time);
    if (status) {
      EXPECT_EQ(*status, 0) << process.err();
      whole_pass =
          std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start);
      return;
    }
    ++killed;
    process.signal(SIGKILL);
    process.wait();
  }
  // A counter's value and expiry must be the same in both.
  void expect_copied(const std::string& actor) {
    const auto keys = client({"KEYS", "sluice:native:api:" + actor + ":*"}).list;
    ASSERT_EQ(keys.size(), 1u) << actor;
    const std::string &key = keys[0].text, there = clustered(key, actor);
    EXPECT_EQ(at({"GET", there}).text, client({"GET", key}).text) << actor;
    EXPECT_NEAR(static_cast<double>(at({"PEXPIRETIME", there}).number),
                static_cast<double>(client({"PEXPIRETIME", key}).number), 2)
        << actor;
  }
  // The number of keys in the cluster that contain `part`. A key without a TTL fails the test.
  size_t count(const std::string& part) {
    size_t found = 0;
    for (size_t i = 0; i < 3; ++i) {
      auto node = cluster.node(i).client();
      for (const auto& key : node({"KEYS", "*"}).list) {
        EXPECT_NE(node({"PTTL", key.text}).number, -1) << key.text;
        found += key.text.find(part) != std::string::npos ? 1u : 0u;
      }
    }
    return found;
  }
  int killed = 0;
  Milliseconds whole_pass{0};  // what the last pass that was not killed took, on this machine
};

TEST_F(RedisImportCrossing, NoUnitIsLostOrCountedTwice) {
  constexpr int actors = 60;
  auto before = old_server(), after = new_server();
  ASSERT_EQ(after->await_hit("r=first", "OK true"), "");
  std::map<std::string, int> old_units, new_units;
  std::vector<uint16_t> slots;
  for (int i = 0; i < 8; ++i) {
    const std::string actor = "n" + std::to_string(i);
    slots.push_back(redis::slot_of(clustered("sluice:native:api:" + actor, actor)));
  }
  Mover mover(cluster, slots);
  Dice dice(7);
  for (int round = 0; round < 12 || ((mover.moved < 4 || killed < 3) && round < 60); ++round) {
    for (int i = 0; i < 30; ++i) {
      hit(*before, "r=n" + std::to_string(dice(actors)), old_units);
      if (i % 3 == 0) hit(*before, "s=" + std::to_string(dice(9)), old_units);
      if (i % 3 == 1) hit(*after, "r=own" + std::to_string(dice(9)), new_units);
    }
    // Killed at a moment of its run that is drawn, however long the machine takes for one.
    pass(*before, round % 3 == 0 ? Milliseconds(20'000)
                                 : Milliseconds(dice(static_cast<int>(whole_pass.count()) + 1)));
  }
  mover.stop();
  std::printf("%d slots moved, %d passes killed\n", mover.moved.load(), killed);
  EXPECT_GE(mover.moved, 4);
  EXPECT_GE(killed, 3);
  import_json(*before);
  const nlohmann::json again = import_json(*before);
  EXPECT_EQ(again["imported"], 0) << again;
  EXPECT_EQ(again["replaced"], 0) << again;
  // The short windows end, also those of counters that were copied just before.
  EXPECT_TRUE(comes([&] { return count(":short:") == 0; }));
  for (const auto& [pair, units] : old_units)
    if (pair.starts_with("r=")) expect_copied(pair.substr(2));
  for (const auto* ledger : {&old_units, &new_units})
    for (const auto& [pair, units] : *ledger) {
      if (!pair.starts_with("r=")) continue;
      const std::string expected =
          units < 20 ? "OK true " + std::to_string(20 - units - 1) + " " : "OK false 0 ";
      EXPECT_EQ(after->hit(pair).substr(0, expected.size()), expected) << pair;
    }
}

}  // namespace
}  // namespace sluice::tests::redis_import_crossing_test
