// Lists of rule numbers under prefixes of text: a radix tree, in which one walk down a value meets
// every prefix of it, however many sizes they have. Built with its rule set, then read by all
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
  using Numbers = std::vector<uint32_t>;  // rising

  // The list of a prefix, valid until the next call. Under a shorter one where so many are
  // prefixes of each other that a walk would meet too many lists.
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

  // How many numbers are where `place` would lead.
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

  // Calls `visit(numbers)` for every list under a prefix of the value, until it returns false.
  // False: it did.
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
    std::string label;  // from its parent to it
    Numbers numbers;
    std::string begins;              // of its children's labels, one byte each
    std::vector<uint32_t> children;  // in the same order
  };

  static size_t common_size(std::string_view a, std::string_view b) {
    const size_t size = std::min(a.size(), b.size());
    return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + size, b.begin()).first -
                               a.begin());
  }

  // The child whose whole label `text` begins with, or none.
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

  // A node between `parent` and its i-th child, behind `size` bytes of that one's label.
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

  std::vector<Node> nodes_{1};  // the first is the root, of the empty prefix
};

}  // namespace sluice::policy
