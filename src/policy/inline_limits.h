// Limits that come whole with a request, in place of a rule's: their counters are those of the key
// and the list of algorithms, so other numbers change the limits of the same counter, as a reload
// does. Which space and which number a list has is kept for the lists that were asked last; what
// is not asked any more is given back, and the collector forgets it (request/space.h). One for each
// worker, used by its thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/limit.h"
#include "request/space.h"

namespace sluice::policy {

// How the names of such counters begin; behind the key stands ":token_bucket,fixed_window".
inline constexpr std::string_view inline_prefix = "inline:";

// The algorithms of a list as such names have them: "token_bucket,fixed_window".
std::string algorithms_text(std::span<const limit::Limit> limits);

// Limits with the algorithms of such a text, whose numbers stand for nothing. Empty: it is none.
std::vector<limit::Limit> limits_named(std::string_view algorithms);

// The lists of algorithms that counters were charged by, for those who look for every counter of a
// key: the first base::bounds::inline_lists_max that the server has met. They stay for as long as
// it runs; later ones are not found by the key alone. Any thread; reading takes no lock.
class InlineLists {
 public:
  // Those of counters that a store has kept, in the order in which it met them.
  void add_known(request::Spaces& spaces);
  // Does nothing for a list that it has, and once it is full.
  void add(std::span<const limit::Limit> limits);
  // In order. Their numbers stand for nothing.
  std::span<const std::vector<limit::Limit>> all() const {
    return std::span(lists_).first(count_.load(std::memory_order_acquire));
  }

 private:
  std::array<std::vector<limit::Limit>, base::bounds::inline_lists_max> lists_;
  std::atomic<size_t> count_{0};
  std::mutex mutex_;  // of those who add
};

class InlineLimits {
 public:
  // `lists_max`: of all lists of limits that the process knows, those of rules and overrides
  // included; past it a list that is new is not found. `charged`: receives which lists counters are
  // charged by, and outlives this; null: none is.
  InlineLimits(request::Spaces& spaces, size_t lists_max, InlineLists* charged = nullptr);

  struct Found {
    request::SpaceRef space;
    request::LimitsRef limits;
    bool is_charged = false;  // InlineLists knows
  };
  // 1 to limit::slots_max limits; `charges`: a counter may come of it. Valid until the next call;
  // what is in a batch stays known for as long as the batch holds the live policy. Null: there are
  // too many.
  const Found* find(std::span<const limit::Limit> limits, bool charges);

  // Lists that are kept.
  size_t size() const { return known_.size(); }

 private:
  struct Less {
    bool operator()(const std::vector<limit::Limit>& a, const std::vector<limit::Limit>& b) const;
  };

  Found* find_known(std::span<const limit::Limit> limits);

  request::Spaces& spaces_;
  const size_t lists_max_;
  InlineLists* const charged_;
  std::map<std::vector<limit::Limit>, Found, Less> known_;
  std::vector<limit::Limit> asked_;  // scratch
};

}  // namespace sluice::policy
