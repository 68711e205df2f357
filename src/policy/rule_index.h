// An index that finds the rules of a long list that may apply to a request, in their order. Each
// rule is filed under one of its conditions, one that few other rules share: by the entry's key and
// the text that its value must equal or begin with, or the network that it must be in; if the
// condition is a list, under each of its values. Built with its rule set, then read by all threads;
// a lookup allocates nothing.
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
  // Files the next rule. Rules are numbered from 0 in the order of these calls.
  void add(std::span<const Condition> conditions);

  // Calls `visit(number)`, in ascending order, for all rules that apply and perhaps some that do
  // not, until it returns false.
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

  // Numbers by network. A lookup looks once into the map for each prefix length in use.
  struct Networks {
    struct Length {
      bool is_v6;
      unsigned bits;
      TextMap<Numbers> by_first;  // by the bytes of the network's first address
    };
    std::vector<Length> lengths;
  };
  struct Key {
    TextMap<Numbers> values;
    PrefixTree prefixes;
    Networks networks;  // if no length is in use, values are not parsed as addresses
  };

  // The number of rules in the place where a rule with that condition would be filed; for a list,
  // in the fullest of its places.
  size_t load_of(const std::string& key, const Pattern& pattern) const;
  Numbers& place_of(const std::string& key, const Pattern& pattern);
  void file(const std::string& key, const Pattern& pattern, uint32_t number);

  // Merges ascending lists. If a request meets more lists than fit, every rule is visited.
  class Merge {
   public:
    bool add(const Numbers& numbers) {
      if (numbers.empty()) return true;
      if (count_ == lists_.size()) return false;
      lists_[count_++] = {numbers.data(), numbers.data() + numbers.size()};
      return true;
    }
    // The next number of any list; UINT32_MAX at the end.
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
  Numbers unfiled_;  // rules that do not require any single entry
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
  // A rule whose condition is a list may be in several places.
  for (uint32_t last = UINT32_MAX;;) {
    const uint32_t number = merge.next();
    if (number == last && number != UINT32_MAX) continue;
    if (number == UINT32_MAX || !visit(number)) return;
    last = number;
  }
}

}  // namespace sluice::policy
