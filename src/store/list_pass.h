// One walk through a store that answers several lists at once, so that n lists cost one walk: which
// counters each list wants, and the first of them found so far. Made by the caller of the lists;
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

// Which of many prefixes a text begins with. `group` tells texts of different kinds apart.
class PrefixIndex {
 public:
  void add(uint32_t group, std::string prefix, size_t number);
  // After the last `add`, before the first `each`.
  void close();
  // Calls `visit(number)` for every prefix of the group that `text` begins with.
  template <class Visit>
  void each(uint32_t group, std::string_view text, Visit&& visit) const;
  bool empty() const { return nodes_.empty(); }
  // What all prefixes begin with, of every group.
  std::string_view common() const;

 private:
  struct Node {
    uint32_t group;
    std::string prefix;
    size_t number;
    const Node* parent = nullptr;  // the longest other one that this one begins with
  };
  // The last node that is not behind (group, text); null: there is none.
  const Node* last_up_to(uint32_t group, std::string_view text) const;

  std::vector<Node> nodes_;  // sorted
};

class ListPass {
 public:
  // Of each list: it ends before either is passed, but never before its first key.
  struct Bounds {
    size_t keys, bytes;
  };
  explicit ListPass(Bounds bounds) : bounds_(bounds) {}

  // Adds a list, before the walk; returns its number, which it shares with those that ask for the
  // same.
  size_t add(const request::Space& space, std::string_view prefix);
  size_t size() const { return lists_.size(); }
  size_t keys_max() const { return bounds_.keys; }
  const request::Space& space(size_t number) const { return *lists_[number].space; }
  const std::string& prefix(size_t number) const { return lists_[number].prefix; }

  // One of those that asked for the list has gone.
  void cancel(size_t number);
  // All of them have.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  // False: the walk may end, as there is no list left that is needed.
  bool is_wanted() const {
    return wanted_.load(std::memory_order_relaxed) > 0 && !stopped_.load(std::memory_order_relaxed);
  }
  bool is_wanted(size_t number) const {
    return lists_[number].wanted.load(std::memory_order_relaxed) > 0;
  }

  // The walk's: there is a counter of that space with that key; it may be reported more than once.
  void visit(uint32_t space, std::string_view key);
  // The same for one list, whose prefix and space the counter is known to have.
  void offer(size_t number, std::string_view key);
  // The list could not be made.
  void fail(size_t number) { lists_[number].failed = true; }
  bool failed(size_t number) const { return lists_[number].failed; }

  // The keys of a list in byte order; after the walk, once.
  std::vector<std::string> take(size_t number);

 private:
  struct List {
    const request::Space* space = nullptr;
    std::string prefix;
    std::set<std::string, std::less<>> keys;
    size_t bytes = 0;                // of keys
    std::optional<std::string> cut;  // no key from here on
    std::atomic<uint32_t> wanted{0};
    bool failed = false;
  };

  const Bounds bounds_;
  std::deque<List> lists_;
  std::map<std::pair<uint32_t, std::string>, size_t> numbers_;
  std::optional<PrefixIndex> index_;  // from the first `visit` on
  std::atomic<size_t> wanted_{0};     // all that ask
  std::atomic<bool> stopped_{false};
};

template <class Visit>
void PrefixIndex::each(uint32_t group, std::string_view text, Visit&& visit) const {
  // Every prefix of `text` is an ancestor of the last node in front of it, or that node itself.
  const Node* node = last_up_to(group, text);
  while (node != nullptr && !text.starts_with(node->prefix)) node = node->parent;
  for (; node != nullptr; node = node->parent) visit(node->number);
}

}  // namespace sluice::store
