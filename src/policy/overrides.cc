#include "policy/overrides.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "policy/override_map.h"
#include "policy/pattern.h"

namespace sluice::policy {

namespace {

// The lengths that patterns are filed under; bit i of a rule's mask is the i-th.
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

// Of a text and all that it begins with in one pass. Nobody but who may set overrides has a say in
// what is in the table, so there is no need for a secret.
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

bool is_pattern(std::span<const std::string> actor) {
  return std::any_of(actor.begin(), actor.end(),
                     [](const std::string& value) { return value.find('*') != value.npos; });
}

// In front of an unescaped `|`, or to the end; both leave `key`.
std::string_view next_segment(std::string_view& key) {
  size_t end = 0;
  while (end < key.size() && key[end] != '|') end += key[end] == '\\' ? size_t{2} : size_t{1};
  end = std::min(end, key.size());
  const std::string_view segment = key.substr(0, end);
  key.remove_prefix(std::min(end + 1, key.size()));
  return segment;
}

// As it is where nothing in it is escaped, else in `room`.
std::string_view unescaped(std::string_view segment, std::string& room) {
  if (segment.find('\\') == segment.npos) return segment;
  room.clear();
  for (size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '\\' && i + 1 < segment.size()) ++i;
    room += segment[i];
  }
  return room;
}

struct OnePattern {
  std::string text;  // key_text of the actor
  std::vector<Pattern> values;
  size_t literal = 0;  // bytes that are not stars
  limit::Time set{};
  Override::Terms terms;

  bool fits(std::string_view key) const {
    if (values.size() == 1) return values.front().matches(key);
    thread_local std::string room;  // grows to the longest value with an escape, and stays
    for (const Pattern& value : values)
      if (!value.matches(unescaped(next_segment(key), room))) return false;
    return true;
  }
};

// Does `a` come first?
bool goes_before(const OnePattern& a, const OnePattern& b) {
  if (a.literal != b.literal) return a.literal > b.literal;
  if (a.set != b.set) return a.set > b.set;
  return a.terms.id > b.terms.id;
}

struct ExactNode {
  uint64_t hash, rule;
  std::string key;
  Override::Terms terms;
};

// Patterns that are filed under the same text, in the order of precedence.
struct PatternNode {
  uint64_t hash, rule;
  std::string key;
  std::vector<std::shared_ptr<const OnePattern>> all;
};

// Under which lengths a rule has patterns.
struct RuleNode {
  uint64_t hash, rule;
  std::string key;
  uint32_t lengths;
};

}  // namespace

std::string key_text(std::span<const std::string> values) {
  if (values.size() == 1) return values.front();
  std::string text;
  for (const std::string& value : values) {
    if (&value != &values.front()) text += '|';
    for (const char c : value) {
      if (c == '|' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text;
}

std::optional<std::vector<std::string>> key_values(std::string_view key, size_t count) {
  if (count == 1) return std::vector<std::string>{std::string(key)};
  std::vector<std::string> values;
  std::string room;
  const std::string_view all = key;
  while (values.size() < count) values.emplace_back(unescaped(next_segment(key), room));
  // What is not spelled so is not the key of any counter.
  if (key_text(values) != all) return std::nullopt;
  return values;
}

struct Overrides::Tables {
  explicit Tables(base::Grace& grace) : exact(grace), patterns(grace), rules(grace) {}

  OverrideMap<ExactNode> exact;
  OverrideMap<PatternNode> patterns;
  OverrideMap<RuleNode> rules;
  // The writer's own: how many lists of patterns a rule has of each length; how many overrides make
  // each flag.
  std::unordered_map<uint64_t, std::array<uint32_t, lengths.size()>> lists;
  std::array<std::array<uint32_t, 2>, 4096> flag_counts{};
};

Overrides::Overrides() : tables_(std::make_unique<Tables>(grace_)) {
  static_assert(std::tuple_size_v<decltype(flags_)> ==
                std::tuple_size_v<decltype(Tables::flag_counts)>);
}

Overrides::~Overrides() = default;

std::optional<std::string> Overrides::filed_under(std::span<const std::string> actor) {
  if (!is_pattern(actor)) return std::nullopt;
  std::string begin;
  for (const std::string& value : actor) {
    const size_t star = value.find('*');
    if (&value != &actor.front()) begin += '|';
    const std::string literal = value.substr(0, star);
    // Escaped as in the key of several values.
    begin += actor.size() == 1 ? literal : key_text(std::array{literal, std::string()});
    if (actor.size() > 1) begin.pop_back();  // the `|`
    if (star != value.npos) break;
  }
  begin.resize(lengths[length_index(begin.size())]);
  return begin;
}

size_t Overrides::alike(uint64_t rule, std::string_view filed_under) const {
  const std::lock_guard lock(mutex_);
  const PatternNode* const node =
      tables_->patterns.find(prefix_hash_of(rule, filed_under), rule, filed_under);
  return node == nullptr ? 0 : node->all.size();
}

bool Overrides::has(uint64_t rule, std::span<const std::string> actor) const {
  const std::lock_guard lock(mutex_);
  const std::string text = key_text(actor);
  const auto filed = filed_under(actor);
  if (!filed) return tables_->exact.find(hash_of(rule, text), rule, text) != nullptr;
  const PatternNode* const node =
      tables_->patterns.find(prefix_hash_of(rule, *filed), rule, *filed);
  return node != nullptr && std::any_of(node->all.begin(), node->all.end(),
                                        [&](const auto& one) { return one->text == text; });
}

bool Overrides::set(const Override& one) {
  const std::lock_guard lock(mutex_);
  const std::string text = key_text(one.actor);
  const bool pattern = is_pattern(one.actor);
  bool replaces = false;
  if (pattern) {
    if (!set_pattern(one, text, replaces)) return false;
  } else {
    const uint64_t hash = hash_of(one.rule, text);
    replaces = tables_->exact.find(hash, one.rule, text) != nullptr;
    tables_->exact.put(
        std::make_unique<const ExactNode>(ExactNode{hash, one.rule, text, one.terms}));
  }
  if (!replaces) count(one.rule, pattern ? pattern_flag : exact_flag, 1);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  grace_.reclaim();
  return true;
}

bool Overrides::set_pattern(const Override& one, const std::string& text, bool& replaces) {
  const std::string filed = *filed_under(one.actor);
  const uint64_t hash = prefix_hash_of(one.rule, filed);
  const PatternNode* const old = tables_->patterns.find(hash, one.rule, filed);
  auto node = std::make_unique<PatternNode>(PatternNode{hash, one.rule, filed, {}});
  if (old != nullptr) node->all = old->all;
  replaces = std::erase_if(node->all, [&](const auto& other) { return other->text == text; }) > 0;
  if (node->all.size() >= base::bounds::overrides_alike_max) return false;
  auto its = std::make_shared<OnePattern>();
  its->text = text;
  for (const std::string& value : one.actor) {
    its->values.push_back(Pattern::wildcard(value));
    its->literal += value.size() - static_cast<size_t>(std::count(value.begin(), value.end(), '*'));
  }
  its->set = one.set;
  its->terms = one.terms;
  const auto place =
      std::upper_bound(node->all.begin(), node->all.end(), its,
                       [](const auto& a, const auto& b) { return goes_before(*a, *b); });
  node->all.insert(place, std::move(its));
  tables_->patterns.put(std::move(node));
  if (old != nullptr) return true;
  auto& lists = tables_->lists[one.rule];
  const size_t length = length_index(filed.size());
  if (++lists[length] > 1) return true;
  uint32_t mask = 0;
  for (size_t i = 0; i < lists.size(); ++i) mask |= lists[i] > 0 ? uint32_t{1} << i : 0;
  tables_->rules.put(
      std::make_unique<const RuleNode>(RuleNode{hash_of(one.rule, {}), one.rule, {}, mask}));
  return true;
}

bool Overrides::remove(uint64_t rule, std::span<const std::string> actor) {
  const std::lock_guard lock(mutex_);
  const std::string text = key_text(actor);
  const bool pattern = is_pattern(actor);
  if (!(pattern ? remove_pattern(rule, actor, text)
                : tables_->exact.remove(hash_of(rule, text), rule, text)))
    return false;
  count(rule, pattern ? pattern_flag : exact_flag, -1);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  grace_.reclaim();
  return true;
}

bool Overrides::remove_pattern(uint64_t rule, std::span<const std::string> actor,
                               const std::string& text) {
  const std::string filed = *filed_under(actor);
  const uint64_t hash = prefix_hash_of(rule, filed);
  const PatternNode* const old = tables_->patterns.find(hash, rule, filed);
  if (old == nullptr) return false;
  auto node = std::make_unique<PatternNode>(PatternNode{hash, rule, filed, old->all});
  if (std::erase_if(node->all, [&](const auto& other) { return other->text == text; }) == 0)
    return false;
  if (!node->all.empty()) {
    tables_->patterns.put(std::move(node));
    return true;
  }
  tables_->patterns.remove(hash, rule, filed);
  auto& lists = tables_->lists[rule];
  if (--lists[length_index(filed.size())] > 0) return true;
  uint32_t mask = 0;
  for (size_t i = 0; i < lists.size(); ++i) mask |= lists[i] > 0 ? uint32_t{1} << i : 0;
  if (mask != 0) {
    tables_->rules.put(
        std::make_unique<const RuleNode>(RuleNode{hash_of(rule, {}), rule, {}, mask}));
  } else {
    tables_->rules.remove(hash_of(rule, {}), rule, {});
    tables_->lists.erase(rule);
  }
  return true;
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

bool Overrides::look_up(uint8_t flags, uint64_t rule, std::string_view key, limit::Time now,
                        Override::Terms& terms) const {
  if ((flags & exact_flag) != 0) {
    const ExactNode* const node = tables_->exact.find(hash_of(rule, key), rule, key);
    if (node != nullptr && now < node->terms.until) {
      terms = node->terms;
      return true;
    }
  }
  if ((flags & pattern_flag) == 0) return false;
  const RuleNode* const of_rule = tables_->rules.find(hash_of(rule, {}), rule, {});
  if (of_rule == nullptr) return false;
  const OnePattern* best = nullptr;
  PrefixHash hash(rule);
  size_t hashed = 0;
  for (uint32_t mask = of_rule->lengths; mask != 0; mask &= mask - 1) {
    const size_t length = lengths[static_cast<size_t>(std::countr_zero(mask))];
    if (length > key.size()) break;
    hash.add(key.substr(hashed, length - hashed));
    hashed = length;
    const PatternNode* const node =
        tables_->patterns.find(hash.value(), rule, key.substr(0, length));
    if (node == nullptr) continue;
    for (const auto& one : node->all) {
      if (best != nullptr && goes_before(*best, *one)) break;
      if (now >= one->terms.until || !one->fits(key)) continue;
      best = one.get();
      break;
    }
  }
  if (best == nullptr) return false;
  terms = best->terms;
  return true;
}

}  // namespace sluice::policy
