// Lists of limits that come with requests give way to others (request/limit_owners.h), and no
// counter loses anything by that: a table whose lists give way beside one that knows all for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "limit/limit.h"
#include "policy/inline_limits.h"
#include "request/charge.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::limit_shares_test {
namespace {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using request::Verb;

constexpr base::Duration century = base::seconds(int64_t{100} * 365 * 86'400);

struct Asked {
  Verb verb = Verb::take;
  std::string key;
  std::vector<Limit> limits;
  int64_t cost = 1;
  bool all = false;  // put
};
struct Answer {
  bool known = false;  // false: there are too many lists
  bool allowed = false;
  std::vector<Decision> decisions;
};

// A table in memory, and what a worker has of the lists.
struct Side {
  explicit Side(const request::LimitShares& its_shares, bool keeps_changes = false)
      : shares(its_shares) {
    if (keeps_changes) store.keep_changes();
  }

  Answer ask(uint64_t client, const Asked& asked, base::Time now, size_t worker = 0) {
    Answer answer;
    policy::InlineLimits& lists = workers[worker];
    lists.serve(client, now);
    const uint32_t id = lists.find(asked.limits);
    if (id == 0) return answer;
    answer.known = true;
    answer.decisions.resize(asked.limits.size());
    request::Charge charge;
    charge.space = space.get();
    charge.key = asked.key;
    charge.verb = asked.verb;
    charge.cost = asked.cost;
    charge.all = asked.all;
    charge.limits = spaces.limits(id);
    charge.limits_id = id;
    if (asked.verb == Verb::count) charge.counts = limit::all_of(asked.limits);
    request::Group group;
    group.charge_count = 1;
    store.apply({{&group, 1}, {&charge, 1}, answer.decisions}, now);
    answer.allowed = group.allowed;
    return answer;
  }
  // What live::LimitsCollector has done between two requests.
  void collect() {
    request::Marks marks = spaces.begin_round();
    for (policy::InlineLimits& lists : workers) lists.release_given_way();
    for (bool first = true; !store.mark_named(marks, first); first = false) continue;
    spaces.end_round(marks);
  }

  const request::LimitShares shares;
  request::Spaces spaces;
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  const request::SpaceRef space = policy::inline_space(spaces);
  std::array<policy::InlineLimits, 2> workers{policy::InlineLimits(spaces, shares),
                                              policy::InlineLimits(spaces, shares)};
};

// Of another kind (algorithm and window) than those with other numbers.
Limit random_limit(std::minstd_rand& dice, int64_t number) {
  static constexpr std::array algorithms = {Algorithm::fixed_window, Algorithm::aligned_window,
                                            Algorithm::token_bucket, Algorithm::sliding_window,
                                            Algorithm::sliding_log,  Algorithm::fixed_bucket,
                                            Algorithm::concurrency};
  const Algorithm algorithm = algorithms[dice() % (number == 0 ? 7 : 5)];
  const auto quota = static_cast<int64_t>(2 + dice() % 30);
  if (algorithm == Algorithm::fixed_bucket) return {algorithm, quota, {}, quota};
  base::Duration window = base::seconds(static_cast<int64_t>(1 + dice() % 50) * 10 + number);
  if (dice() % 3 == 0) window = {century.us - window.us};
  if (algorithm == Algorithm::concurrency) return {algorithm, quota, window, window.us};
  return {algorithm, quota, window,
          algorithm == Algorithm::token_bucket ? quota + static_cast<int64_t>(dice() % 3) : 0};
}

bool same(const Decision& a, const Decision& b) {
  return a.allowed == b.allowed && a.remaining == b.remaining && a.limit == b.limit &&
         a.retry_after == b.retry_after && a.reset_after == b.reset_after;
}

// Each key has lists of its own, as each client would; the lists of all are more than there may be.
void run_trial(uint32_t seed, bool keeps_changes) {
  std::minstd_rand dice(seed);
  Side forgets({.all = 40, .reserve = 10, .few = 3, .one = 6}, keeps_changes), remembers({});
  base::Time now{1'800'000'000'000'000};
  std::vector<std::vector<std::vector<Limit>>> lists(30);
  for (auto& of_key : lists) {
    of_key.resize(3);
    int64_t number = 0;
    for (auto& list : of_key)
      for (size_t i = 0; i <= dice() % 2; ++i) list.push_back(random_limit(dice, number++));
  }
  size_t asked = 0, refused = 0, written_elsewhere = 0;
  for (int step = 0; step < 40'000; ++step) {
    if (dice() % 4 == 0) now.us += static_cast<int64_t>(dice() % 3'000'000);
    if (dice() % 16 == 0) {
      forgets.collect();
      continue;
    }
    const size_t key = dice() % lists.size();
    static constexpr std::array verbs = {Verb::take, Verb::take,   Verb::take, Verb::peek,
                                         Verb::put,  Verb::charge, Verb::count};
    Asked one{.verb = verbs[dice() % verbs.size()],
              .key = "k" + std::to_string(key),
              .limits = lists[key][dice() % 3],
              .cost = static_cast<int64_t>(1 + dice() % 5)};
    one.all = one.verb == Verb::put && dice() % 8 == 0;
    if (one.all) one.cost = 0;
    const Answer answer = forgets.ask(1 + key % 7, one, now, dice() % 2);
    if (!answer.known) {
      ++refused;
      continue;
    }
    const Answer expected = remembers.ask(1, one, now);
    ASSERT_EQ(answer.allowed, expected.allowed) << step;
    for (size_t i = 0; i < expected.decisions.size(); ++i)
      ASSERT_TRUE(same(answer.decisions[i], expected.decisions[i])) << step << " limit " << i;
    ++asked;
    ASSERT_LE(forgets.spaces.known_lists(), forgets.shares.all + 1);
  }
  EXPECT_GT(asked, 15'000u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(forgets.spaces.brought().given_way, 2'000u);
  if (!keeps_changes) return;
  // What a store on disk is given has all of it too.
  Side restored({});
  forgets.store.collect([&](const request::CounterRecord& record) {
    if (record.cells.empty()) return;
    request::CounterRecord its = record;
    its.space = restored.space.get();
    const auto list = forgets.spaces.limits(record.limits_id);
    its.limits_id = restored.spaces.intern_limits(list);
    written_elsewhere += list.size() == 1 && list[0] == request::instead_limit ? 1u : 0u;
    EXPECT_EQ(restored.store.restore(its, true), store::Restored::yes);
  });
  EXPECT_GT(written_elsewhere, 0u);
  for (size_t key = 0; key < lists.size(); ++key) {
    for (const auto& list : lists[key]) {
      const Asked one{.verb = Verb::peek, .key = "k" + std::to_string(key), .limits = list};
      const Answer answer = restored.ask(1, one, now), expected = remembers.ask(1, one, now);
      for (size_t i = 0; i < expected.decisions.size(); ++i)
        EXPECT_TRUE(same(answer.decisions[i], expected.decisions[i])) << one.key << " limit " << i;
    }
  }
}

TEST(LimitShares, GivingWayChangesNoDecision) {
  run_trial(1, false);
}

TEST(LimitShares, GivingWayChangesNoDecisionOfAStoreThatIsCommitted) {
  run_trial(2, true);
}

Asked of_century(const std::string& key, int64_t quota) {
  return {.key = key, .limits = {{Algorithm::fixed_window, quota, century}}};
}

// One client brings ever new lists with windows of a century, which its counters name that long.
TEST(LimitShares, OneClientCannotUseUpTheListsOfAll) {
  constexpr request::LimitShares shares{.all = 8'000, .reserve = 1'000, .few = 20, .one = 500};
  Side side(shares);
  base::Time now{1'800'000'000'000'000};
  size_t refused = 0;
  for (int64_t i = 1; i <= 40'000; ++i) {
    now.us += 20;
    refused += side.ask(1, of_century("a" + std::to_string(i), i), now).known ? 0u : 1u;
    ASSERT_LE(side.spaces.known_lists(), 2 * shares.one + 1 + static_cast<size_t>(i / 400));
    const bool other_asks = i % 400 == 0;
    ASSERT_TRUE(!other_asks || side.ask(2, of_century("b", 1'000'000 + i), now, 1).known) << i;
    if (i % 3'000 == 0) side.collect();
  }
  EXPECT_GT(refused, 20'000u) << "until a round it can have no more than twice its share";
  EXPECT_LT(refused, 39'000u) << "after a round it brings new ones";
  EXPECT_GT(side.spaces.brought().given_way, 3'000u);
  EXPECT_EQ(side.spaces.brought().refused, refused);
  // Its counters were not reset by that.
  EXPECT_FALSE(side.ask(1, of_century("a1", 1), now).allowed);
}

// Many clients use up what there is: those with few lists still bring new ones at once.
TEST(LimitShares, TheReserveIsForClientsWithFewLists) {
  constexpr request::LimitShares shares{.all = 2'000, .reserve = 500, .few = 20, .one = 100};
  Side side(shares);
  base::Time now{1'800'000'000'000'000};
  size_t refused = 0;
  for (int64_t i = 1; i <= 20'000; ++i) {
    now.us += 20;
    const auto client = static_cast<uint64_t>(1 + i % 40);
    refused += side.ask(client, of_century("a" + std::to_string(i), i), now).known ? 0u : 1u;
    if (i % 100 == 0) {
      const auto other = static_cast<uint64_t>(1'000 + i / 200);
      ASSERT_TRUE(side.ask(other, of_century("b", 1'000'000 + i), now, 1).known) << i;
    }
    if (i % 4'000 == 0) side.collect();
  }
  EXPECT_GT(refused, 5'000u);
  EXPECT_LE(side.spaces.known_lists(), shares.all);
}

// After a start from a disk no list has an owner; they give way once they are in the way.
TEST(LimitShares, ListsOfRestoredCountersGiveWay) {
  constexpr request::LimitShares shares{.all = 1'000, .reserve = 100, .few = 50, .one = 60};
  Side side(shares);
  const base::Time now{1'800'000'000'000'000};
  const limit::State state{now.us + century.us, 1};
  side.store.set_loading(true);
  for (int64_t i = 1; i <= 1'000; ++i) {
    const auto list = of_century("", i).limits;
    const std::string key = "r" + std::to_string(i);
    const request::CounterRecord record{.space = side.space.get(),
                                        .limits_id = side.spaces.hold_limits(list).id(),
                                        .key = key,
                                        .cells = {&state, 1}};
    ASSERT_EQ(side.store.restore(record, true), store::Restored::yes);
  }
  side.store.set_loading(false);
  EXPECT_FALSE(side.ask(1, of_century("b", 5'000), now).known) << "the process knows too many";
  EXPECT_TRUE(side.spaces.wants_round());
  side.collect();
  EXPECT_LE(side.spaces.known_lists(), 1u);
  EXPECT_TRUE(side.ask(1, of_century("b", 5'000), now).known);
  EXPECT_FALSE(side.ask(1, of_century("r1", 1), now).allowed) << "it has used its only unit";
}

}  // namespace
}  // namespace sluice::engine::limit_shares_test
