// A radix tree with lists of rule numbers under prefixes of texts: one walk along a value finds the
// lists of all its prefixes, whatever their lengths. Built with its rule set, then read by all
// threads; a walk allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/text.h"

namespace sluice::policy {

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

}  // namespace sluice::policy
