// Which rules of a long list can apply to a request at all, in their order: each rule is filed
// under one of its conditions that few other rules share, by the entry's key and the text that its
// value must be or begin with, or the network that it must be in; under each of them if its
// condition is a list. Built with its rule set, then read by all threads; a lookup
// allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/prefix_tree.h"
#include "request/charge.h"

namespace sluice::policy {

struct Condition;
class Pattern;

class RuleIndex {
 public:
  // Files the next rule; they are numbered from 0 in the order in which they come.
  void add(std::span<const Condition> conditions);

  // Calls `visit(number)` in rising order for rules that may apply, every one that does among them,
  // until it returns false.
  template <class Visit>
  void candidates(std::span<const request::Entry> descriptor, Visit&& visit) const;

 private:
  using Numbers = PrefixTree::Numbers;

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <class T>
  using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  // Numbers by network; a lookup is one in the map for each length that networks have.
  struct Networks {
    struct Length {
      bool is_v6;
      unsigned bits;
      TextMap<Numbers> by_first;  // the bytes of a network's first address
    };
    std::vector<Length> lengths;
  };
  struct Key {
    TextMap<Numbers> values;
    PrefixTree prefixes;
    Networks networks;  // without a length: no value is read as an address
  };

  // How many rules are filed where a rule with that condition would be; of a list, where they are
  // most.
  size_t load_of(const std::string& key, const Pattern& pattern) const;
  Numbers& place_of(const std::string& key, const Pattern& pattern);
  void file(const std::string& key, const Pattern& pattern, uint32_t number);

  // Lists that are merged by their fronts. A request that meets more of them is shown every rule.
  class Merge {
   public:
    bool add(const Numbers& numbers) {
      if (numbers.empty()) return true;
      if (count_ == lists_.size()) return false;
      lists_[count_++] = {numbers.data(), numbers.data() + numbers.size()};
      return true;
    }
    // The next number that any list has, UINT32_MAX at the end.
    uint32_t next();

   private:
    struct List {
      const uint32_t *at, *end;
    };
    std::array<List, 128> lists_;
    size_t count_ = 0;
  };

  static bool gather_networks(const Networks& networks, std::string_view value, Merge& merge);
  bool gather(std::span<const request::Entry> descriptor, Merge& merge) const;

  TextMap<Key> keys_;
  Numbers unfiled_;  // that no single entry is needed for
  uint32_t count_ = 0;
};

template <class Visit>
void RuleIndex::candidates(std::span<const request::Entry> descriptor, Visit&& visit) const {
  Merge merge;
  if (!gather(descriptor, merge)) {
    for (uint32_t number = 0; number < count_; ++number) {
      if (!visit(number)) return;
    }
    return;
  }
  // A rule with a list may stand in several lists.
  for (uint32_t last = UINT32_MAX;;) {
    const uint32_t number = merge.next();
    if (number == last && number != UINT32_MAX) continue;
    if (number == UINT32_MAX || !visit(number)) return;
    last = number;
  }
}

}  // namespace sluice::policy
