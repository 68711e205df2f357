// Limits that come with a request in place of a rule's. Their counter is named by the key and the
// list of algorithms, so a request with other quotas or windows changes the limits of the same
// counter, as a reload does. An InlineLimits remembers the space and the number of the lists that
// were used last; it releases the others, which the collector then forgets (request/space.h). Each
// worker has one, used by its thread.
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

// The beginning of the names of such counters; they end with ":token_bucket,fixed_window".
inline constexpr std::string_view inline_prefix = "inline:";

// The algorithms of a list as those names contain them: "token_bucket,fixed_window".
std::string algorithms_text(std::span<const limit::Limit> limits);

// Limits with the algorithms of such a text; their numbers have no meaning. Empty: it is not such a
// text.
std::vector<limit::Limit> limits_named(std::string_view algorithms);

// The lists of algorithms under which counters were charged, so that all counters of a key can be
// found. It keeps the first base::bounds::inline_lists_max lists while the server runs; counters of
// later lists are not found by their key alone. Any thread; reading takes no lock.
class InlineLists {
 public:
  // Adds the lists of the counters that the store has kept, in the order in which it met them.
  void add_known(request::Spaces& spaces);
  // Does nothing if the list is known, or if there is no room.
  void add(std::span<const limit::Limit> limits);
  // In the order in which they were added. The numbers of these limits have no meaning.
  std::span<const std::vector<limit::Limit>> all() const {
    return std::span(lists_).first(count_.load(std::memory_order_acquire));
  }

 private:
  std::array<std::vector<limit::Limit>, base::bounds::inline_lists_max> lists_;
  std::atomic<size_t> count_{0};
  std::mutex mutex_;  // held while a list is added
};

class InlineLimits {
 public:
  // `lists_max`: the most lists of limits that the process may know, with those of rules and
  // overrides; beyond it `find` returns null for a new list. `charged` receives the lists under
  // which counters are charged, and outlives this object; null: there is no receiver.
  InlineLimits(request::Spaces& spaces, size_t lists_max, InlineLists* charged = nullptr);

  struct Found {
    request::SpaceRef space;
    request::LimitsRef limits;
    bool is_charged = false;  // InlineLists has received the list
  };
  // The space and number for 1 to limit::slots_max limits. `charges`: a counter may be created
  // under them. The result is valid until the next call; the entries that it names stay known while
  // the batch holds the live policy. Null: the process knows too many lists.
  const Found* find(std::span<const limit::Limit> limits, bool charges);

  // The number of lists that are remembered.
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
