// A hash table of immutable nodes by rule and text. Any thread reads it without a lock while one
// thread changes it. A lookup mostly reads one cache line if it finds nothing, and two if it finds
// a node, whatever the number of nodes. Nodes and tables that were replaced go to a
// base::EpochReclaimer, so only its registered readers may look up, or a thread that holds the
// writer's lock. Internal to policy/overrides.cc.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/epoch_reclaimer.h"
#include "policy/override_memory.h"

namespace sluice::policy {

// `Node` has members `uint64_t hash, rule` and a `key` that can be compared with a text.
template <class Node>
class OverrideMap {
 public:
  explicit OverrideMap(base::EpochReclaimer& reclaimer) : reclaimer_(reclaimer) {}
  // The EpochReclaimer must have freed the retired nodes and tables before.
  ~OverrideMap() {
    for (Shard& shard : shards_) {
      const std::unique_ptr<Slots> slots(shard.slots.load(std::memory_order_relaxed));
      for (size_t i = 0; slots != nullptr && i <= slots->mask; ++i) {
        Node* const node = slots->at[i].node.load(std::memory_order_relaxed);
        if (node != nullptr && node != gone()) pool_.free(node);
      }
    }
  }
  OverrideMap(const OverrideMap&) = delete;
  OverrideMap& operator=(const OverrideMap&) = delete;

  // For readers. The node is valid until the reader's next Reader::pass.
  const Node* find(uint64_t hash, uint64_t rule, std::string_view key) const {
    const Slots* const slots = shard_of(hash).slots.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    for (size_t i = hash;; ++i) {
      const Slot& slot = slots->at[i & slots->mask];
      const Node* const node = slot.node.load(std::memory_order_acquire);
      if (node == nullptr) return nullptr;
      // The slot may have been given to another node meanwhile; then this one was removed.
      if (node == gone() || slot.hash.load(std::memory_order_relaxed) != hash) continue;
      if (node->rule == rule && node->key == key) return node;
    }
  }
  // Prefetches the memory that `find` reads first (the slot), and next (the node).
  void prefetch_slot(uint64_t hash) const {
    const Slots* const slots = shard_of(hash).slots.load(std::memory_order_acquire);
    if (slots != nullptr) __builtin_prefetch(&slots->at[hash & slots->mask]);
  }
  void prefetch_node(uint64_t hash) const {
    const Slots* const slots = shard_of(hash).slots.load(std::memory_order_acquire);
    if (slots == nullptr) return;
    const Slot& slot = slots->at[hash & slots->mask];
    const Node* const node = slot.node.load(std::memory_order_relaxed);
    if (node == nullptr || node == gone() || slot.hash.load(std::memory_order_relaxed) != hash)
      return;
    __builtin_prefetch(node);
    if constexpr (sizeof(Node) > 64) __builtin_prefetch(reinterpret_cast<const char*>(node) + 64);
  }

  // For the writer. Replaces a node of the same rule and text; readers see the old or the new one.
  template <class... Parts>
  void put(uint64_t hash, uint64_t rule, Parts&&... parts) {
    Node* const node = pool_.make(hash, rule, std::forward<Parts>(parts)...);
    Shard& shard = shard_of(hash);
    Slots* slots = shard.slots.load(std::memory_order_relaxed);
    Slot* const known = slots == nullptr ? nullptr : slot_of(*slots, hash, rule, node->key);
    if (known != nullptr) {
      retire(known->node.exchange(node, std::memory_order_acq_rel));
      return;
    }
    if (slots == nullptr || (shard.used + 1) * 2 > slots->mask + 1) slots = resize(shard);
    shard.used += insert(*slots, hash, node);
    ++shard.live;
  }

  // For the writer. False: there is no such node.
  bool remove(uint64_t hash, uint64_t rule, std::string_view key) {
    Shard& shard = shard_of(hash);
    Slots* const slots = shard.slots.load(std::memory_order_relaxed);
    Slot* const slot = slots == nullptr ? nullptr : slot_of(*slots, hash, rule, key);
    if (slot == nullptr) return false;
    retire(slot->node.exchange(gone(), std::memory_order_acq_rel));
    --shard.live;
    return true;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> hash{0};
    std::atomic<Node*> node{nullptr};  // null: never used
  };
  struct Slots {
    explicit Slots(size_t count)
        : mask(count - 1), at(static_cast<Slot*>(map_memory(count * sizeof(Slot)))) {
      for (size_t i = 0; i < count; ++i) new (&at[i]) Slot;
    }
    ~Slots() { unmap_memory(at, (mask + 1) * sizeof(Slot)); }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;
    const size_t mask;
    Slot* const at;
  };
  struct Shard {
    std::atomic<Slots*> slots{nullptr};
    size_t live = 0, used = 0;  // used: live slots, and those whose node was removed
  };
  // Shards, so that growing copies only a part of the table at a time.
  static constexpr size_t shard_bits = 4;
  static constexpr size_t slots_min = 256;

  // The mark of a slot whose node was removed.
  static Node* gone() {
    alignas(Node) static char nothing[1] = {};
    return reinterpret_cast<Node*>(nothing);
  }
  Shard& shard_of(uint64_t hash) { return shards_[hash >> (64 - shard_bits)]; }
  const Shard& shard_of(uint64_t hash) const { return shards_[hash >> (64 - shard_bits)]; }

  void retire(Node* node) {
    reclaimer_.retire(
        node,
        [](void* pool, void* it) { static_cast<Pool<Node>*>(pool)->free(static_cast<Node*>(it)); },
        &pool_);
  }

  template <class Key>
  static Slot* slot_of(Slots& slots, uint64_t hash, uint64_t rule, const Key& key) {
    for (size_t i = hash;; ++i) {
      Slot& slot = slots.at[i & slots.mask];
      const Node* const node = slot.node.load(std::memory_order_relaxed);
      if (node == nullptr) return nullptr;
      if (node != gone() && node->hash == hash && node->rule == rule && node->key == key)
        return &slot;
    }
  }

  // Returns 1 if the slot was never used before, else 0.
  static size_t insert(Slots& slots, uint64_t hash, Node* node) {
    for (size_t i = hash;; ++i) {
      Slot& slot = slots.at[i & slots.mask];
      const Node* const there = slot.node.load(std::memory_order_relaxed);
      if (there != nullptr && there != gone()) continue;
      slot.hash.store(hash, std::memory_order_relaxed);
      slot.node.store(node, std::memory_order_release);
      return there == nullptr ? 1 : 0;
    }
  }

  // Copies the shard into a table with room for twice its live nodes.
  Slots* resize(Shard& shard) {
    auto larger = std::make_unique<Slots>(std::max(slots_min, std::bit_ceil(4 * (shard.live + 1))));
    std::unique_ptr<Slots> old(shard.slots.load(std::memory_order_relaxed));
    for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
      Node* const node = old->at[i].node.load(std::memory_order_relaxed);
      if (node != nullptr && node != gone())
        insert(*larger, old->at[i].hash.load(std::memory_order_relaxed), node);
    }
    shard.used = shard.live;
    Slots* const now = larger.release();
    shard.slots.store(now, std::memory_order_release);
    reclaimer_.retire(std::move(old));
    return now;
  }

  base::EpochReclaimer& reclaimer_;
  Pool<Node> pool_;
  std::array<Shard, size_t{1} << shard_bits> shards_;
};

}  // namespace sluice::policy
