// What limits of each kind would have granted if nothing but their largest had ever been in force:
// the model for lists of limits that change while counters are used. It keeps an account for each
// kind for ever, charges it with what was granted while the kind was in force, and knows nothing of
// carrying over. For tests only.
//
// All lists must have the same length for a fixed_window: a window that continues the open one of
// another length is not the model's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "limit/decide.h"
#include "testing/bounds_check.h"

namespace sluice::limit {

class GrantsModel {
 public:
  explicit GrantsModel(const std::vector<std::vector<Limit>>& lists) {
    for (const auto& list : lists)
      for (const Limit& limit : list) add(limit);
  }

  // Charges what was granted under `list`. Empty: every account had room for it.
  std::string grant(const std::vector<Limit>& list, int64_t cost, Time now) {
    std::string wrong;
    for (Account& account : accounts_) {
      const auto its = std::find_if(list.begin(), list.end(), [&](const Limit& limit) {
        return same_kind(limit, account.largest);
      });
      if (its == list.end()) continue;
      account.largest.window = its->window;  // of another lease: only concurrency has one
      const Decision d =
          decide(account.cells.data(), account.largest, cost, now, account.cells.data());
      if (!d.allowed)
        wrong += "over-granted: " + std::string(name_of(account.largest.algorithm)) + " " +
                 std::to_string(account.largest.quota) + " per " +
                 std::to_string(account.largest.window.us) + " had " + std::to_string(d.remaining) +
                 "; ";
    }
    return wrong;
  }

  // Puts units back: to the kinds in force, and to fixed buckets, whose units come back only so.
  void put(const std::vector<Limit>& list, int64_t units, Time now) {
    for (Account& account : accounts_) {
      if (account.largest.algorithm != Algorithm::fixed_bucket &&
          std::none_of(list.begin(), list.end(),
                       [&](const Limit& limit) { return same_kind(limit, account.largest); }))
        continue;
      limit::put(account.cells.data(), account.largest, units, false, now, account.cells.data());
    }
  }

 private:
  struct Account {
    Limit largest;
    Cells cells;
  };

  void add(const Limit& limit) {
    if (!has_counter(limit.algorithm)) return;
    for (Account& account : accounts_) {
      if (!same_kind(account.largest, limit)) continue;
      account.largest.quota = std::max(account.largest.quota, limit.quota);
      account.largest.burst = std::max(account.largest.burst, limit.burst);
      account.cells.assign(cells(account.largest), {});
      return;
    }
    accounts_.push_back({limit, Cells(cells(limit))});
  }

  std::vector<Account> accounts_;
};

// Lists of a few small limits, with one limit of a kind in each. The later lists have limits of
// their own, or the first list's in reverse order, some with other numbers, some left out.
// `dice(n)`: 0 to n - 1.
template <class Dice>
std::vector<std::vector<Limit>> any_lists(Dice& dice, int64_t unit_us) {
  using bounds_check::counted;
  const auto with_quota = [&](Limit limit) {
    limit.quota = 1 + dice(int64_t{8});
    if (limit.algorithm == Algorithm::token_bucket) limit.burst = 1 + dice(int64_t{8});
    if (limit.algorithm == Algorithm::fixed_bucket) limit.burst = limit.quota;
    return limit;
  };
  const auto any_limit = [&] {
    Limit limit{counted[dice(std::size(counted))], 1, {unit_us * (1 + dice(int64_t{3}))}};
    if (limit.algorithm == Algorithm::fixed_window) limit.window.us = 2 * unit_us;
    if (limit.algorithm == Algorithm::fixed_bucket) limit.window = {};
    if (limit.algorithm == Algorithm::concurrency) limit.burst = limit.window.us;
    return with_quota(limit);
  };
  std::vector<std::vector<Limit>> lists;
  for (int i = 0; i < 4; ++i) {
    std::vector<Limit> list;
    if (i > 0 && dice(2) == 0) {
      list = lists[0];
      std::reverse(list.begin(), list.end());
      if (dice(2) == 0) list.pop_back();
      for (Limit& limit : list)
        if (dice(2) == 0) limit = with_quota(limit);
    }
    for (int n = 1 + dice(3); n > 0 && (list.empty() || dice(3) == 0); --n) {
      const Limit limit = any_limit();
      if (std::none_of(list.begin(), list.end(),
                       [&](const Limit& other) { return same_kind(other, limit); }))
        list.push_back(limit);
    }
    lists.push_back(list);
  }
  return lists;
}

}  // namespace sluice::limit
