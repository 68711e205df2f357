#include "policy/overrides.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "policy/actor_name.h"

namespace sluice::policy {
namespace {

// Memory for many small objects that are looked up at random places is in huge pages where the
// system has them, because such a lookup mostly waits for address translation.

constexpr size_t huge_page_bytes = size_t{2} << 20;

// Returns zeroed memory; it is given back with the same `bytes`.
void* map_memory(size_t bytes) {
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

void unmap_memory(void* at, size_t bytes) {
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

  // T's constructor throws nothing.
  template <class... Parts>
  T* make(Parts&&... parts) {
    static_assert(sizeof(T) >= sizeof(void*) && alignof(T) <= 4096);
    if (free_ == nullptr && next_ == end_) grow();
    void* const place = free_ != nullptr ? free_ : next_;
    if (free_ != nullptr)
      free_ = *static_cast<void**>(free_);
    else
      next_ += sizeof(T);
    return new (place) T(std::forward<Parts>(parts)...);
  }
  void free(T* one) {
    one->~T();
    *static_cast<void**>(static_cast<void*>(one)) = free_;
    free_ = one;
  }

 private:
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

// The lengths of the texts under which patterns are filed.
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

// What one text is looked up for. Immutable, and replaced whole.
struct alignas(64) Overrides::Node {
  // What it is found by.
  struct Name {
    Name(uint64_t its_rule, const Values& actor) : rule(its_rule) {
      const auto begin = filed(actor);
      if (begin)
        kind = Kind::list;
      else if (is_pattern(actor))
        kind = Kind::prefix;
      text = begin ? *begin : kind == Kind::prefix ? beginning_of(actor) : key_of(actor);
      hash = kind == Kind::exact ? hash_of(rule, text) : prefix_hash_of(rule, text);
    }
    // Of flags_.
    size_t bit() const {
      if (kind == Kind::exact) return std::countr_zero(exact_flag);
      return length_index(text.size()) + (kind == Kind::list ? lengths.size() : 0);
    }
    uint64_t rule, hash;
    Kind kind = Kind::exact;
    std::string text;
  };
  // What a node has no room for.
  struct Far {
    std::string text;
    Patterns patterns;  // of a list, in their order of precedence
  };
  static std::unique_ptr<const Far> far_of(const Name& name, Patterns patterns) {
    if (name.kind != Kind::list && name.text.size() <= sizeof near) return nullptr;
    return std::make_unique<const Far>(Far{name.text, std::move(patterns)});
  }

  Node(const Name& name, const Override::Terms& its_terms, const Rank& rank,
       std::unique_ptr<const Far> its_far) noexcept
      : hash(name.hash),
        rule(name.rule),
        far(std::move(its_far)),
        size(static_cast<uint32_t>(name.text.size())),
        literal(static_cast<uint32_t>(rank.literal)),
        set(rank.set),
        terms(its_terms),
        kind(name.kind) {
    if (size <= sizeof near) std::copy(name.text.begin(), name.text.end(), near);
  }
  std::string_view text() const {
    return size <= sizeof near ? std::string_view(near, size) : std::string_view(far->text);
  }
  Rank rank() const { return {literal, set, terms.id}; }

  const uint64_t hash, rule;
  const std::unique_ptr<const Far> far;
  const uint32_t size;  // of the text
  const uint32_t literal;
  const limit::Time set;
  const Override::Terms terms;
  const Kind kind;
  char near[39];
};

// A hash table of nodes. A lookup mostly reads one cache line if it finds nothing, and three if it
// finds a node, whatever the number of nodes. Its changes come from one thread.
class Overrides::Table {
 public:
  Table() { static_assert(sizeof(Node) == 128); }
  ~Table() {
    free_retired(UINT64_MAX);
    for (Shard& shard : shards_) {
      const std::unique_ptr<Slots> slots(shard.slots.load(std::memory_order_relaxed));
      for (size_t i = 0; slots != nullptr && i <= slots->mask; ++i) {
        Node* const node = slots->at[i].node.load(std::memory_order_relaxed);
        if (node != nullptr && node != gone()) pool_.free(node);
      }
    }
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // For readers. The node is valid until the reader's next Reader::quiesce.
  const Node* find(Kind kind, uint64_t rule, uint64_t hash, std::string_view text) const {
    const Slots* const slots = shard_of(hash).slots.load(std::memory_order_acquire);
    if (slots == nullptr) return nullptr;
    for (size_t i = hash;; ++i) {
      const Slot& slot = slots->at[i & slots->mask];
      const Node* const node = slot.node.load(std::memory_order_acquire);
      if (node == nullptr) return nullptr;
      // The slot may have been given to another node meanwhile; then this one was removed.
      if (node == gone() || slot.hash.load(std::memory_order_relaxed) != hash) continue;
      if (node->rule == rule && node->kind == kind && node->text() == text) return node;
    }
  }
  // Prefetches the memory that `find` reads first (the slot), or next (the node).
  void prefetch(uint64_t hash, bool node_too) const {
    const Slots* const slots = shard_of(hash).slots.load(std::memory_order_acquire);
    if (slots == nullptr) return;
    const Slot& slot = slots->at[hash & slots->mask];
    if (!node_too) return __builtin_prefetch(&slot);
    const Node* const node = slot.node.load(std::memory_order_relaxed);
    if (node == nullptr || node == gone() || slot.hash.load(std::memory_order_relaxed) != hash)
      return;
    __builtin_prefetch(node);
    __builtin_prefetch(reinterpret_cast<const char*>(node) + 64);
  }

  // For the writer. Makes room for a node with that hash in place of another one, or for one more.
  // Throws std::bad_alloc.
  void make_room(uint64_t hash, bool replaces, uint64_t change) {
    if (replaces) {
      retired_.emplace_back();
      return;
    }
    Shard& shard = shard_of(hash);
    const Slots* const slots = shard.slots.load(std::memory_order_relaxed);
    if (slots == nullptr || (shard.used + 1) * 2 > slots->mask + 1) resize(shard, change);
  }
  template <class... Parts>
  Node* make(Parts&&... parts) {
    return pool_.make(std::forward<Parts>(parts)...);
  }
  // Puts `next` in the place of `old`; either may be null. There is room.
  void exchange(const Node* old, Node* next, uint64_t change) {
    Shard& shard = shard_of((old != nullptr ? old : next)->hash);
    Slots& slots = *shard.slots.load(std::memory_order_relaxed);
    if (old == nullptr) {
      shard.used += insert(slots, next);
      ++shard.live;
      return;
    }
    size_t i = old->hash;
    while (slots.at[i & slots.mask].node.load(std::memory_order_relaxed) != old) ++i;
    Node* const was = slots.at[i & slots.mask].node.exchange(next != nullptr ? next : gone(),
                                                             std::memory_order_acq_rel);
    shard.live -= next == nullptr;
    retired_.back() = {change, was, nullptr};
  }
  // Frees what no reader holds that has seen that change.
  void free_retired(uint64_t seen) {
    for (; !retired_.empty() && retired_.front().change < seen; retired_.pop_front()) {
      if (retired_.front().node != nullptr) pool_.free(retired_.front().node);
      delete retired_.front().slots;
    }
  }
  size_t retired() const { return retired_.size(); }

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
  // What was replaced. It is freed when all readers have seen a later change. Empty where memory
  // ran out after there was room for it.
  struct Retired {
    uint64_t change = 0;
    Node* node = nullptr;
    Slots* slots = nullptr;
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

  // Returns 1 if the slot was never used before, else 0.
  static size_t insert(Slots& slots, Node* node) {
    for (size_t i = node->hash;; ++i) {
      Slot& slot = slots.at[i & slots.mask];
      const Node* const there = slot.node.load(std::memory_order_relaxed);
      if (there != nullptr && there != gone()) continue;
      slot.hash.store(node->hash, std::memory_order_relaxed);
      slot.node.store(node, std::memory_order_release);
      return there == nullptr ? 1 : 0;
    }
  }

  // Copies the shard's slots into some with room for twice its live nodes.
  void resize(Shard& shard, uint64_t change) {
    auto larger = std::make_unique<Slots>(std::max(slots_min, std::bit_ceil(4 * (shard.live + 1))));
    Slots* const old = shard.slots.load(std::memory_order_relaxed);
    if (old != nullptr) retired_.emplace_back();
    for (size_t i = 0; old != nullptr && i <= old->mask; ++i) {
      Node* const node = old->at[i].node.load(std::memory_order_relaxed);
      if (node != nullptr && node != gone()) insert(*larger, node);
    }
    shard.used = shard.live;
    shard.slots.store(larger.release(), std::memory_order_release);
    if (old != nullptr) retired_.back() = {change, nullptr, old};
  }

  Pool<Node> pool_;
  std::array<Shard, size_t{1} << shard_bits> shards_;
  std::deque<Retired> retired_;  // by rising `change`
};

struct Overrides::NodeParts {
  Override::Terms terms;
  Rank rank;
  std::unique_ptr<const Node::Far> far;
};

// What one call changes: a node, and how many overrides have a space.
struct Overrides::Change {
  const Node::Name& name;
  const Node* old;                                // null: there is none of that name
  const request::Space *gained = nullptr, *lost;  // of the override that comes, and that goes
  int more = 0;                                   // overrides than before
};

Overrides::Overrides() : table_(std::make_unique<Table>()) {
  // Without an interned number: limits without a counter are not stored anywhere.
  static constexpr limit::Limit deny[] = {{limit::Algorithm::deny, 0, {}, 0}};
  too_costly_.limits = deny;
}

Overrides::~Overrides() = default;

Overrides::Reader::Reader(const Overrides& overrides) : overrides_(overrides) {
  const std::lock_guard lock(overrides_.mutex_);
  quiesce();
  overrides_.readers_.push_back(this);
}

Overrides::Reader::~Reader() {
  const std::lock_guard lock(overrides_.mutex_);
  std::erase(overrides_.readers_, this);
}

std::optional<std::string> Overrides::filed_under(std::span<const std::string> actor) {
  return filed(values_of(actor));
}

size_t Overrides::alike(uint64_t rule, std::string_view filed_under) const {
  const std::lock_guard lock(mutex_);
  const Node* const list =
      table_->find(Kind::list, rule, prefix_hash_of(rule, filed_under), filed_under);
  return list == nullptr ? 0 : list->far->patterns.size();
}

bool Overrides::set(const Override& one) {
  const std::lock_guard lock(mutex_);
  Values actor = values_of(one.actor);
  const Node::Name name(one.rule, actor);
  const Node* const old = table_->find(name.kind, one.rule, name.hash, name.text);
  const Rank rank = rank_of(one, actor);
  bool replaces = old != nullptr;
  const request::Space* lost = replaces ? old->terms.space : nullptr;
  Patterns all;
  if (name.kind == Kind::list) {
    if (old != nullptr) all = old->far->patterns;
    std::string text = key_text(one.actor);
    replaces = take_out(all, text, lost);
    if (all.size() >= base::bounds::overrides_alike_max) return false;
    auto its = std::make_shared<const OnePattern>(
        OnePattern{std::move(text), std::move(actor), rank, one.terms});
    const auto place =
        std::upper_bound(all.begin(), all.end(), its,
                         [](const auto& a, const auto& b) { return a->rank.goes_before(b->rank); });
    all.insert(place, std::move(its));
  }
  exchange({name, old, one.terms.space, lost, replaces ? 0 : 1},
           NodeParts{one.terms, rank, Node::far_of(name, std::move(all))});
  return true;
}

bool Overrides::remove(uint64_t rule, std::span<const std::string> names) {
  const std::lock_guard lock(mutex_);
  const Node::Name name(rule, values_of(names));
  const Node* const old = table_->find(name.kind, rule, name.hash, name.text);
  if (old == nullptr) return false;
  const request::Space* lost = old->terms.space;
  std::optional<NodeParts> rest;
  if (name.kind == Kind::list) {
    Patterns all = old->far->patterns;
    if (!take_out(all, key_text(names), lost)) return false;
    if (!all.empty()) rest = NodeParts{{}, {}, Node::far_of(name, std::move(all))};
  }
  exchange({name, old, nullptr, lost, -1}, std::move(rest));
  return true;
}

// Puts a node of these parts, or none, in the place of the old one. Throws std::bad_alloc: nothing
// has changed.
void Overrides::exchange(const Change& change, std::optional<NodeParts> next) {
  const size_t place = change.name.rule % flags_.size();
  std::array<uint32_t, 64>& counts = counts_[place];
  if (change.gained != nullptr) spaces_version_ += spaces_.try_emplace(change.gained).second;
  table_->make_room(change.name.hash, change.old != nullptr, changes());
  Node* const node =
      next ? table_->make(change.name, next->terms, next->rank, std::move(next->far)) : nullptr;
  // From here on nothing fails.
  table_->exchange(change.old, node, changes());
  uint32_t& count = counts[change.name.bit()];
  count += (node != nullptr ? 1u : 0u) - (change.old != nullptr ? 1u : 0u);
  const uint64_t bit = uint64_t{1} << change.name.bit(), flags = flags_[place];
  flags_[place].store(count > 0 ? flags | bit : flags & ~bit, std::memory_order_release);
  if (flags_[place] == 0) counts_.erase(place);
  size_.fetch_add(static_cast<size_t>(change.more), std::memory_order_relaxed);
  if (change.gained != nullptr) ++spaces_.at(change.gained);
  if (change.lost != nullptr && --spaces_.at(change.lost) == 0)
    spaces_version_ += spaces_.erase(change.lost);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  free_retired();
}

void Overrides::free_retired() {
  uint64_t seen = UINT64_MAX;
  for (const Reader* reader : readers_)
    seen = std::min(seen, reader->seen_.load(std::memory_order_acquire));
  table_->free_retired(seen);
}

void Overrides::reclaim() {
  const std::lock_guard lock(mutex_);
  free_retired();
}

size_t Overrides::retired() const {
  const std::lock_guard lock(mutex_);
  return table_->retired();
}

std::vector<const request::Space*> Overrides::spaces(uint64_t& version) const {
  const std::lock_guard lock(mutex_);
  version = spaces_version_;
  std::vector<const request::Space*> all;
  for (const auto& [space, overrides] : spaces_)
    if (overrides > 0) all.push_back(space);
  return all;
}

// Calls `look(kind, hash, text)` for each text that a pattern for the key may be filed under,
// until it returns true.
template <class Look>
void Overrides::each_filed(uint64_t flags, uint64_t rule, std::string_view key, Look&& look) {
  PrefixHash hash(rule);
  size_t hashed = 0;
  constexpr uint64_t each = (uint64_t{1} << lengths.size()) - 1;
  for (uint64_t left = (flags | flags >> lengths.size()) & each; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    const size_t length = lengths[i];
    if (length > key.size()) return;
    hash.add(key.substr(hashed, length - hashed));
    hashed = length;
    const uint64_t value = hash.value();
    const std::string_view begin = key.substr(0, length);
    if ((flags >> i & 1) != 0 && look(Kind::prefix, value, begin)) return;
    if ((flags >> (i + lengths.size()) & 1) != 0 && look(Kind::list, value, begin)) return;
  }
}

void Overrides::prefetch(uint64_t rule, std::string_view key, bool nodes) const {
  const uint64_t flags = flags_[rule % flags_.size()].load(std::memory_order_relaxed);
  if ((flags & exact_flag) != 0) table_->prefetch(hash_of(rule, key), nodes);
  each_filed(flags, rule, key, [&](Kind, uint64_t hash, std::string_view) {
    table_->prefetch(hash, nodes);
    return false;
  });
}

bool Overrides::find_exact(uint64_t rule, std::string_view key, limit::Time now,
                           Override::Terms& terms) const {
  const Node* const node = table_->find(Kind::exact, rule, hash_of(rule, key), key);
  if (node == nullptr || now >= node->terms.until) return false;
  terms = node->terms;
  return true;
}

bool Overrides::find_pattern(uint64_t flags, uint64_t rule, std::string_view key, limit::Time now,
                             Override::Terms& terms, MatchSteps& steps) const {
  const Override::Terms* best = nullptr;
  Rank rank;
  const auto better = [&](const Rank& other) { return best == nullptr || other.goes_before(rank); };
  each_filed(flags, rule, key, [&](Kind kind, uint64_t hash, std::string_view text) {
    const Node* const node = table_->find(kind, rule, hash, text);
    if (node == nullptr) return false;
    if (kind == Kind::prefix) {
      if (now >= node->terms.until || !better(node->rank())) return false;
      best = &node->terms;
      rank = node->rank();
      return false;
    }
    for (const auto& one : node->far->patterns) {
      if (!better(one->rank)) return false;
      if (now < one->terms.until && one->fits(key, steps)) {
        best = &one->terms;
        rank = one->rank;
        return false;
      }
      if (!steps.over()) [[likely]]
        continue;
      too_costly_count_.fetch_add(1, std::memory_order_relaxed);
      best = &too_costly_;
      return true;
    }
    return false;
  });
  if (best == nullptr) return false;
  terms = *best;
  return true;
}

}  // namespace sluice::policy
