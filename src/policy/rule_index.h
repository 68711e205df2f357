// An index that finds the rules of a long list that may apply to a request, in their order. Each
// rule is filed under one of its conditions, one that few other rules share: by the entry's key and
// the text that its value must equal or begin with, or the network that it must be in; if the
// condition is a list, under each of its values. Built with its rule set, then read by all threads;
// a lookup allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/text.h"
#include "request/request.h"

namespace sluice::policy {

// A radix tree with lists of rule numbers under prefixes of texts: one walk along a value finds the
// lists of all its prefixes, whatever their lengths. Built with its rule set, then read by all
// threads; a walk allocates nothing.

class PrefixTree {
 public:
  using Numbers = std::vector<uint32_t>;  // ascending

  // The list of a prefix, valid until the next call. If so many prefixes begin with each other that
  // a walk would find too many lists, it is the list of a shorter prefix.
  Numbers& place(std::string_view prefix) {
    size_t at = 0;
    for (size_t met = 0;;) {
      if (!nodes_[at].numbers.empty() && ++met == nested_max) return nodes_[at].numbers;
      if (prefix.empty()) return nodes_[at].numbers;
      const size_t i = nodes_[at].begins.find(prefix.front());
      if (i == std::string::npos) return leaf(at, prefix).numbers;
      const uint32_t child = nodes_[at].children[i];
      const size_t common = common_size(nodes_[child].label, prefix);
      at = common == nodes_[child].label.size() ? child : split(at, i, common);
      prefix.remove_prefix(common);
    }
  }

  // The size of the list that `place` would return.
  size_t load(std::string_view prefix) const {
    size_t at = 0;
    for (size_t met = 0;;) {
      const Node& node = nodes_[at];
      if (prefix.empty() || (!node.numbers.empty() && ++met == nested_max))
        return node.numbers.size();
      const uint32_t child = next(node, prefix);
      if (child == none) return 0;
      at = child;
      prefix.remove_prefix(nodes_[child].label.size());
    }
  }

  // Calls `visit(numbers)` for the list of every prefix of the value, until it returns false; then
  // returns false as well.
  template <class Visit>
  bool each(std::string_view value, Visit&& visit) const {
    for (uint32_t at = 0;;) {
      const Node& node = nodes_[at];
      if (!node.numbers.empty() && !visit(node.numbers)) return false;
      at = value.empty() ? none : next(node, value);
      if (at == none) return true;
      value.remove_prefix(nodes_[at].label.size());
    }
  }

 private:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr size_t nested_max = 32;

  struct Node {
    std::string label;  // the text between the parent and this node
    Numbers numbers;
    std::string begins;              // the first bytes of its children's labels
    std::vector<uint32_t> children;  // in the same order
  };

  static size_t common_size(std::string_view a, std::string_view b) {
    const size_t size = std::min(a.size(), b.size());
    return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + size, b.begin()).first -
                               a.begin());
  }

  // The child with whose whole label `text` begins, or none.
  uint32_t next(const Node& node, std::string_view text) const {
    const size_t i = node.begins.find(text.front());
    if (i == std::string::npos) return none;
    const uint32_t child = node.children[i];
    return begins_with(text, nodes_[child].label) ? child : none;
  }

  Node& leaf(size_t parent, std::string_view label) {
    nodes_[parent].begins += label.front();
    nodes_[parent].children.push_back(static_cast<uint32_t>(nodes_.size()));
    Node& node = nodes_.emplace_back();
    node.label = label;
    return node;
  }

  // Inserts a node between `parent` and its child i, after `size` bytes of the child's label.
  size_t split(size_t parent, size_t i, size_t size) {
    const auto middle = static_cast<uint32_t>(nodes_.size());
    const uint32_t child = nodes_[parent].children[i];
    Node& node = nodes_.emplace_back();
    Node& below = nodes_[child];
    node.label = below.label.substr(0, size);
    below.label.erase(0, size);
    node.begins = below.label.front();
    node.children.push_back(child);
    nodes_[parent].children[i] = middle;
    return middle;
  }

  std::vector<Node> nodes_{1};  // the first is the root, for the empty prefix
};

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
    struct NumberList {
      const uint32_t *at, *end;
    };
    std::array<NumberList, 128> lists_;
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
