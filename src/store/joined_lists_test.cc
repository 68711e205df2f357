// Charges that have units of their own for each limit of a counter (request::Charge::costs),
// against a counter for each limit alone: what such a group grants, takes and reports must be the
// same.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "limit/left_out.h"
#include "store/asking_test.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::store::tests {
namespace {

using sluice::tests::Dice;

constexpr int64_t minute_us = 60'000'000;

std::string text_of(const Decision& d) {
  return std::string(d.allowed ? "yes" : "no") + " limit " + std::to_string(d.limit) + " left " +
         std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) + " retry " +
         std::to_string(d.retry_after.us);
}

std::vector<Limit> list_of(Dice& dice) {
  std::vector<Limit> list;
  const auto size = 1 + dice(4);
  while (list.size() < static_cast<size_t>(size)) {
    const Algorithm algorithm =
        limit::bounds_check::counted[dice(std::size(limit::bounds_check::counted))];
    Limit limit{algorithm, 1 + dice(int64_t{12}), {minute_us * (1 + dice(int64_t{3}))}};
    limit = limit::bounds_check::limit_of(algorithm, limit.quota, limit.window.us);
    if (!limit::is_any_of_kind(list, limit)) list.push_back(limit);
  }
  return list;
}

struct Joint {
  Verb verb;
  std::vector<int64_t> costs;
  limit::LimitMask counts = 0;
  std::vector<int64_t> most_debt{};  // empty: no limit has an overdraft
  int64_t other = 0;  // units of a second counter in the same group; 0: there is none
};

// Both settle it; empty if they agree.
std::string compare(World& joined, World& apart, const std::vector<Limit>& list, const Joint& what,
                    base::Time now) {
  const Part second{"second", what.other, {window(7, minute_us)}};
  std::vector<Part> one{
      {"k", std::accumulate(what.costs.begin(), what.costs.end(), int64_t{0}), list}};
  std::vector<Part> each;
  for (size_t i = 0; i < list.size(); ++i)
    each.push_back({"k" + std::to_string(i), what.costs[i], {list[i]}});
  if (what.other > 0) {
    one.push_back(second);
    each.push_back(second);
  }
  Asked a = joined.prepare(one, what.verb), b = apart.prepare(each, what.verb);
  a.charges[0].costs = what.costs.data();
  a.charges[0].counts = what.counts;
  for (size_t i = 0; i < list.size(); ++i) b.charges[i].counts = limit::has(what.counts, i) ? 1 : 0;
  limit::Overdrafts all;
  std::vector<limit::Overdrafts> alone(what.most_debt.size());
  for (size_t i = 0; i < what.most_debt.size(); ++i) {
    all.add(list[i], what.most_debt[i]);
    alone[i].add(list[i], what.most_debt[i]);
    b.charges[i].overdrafts = &alone[i];
  }
  if (!what.most_debt.empty()) a.charges[0].overdrafts = &all;
  if (what.other > 0 && what.verb == Verb::count)
    a.charges[1].counts = b.charges[list.size()].counts = 0;
  joined.apply(a, now);
  apart.apply(b, now);
  std::string wrong;
  int64_t dropped = 0;
  for (size_t i = 0; i < list.size(); ++i) dropped = std::max(dropped, b.charges[i].dropped);
  if (a.charges[0].dropped != dropped)
    wrong += "dropped " + std::to_string(a.charges[0].dropped) + ", apart " +
             std::to_string(dropped) + "; ";
  if (a.allowed() != b.allowed()) wrong += "allowed " + std::to_string(a.allowed()) + "; ";
  for (size_t i = 0; i < a.decisions.size(); ++i)
    if (text_of(a[i]) != text_of(b[i]))
      wrong += std::to_string(i) + ": " + text_of(a[i]) + ", apart " + text_of(b[i]) + "; ";
  return wrong;
}

TEST(JoinedLists, RandomGroupsMatchACounterForEachLimit) {
  Dice dice(1);
  size_t refused = 0, granted = 0, owing = 0;
  for (int round = 0; round < 1'500; ++round) {
    World joined, apart;
    const auto list = list_of(dice);
    base::Time now{1'800'000'000'000'000 + dice(minute_us)};
    for (int step = 0; step < 25; ++step) {
      if (dice(3) > 0) now.us += dice(minute_us / 3);
      Joint what{dice(3) > 0 ? Verb::count : dice(2) == 0 ? Verb::charge : Verb::would_take, {}};
      for (size_t i = 0; i < list.size(); ++i) what.costs.push_back(dice(int64_t{5}));
      if (what.verb == Verb::count)
        what.counts = static_cast<limit::LimitMask>(dice(int64_t{limit::all_of(list)} + 1));
      if (dice(3) == 0) what.other = 1 + dice(int64_t{3});
      if (dice(2) == 0)
        for (size_t i = 0; i < list.size(); ++i) what.most_debt.push_back(dice(int64_t{6}));
      ASSERT_EQ(compare(joined, apart, list, what, now), "")
          << "round " << round << " step " << step;
      const Asked look = joined.ask({{"k", 0, list}}, now, Verb::peek);
      for (const Decision& d : look.decisions) owing += d.remaining < 0 ? 1u : 0u;
      if (what.verb == Verb::count) ++(look[0].remaining > 0 ? granted : refused);
    }
  }
  EXPECT_GT(granted, 1'000u);
  EXPECT_GT(refused, 1'000u);
  EXPECT_GT(owing, 1'000u);
}

// Two limits, all costs from 0 to 2 for each, three steps.
TEST(JoinedLists, EveryShortSequenceMatches) {
  const std::vector<Limit> list{window(3, minute_us), bucket(2, 2, minute_us)};
  constexpr int each = 9;
  for (int counts = 0; counts < 4; ++counts) {
    for (int code = 0; code < each * each * each; ++code) {
      World joined, apart;
      for (int step = 0, rest = code; step < 3; ++step, rest /= each) {
        Joint what{Verb::count, {rest % 3, rest % each / 3}};
        what.counts = static_cast<limit::LimitMask>(counts);
        ASSERT_EQ(
            compare(joined, apart, list, what, {1'800'000'000'000'000 + step * minute_us / 4}), "")
            << code << " step " << step;
      }
    }
  }
}

// Lists that come with requests, in turns and in any order: each limit is charged by those requests
// alone that bring it, and goes on with no other. So a counter for each limit is the same.
TEST(ListsInTurns, RandomRequestsMatchACounterForEachLimit) {
  Dice dice(2);
  request::Space like;
  like.carry = limit::CarryOver::apart;
  size_t refused = 0, returned = 0;
  for (int round = 0; round < 1'500; ++round) {
    World one, apart;
    one.space = one.spaces.intern("inline:", "", like);
    std::vector<Limit> all;
    for (const Algorithm algorithm : limit::bounds_check::counted) {
      Limit limit{algorithm, 1 + dice(int64_t{9}), {minute_us * (1 + dice(int64_t{3}))}};
      limit = limit::bounds_check::limit_of(algorithm, limit.quota, limit.window.us);
      if (!limit::has_runs(limit) || limit.quota < 8) all.push_back(limit);
    }
    base::Time now{1'800'000'000'000'000 + dice(minute_us)};
    std::vector<bool> used(all.size());
    for (int step = 0; step < 30; ++step) {
      if (dice(3) > 0) now.us += dice(minute_us);
      std::vector<size_t> chosen;
      for (size_t i = 0; i < all.size(); ++i)
        if (dice(3) == 0) chosen.insert(chosen.begin() + dice(std::ssize(chosen) + 1), i);
      if (chosen.empty()) continue;
      const Verb verbs[] = {Verb::take, Verb::take, Verb::put, Verb::peek, Verb::would_take};
      const Verb verb = verbs[dice(std::size(verbs))];
      const int64_t cost = dice(int64_t{4});
      Part part{"k", cost, {}};
      std::vector<Part> parts;
      for (const size_t i : chosen) {
        part.limits.push_back(all[i]);
        parts.push_back({"k" + std::to_string(i), cost, {all[i]}});
        returned += verb == Verb::put && used[i] ? 1u : 0u;
        used[i] = used[i] || verb == Verb::take;
      }
      const Asked a = one.ask({part}, now, verb), b = apart.ask(parts, now, verb);
      ASSERT_EQ(a.allowed(), b.allowed()) << "round " << round << " step " << step;
      for (size_t i = 0; i < chosen.size(); ++i)
        ASSERT_EQ(text_of(a[i]), text_of(b[i]))
            << "round " << round << " step " << step << " " << name_of(verb) << " "
            << name_of(part.limits[i].algorithm);
      if (verb == Verb::take) refused += a.allowed() ? 0u : 1u;
    }
  }
  EXPECT_GT(refused, 1'000u);
  EXPECT_GT(returned, 1'000u);
}

}  // namespace
}  // namespace sluice::store::tests
