// One walk through a store that answers several lists at once, so that n lists cost one walk. Holds
// what each list searches for, and the first keys found so far. Made by the caller of the lists;
// one thread fills it, `cancel` and `stop` may be called from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "request/space.h"

namespace sluice::store {

// Finds which of many prefixes a text begins with. Each prefix belongs to a group, and is compared
// only with texts of that group.
class PrefixIndex {
 public:
  void add(uint32_t group, std::string prefix, size_t number);
  // Must be called after the last `add` and before the first `each`.
  void close();
  // Calls `visit(number)` for every prefix of the group that `text` begins with.
  template <class Visit>
  void each(uint32_t group, std::string_view text, Visit&& visit) const;
  bool empty() const { return nodes_.empty(); }
  // The text that all prefixes of all groups begin with.
  std::string_view common() const;

 private:
  struct Node {
    uint32_t group;
    std::string prefix;
    size_t number;
    const Node* parent = nullptr;  // the longest other prefix that this one begins with
  };
  // The last node that is not greater than (group, text); null: there is none.
  const Node* last_up_to(uint32_t group, std::string_view text) const;

  std::vector<Node> nodes_;  // sorted
};

class ListPass {
 public:
  // The bounds of each list. It ends before it exceeds one, but has at least one key.
  struct Bounds {
    size_t keys, bytes;
  };
  explicit ListPass(Bounds bounds) : bounds_(bounds) {}

  // Adds a list, before the walk, and returns its number. Lists with the same space and prefix have
  // the same number.
  size_t add(const request::Space& space, std::string_view prefix);
  size_t size() const { return lists_.size(); }
  size_t keys_max() const { return bounds_.keys; }
  const request::Space& space(size_t number) const { return *lists_[number].space; }
  const std::string& prefix(size_t number) const { return lists_[number].prefix; }

  // One of the clients of the list has gone.
  void cancel(size_t number);
  // All clients have gone.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  // False: the walk may end, as there is no list left that is needed.
  bool is_wanted() const {
    return wanted_.load(std::memory_order_relaxed) > 0 && !stopped_.load(std::memory_order_relaxed);
  }
  bool is_wanted(size_t number) const {
    return lists_[number].wanted.load(std::memory_order_relaxed) > 0;
  }

  // Called by the walk for a counter of that space with that key, perhaps more than once for one
  // counter.
  void visit(uint32_t space, std::string_view key);
  // The same for one list, when the counter is known to match its space and prefix.
  void offer(size_t number, std::string_view key);
  // The list could not be completed.
  void fail(size_t number) { lists_[number].failed = true; }
  bool failed(size_t number) const { return lists_[number].failed; }

  // Returns the keys of a list in byte order. After the walk, once for each list.
  std::vector<std::string> take(size_t number);

 private:
  struct WantedKeys {
    const request::Space* space = nullptr;
    std::string prefix;
    std::set<std::string, std::less<>> keys;
    size_t bytes = 0;                // of keys
    std::optional<std::string> cut;  // keys from here on are left out
    std::atomic<uint32_t> wanted{0};
    bool failed = false;
  };

  const Bounds bounds_;
  std::deque<WantedKeys> lists_;
  std::map<std::pair<uint32_t, std::string>, size_t> numbers_;
  std::optional<PrefixIndex> index_;  // made by the first `visit`
  std::atomic<size_t> wanted_{0};     // clients that still want their list
  std::atomic<bool> stopped_{false};
};

template <class Visit>
void PrefixIndex::each(uint32_t group, std::string_view text, Visit&& visit) const {
  // Every prefix of `text` is this node or an ancestor of it.
  const Node* node = last_up_to(group, text);
  while (node != nullptr && !text.starts_with(node->prefix)) node = node->parent;
  for (; node != nullptr; node = node->parent) visit(node->number);
}

}  // namespace sluice::store
