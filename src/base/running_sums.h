// Values in the order of their numbers, each with a weight, and what the weights in front of any
// number add up to. A call visits some 2 log2(n) nodes, whatever the order of the calls: a treap
// whose priorities are hashes of numbers that clients do not choose, so no client can make it deep.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace sluice::base {

// Nodes that this thread has visited in any of them, ever: for tests, which cannot assert a time.
inline uint64_t& running_sums_visited() {
  thread_local uint64_t count = 0;
  return count;
}

template <class Value, class Sum>
class RunningSums {
 public:
  bool empty() const { return root_ == nullptr; }
  // Of all weights.
  Sum sum() const { return sum_of(root_); }

  // False: the number is there already, and nothing has changed.
  bool insert(uint64_t number, Sum weight, Value value) {
    if (find(number) != nullptr) return false;
    insert(root_, std::make_unique<Node>(number, weight, std::move(value)));
    return true;
  }
  // False: there is none.
  bool erase(uint64_t number) {
    if (find(number) == nullptr) return false;
    erase(root_, number);
    return true;
  }

  // Null: there is none.
  const Value* find(uint64_t number) const {
    const Node* at = root_.get();
    for (; at != nullptr && at->number != number;
         at = number < at->number ? at->left.get() : at->right.get())
      ++running_sums_visited();
    return at == nullptr ? nullptr : &at->value;
  }
  // The one with the smallest number, of those that there are.
  uint64_t first_number() const { return first_node().number; }
  const Value& first() const { return first_node().value; }

  // Of the weights of all smaller numbers, whether or not this one is there.
  Sum sum_before(uint64_t number) const {
    Sum before{};
    for (const Node* at = root_.get(); at != nullptr;) {
      ++running_sums_visited();
      if (at->number < number) {
        before += sum_of(at->left) + at->weight;
        at = at->right.get();
      } else {
        at = at->left.get();
      }
    }
    return before;
  }

 private:
  struct Node {
    Node(uint64_t its_number, Sum its_weight, Value its_value)
        : number(its_number),
          priority(mixed(its_number)),
          weight(its_weight),
          sum(its_weight),
          value(std::move(its_value)) {}
    const uint64_t number, priority;
    const Sum weight;
    Sum sum;  // of its own and of all below it
    Value value;
    std::unique_ptr<Node> left, right;
  };
  using Link = std::unique_ptr<Node>;

  static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
  }
  static Sum sum_of(const Link& place) { return place == nullptr ? Sum{} : place->sum; }
  static void update(Node& node) {
    ++running_sums_visited();
    node.sum = sum_of(node.left) + node.weight + sum_of(node.right);
  }

  const Node& first_node() const {
    const Node* at = root_.get();
    for (; at->left != nullptr; at = at->left.get()) ++running_sums_visited();
    return *at;
  }
  static void insert(Link& at, Link node) {
    if (at == nullptr || at->priority < node->priority) {
      split(std::move(at), node->number, node->left, node->right);
      at = std::move(node);
    } else {
      Link& side = node->number < at->number ? at->left : at->right;
      insert(side, std::move(node));
    }
    update(*at);
  }
  // Those with smaller numbers, and the others.
  static void split(Link all, uint64_t number, Link& smaller, Link& others) {
    if (all == nullptr) return;
    Node& node = *all;
    Link rest;
    if (node.number < number) {
      split(std::move(node.right), number, rest, others);
      node.right = std::move(rest);
      smaller = std::move(all);
    } else {
      split(std::move(node.left), number, smaller, rest);
      node.left = std::move(rest);
      others = std::move(all);
    }
    update(node);
  }
  static void erase(Link& at, uint64_t number) {
    if (at->number == number) {
      at = merged(std::move(at->left), std::move(at->right));
      return;
    }
    erase(number < at->number ? at->left : at->right, number);
    update(*at);
  }
  // All of the first come before all of the second.
  static Link merged(Link a, Link b) {
    if (a == nullptr) return b;
    if (b == nullptr) return a;
    Link& top = a->priority < b->priority ? b : a;
    if (&top == &a)
      a->right = merged(std::move(a->right), std::move(b));
    else
      b->left = merged(std::move(a), std::move(b->left));
    update(*top);
    Link all = std::move(top);
    return all;
  }

  Link root_;
};

}  // namespace sluice::base
