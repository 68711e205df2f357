#include "policy/overrides.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "base/epoch_reclaimer.h"
#include "base/hash.h"
#include "policy/actor_name.h"

namespace sluice::policy {

// Memory for many small objects that are looked up at random places. It uses huge pages where the
// system has them, because such a lookup mostly waits for address translation. Internal to
// policy/overrides.cc; one thread at a time.

inline constexpr size_t huge_page_bytes = size_t{2} << 20;

// Returns zeroed memory; it is given back with the same `bytes`.
inline void* map_memory(size_t bytes) {
  const bool huge = bytes >= huge_page_bytes;
  bytes = (bytes + (huge ? huge_page_bytes : 4096) - 1) & ~((huge ? huge_page_bytes : 4096) - 1);
  // Some more, so that it can begin at the start of a huge page.
  const size_t room = bytes + (huge ? huge_page_bytes : 0);
  void* const at = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return at;
  char* const begin = static_cast<char*>(at);
  const size_t skip =
      (huge_page_bytes - reinterpret_cast<size_t>(at) % huge_page_bytes) % huge_page_bytes;
  if (skip > 0) munmap(begin, skip);
  if (skip < huge_page_bytes) munmap(begin + skip + bytes, huge_page_bytes - skip);
  madvise(begin + skip, bytes, MADV_HUGEPAGE);
  return begin + skip;
}

inline void unmap_memory(void* at, size_t bytes) {
  const size_t page = bytes >= huge_page_bytes ? huge_page_bytes : 4096;
  munmap(at, (bytes + page - 1) & ~(page - 1));
}

// A pool for objects of one type, which are taken and given back one at a time. Its memory returns
// to the system only when the pool is destroyed.
template <class T>
class Pool {
 public:
  Pool() = default;
  ~Pool() {
    for (const auto& [at, bytes] : chunks_) unmap_memory(at, bytes);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  template <class... Parts>
  T* make(Parts&&... parts) {
    static_assert(sizeof(T) >= sizeof(void*) && alignof(T) <= 4096);
    if (free_ == nullptr && next_ == end_) grow();
    void* place = free_;
    if (place != nullptr)
      free_ = *static_cast<void**>(free_);
    else
      place = std::exchange(next_, next_ + sizeof(T));
    try {
      return new (place) T{std::forward<Parts>(parts)...};
    } catch (...) {
      put_back(place);
      throw;
    }
  }
  void free(T* one) {
    one->~T();
    put_back(one);
  }

 private:
  void put_back(void* place) {
    *static_cast<void**>(place) = free_;
    free_ = place;
  }
  void grow() {
    const size_t bytes =
        chunks_.empty() ? size_t{64} << 10 : std::min(chunks_.back().second * 4, size_t{16} << 20);
    chunks_.reserve(chunks_.size() + 1);
    char* const at = static_cast<char*>(map_memory(bytes));
    chunks_.emplace_back(at, bytes);
    next_ = at;
    end_ = at + bytes / sizeof(T) * sizeof(T);
  }

  std::vector<std::pair<void*, size_t>> chunks_;
  char *next_ = nullptr, *end_ = nullptr;
  void* free_ = nullptr;
};

// A hash table of immutable nodes by rule and text. Any thread reads it without a lock while one
// thread changes it. A lookup mostly reads one cache line if it finds nothing, and two if it finds
// a node, whatever the number of nodes. Nodes and tables that were replaced go to a
// base::EpochReclaimer, so only its registered readers may look up, or a thread that holds the
// writer's lock. Internal to policy/overrides.cc.

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

  // For the writer; the reclaimer has room for one. Replaces a node of the same rule and text;
  // readers see the old or the new one. Throws std::bad_alloc: nothing has changed.
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
    if (slots == nullptr || (shard.used + 1) * 2 > slots->mask + 1) slots = resize_for(shard, node);
    shard.used += insert(*slots, hash, node);
    ++shard.live;
  }

  // For the writer; the reclaimer has room for one. False: there is no such node.
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

  // As resize. Without memory it frees the node, which has no place then, and throws.
  Slots* resize_for(Shard& shard, Node* node) {
    try {
      return resize(shard);
    } catch (...) {
      pool_.free(node);
      throw;
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

namespace {

// The lengths of the texts under which patterns are filed. Bit i of a rule's mask: lengths[i].
constexpr std::array<size_t, 26> lengths = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                            13, 14, 15, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64};

size_t length_index(size_t prefix) {
  return static_cast<size_t>(std::upper_bound(lengths.begin(), lengths.end(), prefix) -
                             lengths.begin()) -
         1;
}

uint64_t hash_of(uint64_t rule, std::string_view key) {
  return XXH3_64bits(key.data(), key.size()) ^ (rule * 0x9E3779B97F4A7C15u);
}

// Hashes a text and all its beginnings in one pass. The hash has no secret key, because only
// clients that may set overrides choose what the table holds.
class PrefixHash {
 public:
  explicit PrefixHash(uint64_t rule) : state_(rule ^ 0xD6E8FEB86659FD93u) {}
  void add(std::string_view bytes) {
    for (const char c : bytes)
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x9E3779B97F4A7C15u;
  }
  uint64_t value() const {
    uint64_t h = state_;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
  }

 private:
  uint64_t state_;
};

uint64_t prefix_hash_of(uint64_t rule, std::string_view prefix) {
  PrefixHash hash(rule);
  hash.add(prefix);
  return hash.value();
}

using Values = std::vector<ActorValue>;

// What cannot be read is a text.
Values values_of(std::span<const std::string> actor) {
  Values values;
  for (const std::string& name : actor) {
    auto value = ActorValue::read(name, true);
    values.push_back(value ? *std::move(value) : ActorValue::of_text(name));
  }
  return values;
}

bool is_pattern(const Values& actor) {
  return !std::ranges::all_of(actor, &ActorValue::is_text);
}

// The key of an actor that is not a pattern.
std::string key_of(const Values& actor) {
  std::vector<std::string> texts;
  for (const ActorValue& value : actor) texts.push_back(value.text());
  return key_text(texts);
}

// Removes and returns the part of `key` before the first unescaped `|`, or all of it; the `|` is
// removed as well.
std::string_view next_segment(std::string_view& key) {
  size_t end = 0;
  while (end < key.size() && key[end] != '|') end += key[end] == '\\' ? size_t{2} : size_t{1};
  end = std::min(end, key.size());
  const std::string_view segment = key.substr(0, end);
  key.remove_prefix(std::min(end + 1, key.size()));
  return segment;
}

// The segment without escapes; a view of the segment itself if it has none, else of `room`.
std::string_view unescaped(std::string_view segment, std::string& room) {
  if (segment.find('\\') == segment.npos) return segment;
  room.clear();
  for (size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '\\' && i + 1 < segment.size()) ++i;
    room += segment[i];
  }
  return room;
}

// Lists of texts go before what has stars or networks.
constexpr size_t listed_texts_rank = size_t{1} << 24;

// The order of precedence between patterns.
struct Rank {
  size_t literal = 0;  // ActorValue::literal_bytes of all values; lists of texts have more
  limit::Time set{};
  uint64_t id = 0;
  bool goes_before(const Rank& other) const {
    if (literal != other.literal) return literal > other.literal;
    if (set != other.set) return set > other.set;
    return id > other.id;
  }
};

Rank rank_of(const Override& one, const Values& actor) {
  Rank rank{0, one.set, one.terms.id};
  for (const ActorValue& value : actor) rank.literal += value.literal_bytes();
  if (std::ranges::all_of(actor, &ActorValue::is_texts)) rank.literal += listed_texts_rank;
  return rank;
}

struct OnePattern {
  std::string text;  // the actor's key_text
  Values values;
  Rank rank;
  Override::Terms terms;

  bool fits(std::string_view key, MatchSteps& steps) const {
    if (values.size() == 1) return values.front().matches(key, steps);
    thread_local std::string room;  // keeps the size of the longest value with an escape
    for (const ActorValue& value : values)
      if (!value.matches(unescaped(next_segment(key), room), steps)) return false;
    return true;
  }
};

// A text that is stored within its node if it is short.
class NearText {
 public:
  NearText(std::string_view text) : size_(static_cast<uint32_t>(text.size())) {
    char* const room = size_ <= sizeof near_ ? near_ : (far_ = new char[size_]);
    std::copy(text.begin(), text.end(), room);
  }
  ~NearText() {
    if (size_ > sizeof near_) delete[] far_;
  }
  NearText(const NearText&) = delete;
  NearText& operator=(const NearText&) = delete;
  std::string_view view() const { return {size_ <= sizeof near_ ? near_ : far_, size_}; }
  friend bool operator==(const NearText& a, std::string_view b) { return a.view() == b; }
  friend bool operator==(const NearText& a, const NearText& b) { return a.view() == b.view(); }

 private:
  uint32_t size_;
  union {
    char near_[24];
    char* far_;
  };
};

// The terms of an exact override, or of a pattern that consists of `key` and a star.
struct alignas(128) TermsNode {
  uint64_t hash, rule;
  NearText key;
  Override::Terms terms;
  uint32_t literal;
  limit::Time set;
  Rank rank() const { return {literal, set, terms.id}; }
};
static_assert(sizeof(TermsNode) == 128);

// The patterns that are filed under the same text, in their order of precedence.
struct ListNode {
  uint64_t hash, rule;
  std::string key;
  std::vector<std::shared_ptr<const OnePattern>> all;
};

// The lengths under which a rule has patterns: single ones with a place of their own, and lists.
struct RuleNode {
  uint64_t hash, rule;
  std::string key;
  uint32_t single, listed;
};

using Patterns = std::vector<std::shared_ptr<const OnePattern>>;

// Removes the pattern with that text. False: there is none.
bool take_out(Patterns& all, const std::string& text, const request::Space*& its_space) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const auto& other) { return other->text == text; });
  if (at == all.end()) return false;
  its_space = (*at)->terms.space;
  all.erase(at);
  return true;
}

// The text with which every key begins that the pattern matches.
std::string beginning_of(const Values& actor) {
  std::vector<std::string> literals;
  for (const ActorValue& value : actor) {
    if (value.is_text()) {
      literals.push_back(value.text());
      continue;
    }
    const Pattern* const pattern = value.pattern();
    literals.emplace_back(pattern == nullptr ? std::string_view() : pattern->literal());
    break;
  }
  if (actor.size() == 1) return literals.front();
  literals.emplace_back();  // so that a single value is escaped as well
  std::string begin = key_text(literals);
  begin.pop_back();  // the `|` before that empty value
  return begin;
}

// Does the pattern match every key that begins with `beginning`, and is that of one of `lengths`?
bool is_single(const Values& actor, std::string_view beginning) {
  if (!std::binary_search(lengths.begin(), lengths.end(), beginning.size())) return false;
  bool starred = false;
  for (const ActorValue& value : actor) {
    const Pattern* const pattern = value.pattern();
    if (starred && (pattern == nullptr || pattern->text() != "*")) return false;
    if (value.is_text()) continue;
    if (pattern == nullptr || pattern->literal().size() + 1 != pattern->text().size()) return false;
    starred = true;
  }
  return starred;
}

std::optional<std::string> filed(const Values& actor) {
  if (!is_pattern(actor)) return std::nullopt;
  std::string begin = beginning_of(actor);
  if (is_single(actor, begin)) return std::nullopt;
  begin.resize(lengths[length_index(begin.size())]);
  return begin;
}

}  // namespace

std::string key_text(std::span<const std::string> values) {
  std::string room;
  const std::string_view text = key_text(
      values.size(), [&](size_t i) -> std::string_view { return values[i]; },
      [&](size_t bytes) -> char* {
        room.resize(bytes);
        return &room[0];
      });
  return std::string(text);
}

std::optional<std::vector<std::string>> key_values(std::string_view key, size_t count) {
  if (count == 1) return std::vector<std::string>{std::string(key)};
  std::vector<std::string> values;
  std::string room;
  const std::string_view all = key;
  while (values.size() < count) values.emplace_back(unescaped(next_segment(key), room));
  // A text in any other spelling is not the key of a counter.
  if (key_text(values) != all) return std::nullopt;
  return values;
}

struct Overrides::Tables {
  explicit Tables(base::EpochReclaimer& reclaimer)
      : exact(reclaimer), singles(reclaimer), lists(reclaimer), rules(reclaimer) {}

  OverrideMap<TermsNode> exact, singles;
  OverrideMap<ListNode> lists;
  OverrideMap<RuleNode> rules;
  // For the writer only: how many patterns of each length a rule has, and how many overrides set
  // each flag.
  struct Counts {
    std::array<uint32_t, lengths.size()> single{}, listed{};
  };
  std::unordered_map<uint64_t, Counts> counts;
  std::array<std::array<uint32_t, 2>, 4096> flag_counts{};
};

Overrides::Overrides() : tables_(std::make_unique<Tables>(reclaimer_)) {
  static_assert(std::tuple_size_v<decltype(flags_)> ==
                std::tuple_size_v<decltype(Tables::flag_counts)>);
  // Without an interned number: limits without a counter are not stored anywhere.
  static constexpr limit::Limit deny[] = {{limit::Algorithm::deny, 0, {}, 0}};
  too_costly_.limits = deny;
}

Overrides::~Overrides() {
  reclaimer_.free_all();
}

std::optional<std::string> Overrides::filed_under(std::span<const std::string> actor) {
  return filed(values_of(actor));
}

size_t Overrides::alike(uint64_t rule, std::string_view filed_under) const {
  const std::lock_guard lock(mutex_);
  const ListNode* const node =
      tables_->lists.find(prefix_hash_of(rule, filed_under), rule, filed_under);
  return node == nullptr ? 0 : node->all.size();
}

// A change retires a node of a map and one of `rules`, or a table that has grown in place of
// either; what is taken back after the first retires one more.
constexpr size_t retired_by_change = 3;

bool Overrides::set(const Override& one) {
  const std::lock_guard lock(mutex_);
  reclaimer_.make_room(retired_by_change);
  count_space(one.terms.space, 1);
  bool is_set = false;
  try {
    is_set = put(one);
  } catch (...) {
    count_space(one.terms.space, -1);
    throw;
  }
  if (!is_set) count_space(one.terms.space, -1);
  reclaimer_.reclaim();
  return is_set;
}

bool Overrides::put(const Override& one) {
  const Values actor = values_of(one.actor);
  const bool pattern = is_pattern(actor);
  bool replaces = false;
  const request::Space* old_space = nullptr;
  if (filed(actor)) {
    if (!set_listed(one, replaces, old_space)) return false;
  } else {
    auto& map = pattern ? tables_->singles : tables_->exact;
    const std::string key = pattern ? beginning_of(actor) : key_of(actor);
    const uint64_t hash = pattern ? prefix_hash_of(one.rule, key) : hash_of(one.rule, key);
    const Rank rank = rank_of(one, actor);
    const TermsNode* const old = map.find(hash, one.rule, key);
    replaces = old != nullptr;
    if (replaces) old_space = old->terms.space;
    map.put(hash, one.rule, std::string_view(key), one.terms, static_cast<uint32_t>(rank.literal),
            one.set);
    if (pattern && !replaces) {
      try {
        count_lengths(one.rule, key.size(), false, 1);
      } catch (...) {
        map.remove(hash, one.rule, key);
        throw;
      }
    }
  }
  count_space(old_space, -1);
  if (!replaces) count(one.rule, pattern ? pattern_flag : exact_flag, 1);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void Overrides::reclaim() {
  const std::lock_guard lock(mutex_);
  reclaimer_.reclaim();
}

size_t Overrides::retired() const {
  const std::lock_guard lock(mutex_);
  return reclaimer_.retired();
}

std::vector<const request::Space*> Overrides::spaces(uint64_t& version) const {
  const std::lock_guard lock(mutex_);
  version = spaces_version_;
  std::vector<const request::Space*> all;
  for (const auto& [space, overrides] : spaces_) all.push_back(space);
  return all;
}

void Overrides::count_space(const request::Space* space, int change) {
  if (space == nullptr) return;
  size_t& overrides = spaces_[space];
  const bool is_first = overrides == 0;
  overrides += static_cast<size_t>(change);
  if (overrides == 0) spaces_.erase(space);
  if (is_first || change < 0) ++spaces_version_;
}

bool Overrides::set_listed(const Override& one, bool& replaces, const request::Space*& old_space) {
  Values actor = values_of(one.actor);
  const std::string text = key_text(one.actor), begin = *filed(actor);
  const uint64_t hash = prefix_hash_of(one.rule, begin);
  const ListNode* const old = tables_->lists.find(hash, one.rule, begin);
  std::vector<std::shared_ptr<const OnePattern>> all;
  if (old != nullptr) all = old->all;
  replaces = take_out(all, text, old_space);
  if (all.size() >= base::bounds::overrides_alike_max) return false;
  auto its = std::make_shared<OnePattern>();
  its->text = text;
  its->rank = rank_of(one, actor);
  its->values = std::move(actor);
  its->terms = one.terms;
  const auto place =
      std::upper_bound(all.begin(), all.end(), its,
                       [](const auto& a, const auto& b) { return a->rank.goes_before(b->rank); });
  all.insert(place, std::move(its));
  const bool is_first = old == nullptr;
  tables_->lists.put(hash, one.rule, begin, std::move(all));
  if (is_first) {
    try {
      count_lengths(one.rule, begin.size(), true, 1);
    } catch (...) {
      tables_->lists.remove(hash, one.rule, begin);
      throw;
    }
  }
  return true;
}

bool Overrides::remove(uint64_t rule, std::span<const std::string> names) {
  const std::lock_guard lock(mutex_);
  reclaimer_.make_room(retired_by_change);
  const Values actor = values_of(names);
  const bool pattern = is_pattern(actor);
  const request::Space* space = nullptr;
  if (const auto begin = filed(actor)) {
    if (!remove_listed(rule, key_text(names), *begin, space)) return false;
  } else {
    auto& map = pattern ? tables_->singles : tables_->exact;
    const std::string key = pattern ? beginning_of(actor) : key_of(actor);
    const uint64_t hash = pattern ? prefix_hash_of(rule, key) : hash_of(rule, key);
    const TermsNode* const old = map.find(hash, rule, key);
    if (old == nullptr) return false;
    space = old->terms.space;
    if (pattern) count_lengths(rule, key.size(), false, -1);
    map.remove(hash, rule, key);
  }
  count_space(space, -1);
  count(rule, pattern ? pattern_flag : exact_flag, -1);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  reclaimer_.reclaim();
  return true;
}

bool Overrides::remove_listed(uint64_t rule, const std::string& text, const std::string& begin,
                              const request::Space*& old_space) {
  const uint64_t hash = prefix_hash_of(rule, begin);
  const ListNode* const old = tables_->lists.find(hash, rule, begin);
  if (old == nullptr) return false;
  auto all = old->all;
  if (!take_out(all, text, old_space)) return false;
  if (!all.empty()) {
    tables_->lists.put(hash, rule, begin, std::move(all));
    return true;
  }
  count_lengths(rule, begin.size(), true, -1);
  tables_->lists.remove(hash, rule, begin);
  return true;
}

void Overrides::count_lengths(uint64_t rule, size_t length, bool listed, int change) {
  auto& counts = tables_->counts[rule];
  uint32_t& its = (listed ? counts.listed : counts.single)[length_index(length)];
  its += static_cast<uint32_t>(change);
  if (its > 1 || (its == 1 && change < 0)) return;  // the count was not 0 and is not 0 now
  uint32_t single = 0, in_lists = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    single |= counts.single[i] > 0 ? uint32_t{1} << i : 0;
    in_lists |= counts.listed[i] > 0 ? uint32_t{1} << i : 0;
  }
  if ((single | in_lists) != 0) {
    try {
      tables_->rules.put(hash_of(rule, {}), rule, std::string(), single, in_lists);
    } catch (...) {
      its -= static_cast<uint32_t>(change);
      throw;
    }
    return;
  }
  tables_->rules.remove(hash_of(rule, {}), rule, {});
  tables_->counts.erase(rule);
}

void Overrides::count(uint64_t rule, uint8_t flag, int change) {
  size_.fetch_add(static_cast<size_t>(change), std::memory_order_relaxed);
  const size_t place = rule % flags_.size();
  auto& counts = tables_->flag_counts[place];
  counts[flag == exact_flag ? 0 : 1] += static_cast<uint32_t>(change);
  flags_[place].store(
      static_cast<uint8_t>((counts[0] > 0 ? exact_flag : 0) | (counts[1] > 0 ? pattern_flag : 0)),
      std::memory_order_release);
}

void Overrides::prefetch(uint64_t rule, std::string_view key, bool nodes) const {
  const uint8_t flags = flags_[rule % flags_.size()].load(std::memory_order_relaxed);
  const auto one = [nodes](const auto& map, uint64_t hash) {
    nodes ? map.prefetch_node(hash) : map.prefetch_slot(hash);
  };
  if ((flags & exact_flag) != 0) one(tables_->exact, hash_of(rule, key));
  if ((flags & pattern_flag) == 0) return;
  const RuleNode* const of_rule = tables_->rules.find(hash_of(rule, {}), rule, {});
  if (of_rule == nullptr) return;
  PrefixHash hash(rule);
  size_t hashed = 0;
  for (uint32_t mask = of_rule->single | of_rule->listed; mask != 0; mask &= mask - 1) {
    const uint32_t bit = mask & -mask;
    const size_t length = lengths[static_cast<size_t>(std::countr_zero(mask))];
    if (length > key.size()) break;
    hash.add(key.substr(hashed, length - hashed));
    hashed = length;
    const uint64_t value = hash.value();
    if ((of_rule->single & bit) != 0) one(tables_->singles, value);
    if ((of_rule->listed & bit) != 0) one(tables_->lists, value);
  }
}

bool Overrides::look_up(uint8_t flags, uint64_t rule, std::string_view key, limit::Time now,
                        Override::Terms& terms, MatchSteps& steps) const {
  if ((flags & exact_flag) != 0) {
    const TermsNode* const node = tables_->exact.find(hash_of(rule, key), rule, key);
    if (node != nullptr && now < node->terms.until) {
      terms = node->terms;
      return true;
    }
  }
  if ((flags & pattern_flag) == 0) return false;
  const RuleNode* const of_rule = tables_->rules.find(hash_of(rule, {}), rule, {});
  if (of_rule == nullptr) return false;
  const Override::Terms* best = nullptr;
  Rank rank;
  const auto better = [&](const Rank& other) { return best == nullptr || other.goes_before(rank); };
  PrefixHash hash(rule);
  size_t hashed = 0;
  for (uint32_t mask = of_rule->single | of_rule->listed; mask != 0; mask &= mask - 1) {
    const uint32_t bit = mask & -mask;
    const size_t length = lengths[static_cast<size_t>(std::countr_zero(mask))];
    if (length > key.size()) break;
    hash.add(key.substr(hashed, length - hashed));
    hashed = length;
    const uint64_t value = hash.value();
    const std::string_view begin = key.substr(0, length);
    if ((of_rule->single & bit) != 0) {
      const TermsNode* const node = tables_->singles.find(value, rule, begin);
      if (node != nullptr && now < node->terms.until && better(node->rank())) {
        best = &node->terms;
        rank = node->rank();
      }
    }
    if ((of_rule->listed & bit) == 0) continue;
    const ListNode* const list = tables_->lists.find(value, rule, begin);
    if (list == nullptr) continue;
    for (const auto& one : list->all) {
      if (!better(one->rank)) break;
      if (now >= one->terms.until || !one->fits(key, steps)) {
        if (!steps.over()) [[likely]]
          continue;
        too_costly_count_.fetch_add(1, std::memory_order_relaxed);
        terms = too_costly_;
        return true;
      }
      best = &one->terms;
      rank = one->rank;
      break;
    }
  }
  if (best == nullptr) return false;
  terms = *best;
  return true;
}

}  // namespace sluice::policy
