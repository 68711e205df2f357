#include "protocol/envoy/limits.h"

#include <algorithm>

#include "base/hash.h"
#include "base/same.h"
#include "policy/find_piece.h"

namespace sluice::envoy {
namespace {

constexpr size_t npos = std::string_view::npos;

struct UnitWords {
  std::string_view name;
  int64_t seconds;
};
// By Unit.
constexpr std::array<UnitWords, 8> units = {{{"UNKNOWN", 0},
                                             {"SECOND", 1},
                                             {"MINUTE", 60},
                                             {"HOUR", 3600},
                                             {"DAY", 86'400},
                                             {"MONTH", 30 * 86'400},
                                             {"YEAR", 365 * 86'400},
                                             {"WEEK", 7 * 86'400}}};

constexpr char capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

uint64_t below(uint64_t text_hash, uint32_t parent) {
  return text_hash ^ ((uint64_t{parent} + 1) * 0x9E3779B97F4A7C15u);
}

// hash_of and hash_of_joined give a text the same hash, whether it is whole or in two parts.
uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}
uint64_t hash_of_joined(std::string_view key, std::string_view value) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, key.data(), key.size());
  XXH3_64bits_update(&state, "_", 1);
  XXH3_64bits_update(&state, value.data(), value.size());
  return XXH3_64bits_digest(&state);
}

bool is_joined(std::string_view text, std::string_view key, std::string_view value) {
  return text.size() == key.size() + 1 + value.size() && text[key.size()] == '_' &&
         base::same_bytes(text.data(), key.data(), key.size()) &&
         base::same_bytes(text.data() + key.size() + 1, value.data(), value.size());
}

// The text `KEY_VALUE`, as a view of its two parts, so that it need not be copied.
class Joined {
 public:
  Joined(std::string_view key, std::string_view value) : key_(key), value_(value) {}

  size_t size() const { return key_.size() + 1 + value_.size(); }

  // Is `part` at `begin`? It must end within the text.
  bool has(std::string_view part, size_t begin) const {
    const auto same_in = [&](std::string_view text, size_t at) {
      const size_t bytes = std::min(part.size(), text.size() - at);
      const bool same = base::same_bytes(text.data() + at, part.data(), bytes);
      part.remove_prefix(bytes);
      return same;
    };
    if (begin < key_.size()) {
      if (!same_in(key_, begin)) return false;
      begin = key_.size();
    }
    if (part.empty()) return true;
    if (begin == key_.size()) {
      if (part.front() != '_') return false;
      part.remove_prefix(1);
      ++begin;
    }
    return same_in(value_, begin - key_.size() - 1);
  }

  // The first place of `part` between `from` and `end`; npos: none. `part` must not be empty.
  size_t find(std::string_view part, size_t from, size_t end) const {
    uint64_t looked_at = 0;
    if (from < key_.size()) {
      const std::string_view in = key_.substr(0, std::min(end, key_.size())).substr(from);
      if (const size_t at = policy::find_piece(in, part, looked_at); at != npos) return from + at;
    }
    // Places across the joining underscore: `part` has an underscore there.
    for (size_t in_part = part.rfind('_'); in_part != npos;
         in_part = in_part == 0 ? npos : part.rfind('_', in_part - 1)) {
      if (in_part > key_.size()) continue;
      const size_t begin = key_.size() - in_part;
      if (begin >= from && begin + part.size() <= end && has(part, begin)) return begin;
    }
    const size_t value_begin = key_.size() + 1, begin = std::max(from, value_begin);
    if (begin + part.size() > end) return npos;
    const std::string_view in = value_.substr(0, end - value_begin).substr(begin - value_begin);
    const size_t at = policy::find_piece(in, part, looked_at);
    return at == npos ? npos : begin + at;
  }

 private:
  std::string_view key_, value_;
};

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

// The number of digits at `at`; 4: more than three.
size_t digits(std::string_view text, size_t at) {
  size_t n = 0;
  while (n < 4 && at + n < text.size() && is_decimal(text[at + n])) ++n;
  return n;
}

// The end of a text at `at` that looks like an IPv4 address; 0: there is no such text. If the last
// number has more than three digits, only the first three belong to the address.
size_t address_end(std::string_view text, size_t at) {
  for (int number = 0; number < 4; ++number) {
    const size_t n = digits(text, at);
    if (n == 0) return 0;
    if (number == 3) return at + std::min<size_t>(n, 3);
    at += n;
    if (n > 3 || at == text.size() || text[at] != '.') return 0;
    ++at;
  }
  return 0;
}

void sanitize(std::string& text, size_t from) {
  for (size_t at = from; at < text.size(); ++at)
    if (text[at] == ':' || text[at] == '|') text[at] = '_';
  for (size_t at = from; at < text.size();) {
    const size_t end = is_decimal(text[at]) ? address_end(text, at) : 0;
    for (size_t i = at; i < end; ++i)
      if (text[i] == '.') text[i] = '_';
    at = end > 0 ? end : at + 1;
  }
}

}  // namespace

std::string_view name_of(Unit unit) {
  return units[static_cast<size_t>(unit)].name;
}

std::optional<Unit> unit_named(std::string_view word) {
  for (size_t i = 1; i < units.size(); ++i) {
    const std::string_view name = units[i].name;
    if (std::equal(word.begin(), word.end(), name.begin(), name.end(),
                   [](char a, char b) { return capital(a) == b; }))
      return static_cast<Unit>(i);
  }
  return std::nullopt;
}

base::Duration length_of(Unit unit) {
  return base::seconds(units[static_cast<size_t>(unit)].seconds);
}

Unit unit_of(base::Duration window) {
  for (const Unit unit : {Unit::second, Unit::minute, Unit::hour, Unit::day})
    if (length_of(unit) == window) return unit;
  return Unit::unknown;
}

limit::Limit numbers_of(const Limit& limit) {
  if (limit.unlimited) return {.algorithm = limit::Algorithm::unlimited};
  return {.algorithm = limit.algorithm,
          .quota = limit.requests_per_unit,
          .window = limit.window,
          .burst = limit.burst,
          .calendar = limit.calendar};
}

bool fits(std::string_view pattern, std::string_view key, std::string_view value,
          policy::MatchSteps& steps) {
  const Joined text(key, value);
  const size_t first = pattern.find('*'), last = pattern.rfind('*');
  if (first == npos) return is_joined(pattern, key, value);
  const size_t suffix = pattern.size() - last - 1;
  if (first + suffix > text.size() || !text.has(pattern.substr(0, first), 0) ||
      !text.has(pattern.substr(last + 1), text.size() - suffix))
    return false;
  size_t at = first;
  const size_t end = text.size() - suffix;
  if (first < last && !steps.take(end - at)) return false;
  for (size_t star = first; star < last;) {
    const size_t next = pattern.find('*', star + 1);
    const std::string_view part = pattern.substr(star + 1, next - star - 1);
    star = next;
    if (part.empty()) continue;
    const size_t found = text.find(part, at, end);
    if (found == npos) return false;
    at = found + part.size();
  }
  return true;
}

void append_sanitized(std::string_view text, std::string& to) {
  const size_t from = to.size();
  to += text;
  sanitize(to, from);
}

LimitSet::LimitSet() : places_(16) {}

template <class Same>
uint32_t LimitSet::look_up(uint64_t hash, uint32_t parent, Same same) const {
  const size_t mask = places_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask; places_[i].node != absent; i = (i + 1) & mask) {
    if (places_[i].tag != tag) continue;
    const Node& node = nodes_[places_[i].node];
    if (node.parent == parent && same(node.composite)) return places_[i].node;
  }
  return absent;
}

uint32_t LimitSet::child(uint32_t parent, std::string_view composite) const {
  return look_up(below(hash_of(composite), parent), parent,
                 [&](const std::string& there) { return base::same(there, composite); });
}

uint32_t LimitSet::child(uint32_t parent, std::string_view key, std::string_view value) const {
  return look_up(below(hash_of_joined(key, value), parent), parent,
                 [&](const std::string& there) { return is_joined(there, key, value); });
}

uint32_t LimitSet::domain(std::string_view name) const {
  return child(absent, name);
}

Walk LimitSet::find(uint32_t domain, Entries entries, policy::MatchSteps& steps) const {
  Walk walk;
  uint32_t at = domain;
  for (const request::Entry& entry : entries) {
    if (nodes_[at].children == 0) return walk;
    MatchedBy by = MatchedBy::key_and_value;
    uint32_t next = child(at, entry.key, entry.value);
    if (next == absent) {
      by = MatchedBy::pattern;
      for (const uint32_t pattern : nodes_[at].patterns) {
        ++walk.tried;
        if (!fits(nodes_[pattern].composite, entry.key, entry.value, steps)) continue;
        next = pattern;
        break;
      }
      if (steps.over()) return walk;
    }
    if (next == absent) {
      by = MatchedBy::key;
      next = child(at, entry.key);
    }
    if (next == absent) return walk;
    walk.all[walk.size++] = {next, by};
    at = next;
  }
  if (!entries.empty()) walk.limit = nodes_[at].limit;
  return walk;
}

std::string_view LimitSet::shared_value(const Walk::Step& step, const request::Entry& entry) const {
  const Node& node = nodes_[step.node];
  if (step.by != MatchedBy::pattern || !node.share_threshold) return {};
  const std::string_view pattern = node.composite;
  const size_t key = entry.key.size();
  const bool has_key =
      pattern.size() > key && pattern[key] == '_' && pattern.starts_with(entry.key);
  return has_key ? pattern.substr(key + 1) : pattern;
}

std::string_view LimitSet::key(uint32_t domain, Entries entries, const Walk& walk,
                               base::Arena& arena, std::string_view ending) const {
  const auto value_of = [&](size_t i) {
    const std::string_view shared =
        i < walk.size ? shared_value(walk.all[i], entries[i]) : std::string_view();
    return shared.empty() ? entries[i].value : shared;
  };
  const std::string_view name = nodes_[domain].composite;
  size_t bytes = name.size() + ending.size();
  for (size_t i = 0; i < entries.size(); ++i)
    bytes += entries[i].key.size() + value_of(i).size() + 2;
  char* const begin = arena.allocate(bytes);
  char* at = std::copy(name.begin(), name.end(), begin);
  for (size_t i = 0; i < entries.size(); ++i) {
    *at++ = '_';
    at = std::copy(entries[i].key.begin(), entries[i].key.end(), at);
    *at++ = '_';
    const std::string_view value = value_of(i);
    at = std::copy(value.begin(), value.end(), at);
  }
  std::copy(ending.begin(), ending.end(), at);
  return {begin, bytes};
}

uint32_t LimitSet::domain_of(uint32_t limit) const {
  uint32_t node = limits_[limit].node;
  while (nodes_[node].level > 0) node = nodes_[node].parent;
  return node;
}

bool LimitSet::read_key(uint32_t limit, std::string_view key,
                        std::vector<request::Entry>& entries) const {
  std::array<uint32_t, levels_max> path;
  size_t levels = 0;
  uint32_t node = limits_[limit].node;
  for (; nodes_[node].level > 0; node = nodes_[node].parent) path[levels++] = node;
  const std::string_view domain = nodes_[node].composite;
  if (!key.starts_with(domain)) return false;
  key.remove_prefix(domain.size());
  entries.clear();
  for (size_t i = levels; i-- > 0;) {
    const std::string_view name = nodes_[path[i]].key();
    if (name.find('*') != std::string_view::npos || key.size() < name.size() + 2 ||
        key.front() != '_' || !key.substr(1).starts_with(name) || key[name.size() + 1] != '_')
      return false;
    key.remove_prefix(name.size() + 2);
    size_t end = key.size();
    if (i > 0) {
      const std::string next = "_" + std::string(nodes_[path[i - 1]].key()) + "_";
      end = key.find(next);
      if (end == std::string_view::npos) return false;
    }
    entries.push_back({name, key.substr(0, end)});
    key.remove_prefix(end);
  }
  return true;
}

// Appends the keys and values of all entries. As in the original, an empty value keeps its
// underscore unless a node shares its counter.
void LimitSet::append_detailed(Entries entries, const Walk& walk, std::string& to) const {
  bool any_shared = false;
  for (size_t i = 0; i < walk.size; ++i)
    any_shared |= !shared_value(walk.all[i], entries[i]).empty();
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string_view shared = shared_value(walk.all[i], entries[i]);
    const std::string_view value = shared.empty() ? entries[i].value : shared;
    (to += '.') += entries[i].key;
    if (!any_shared || !value.empty()) (to += '_') += value;
  }
}

void LimitSet::append_metric_path(uint32_t domain, Entries entries, const Walk& walk,
                                  std::string& to) const {
  const size_t from = to.size();
  to += nodes_[domain].composite;
  if (limits_[walk.limit].detailed_metric) {
    append_detailed(entries, walk, to);
    return sanitize(to, from);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const Walk::Step& step = walk.all[i];
    const Node& node = nodes_[step.node];
    const request::Entry& entry = entries[i];
    std::string_view value;
    if (step.by == MatchedBy::pattern) {
      value = shared_value(step, entry);
      if (value.empty() && node.value_to_metric) {
        value = entry.value;
      } else if (value.empty()) {
        value = node.composite;
        const bool has_key = value.size() > entry.key.size() && value[entry.key.size()] == '_' &&
                             value.starts_with(entry.key);
        if (has_key) value.remove_prefix(entry.key.size() + 1);
      }
    } else if (step.by == MatchedBy::key_and_value || node.value_to_metric) {
      value = entry.value;
    }
    (to += '.') += entry.key;
    if (!value.empty()) (to += '_') += value;
  }
  sanitize(to, from);
}

void LimitSet::append_override_metric_path(uint32_t domain, Entries entries,
                                           std::string& to) const {
  const size_t from = to.size();
  (to += nodes_[domain].composite) += '.';
  const size_t begin = to.size();
  for (const request::Entry& entry : entries) {
    // As in the original, the first text that is not empty has no dot before it.
    if (to.size() > begin) to += '.';
    to += entry.key;
    if (!entry.value.empty()) (to += '_') += entry.value;
  }
  sanitize(to, from);
}

void LimitSet::append_path(uint32_t node, std::string& to) const {
  std::array<uint32_t, levels_max + 1> above;
  size_t size = 0;
  for (uint32_t at = node; at != absent; at = nodes_[at].parent) above[size++] = at;
  while (size > 0) {
    to += nodes_[above[--size]].composite;
    if (size > 0) to += '.';
  }
}

std::string LimitSet::path(uint32_t node) const {
  std::string text;
  append_path(node, text);
  return text;
}

std::string LimitSet::rlconfig() const {
  std::string text;
  const auto flag = [](bool is) { return is ? "true" : "false"; };
  for (const Limit& limit : limits_) {
    text += path(limit.node);
    (text += ": unit=") += name_of(limit.unit);
    (text += " requests_per_unit=") += std::to_string(limit.requests_per_unit);
    (text += ", shadow_mode: ") += flag(limit.shadow_mode);
    ((text += ", quota_mode: ") += flag(limit.quota_mode)) += '\n';
  }
  return text;
}

bool LimitSet::may_be_replaced(uint32_t limit) const {
  const Limit& its = limits_[limit];
  return !its.unlimited && its.name < replaced_names_.size() && replaced_names_[its.name];
}

bool LimitSet::replaces(uint32_t by, uint32_t limit) const {
  if (!may_be_replaced(limit)) return false;
  const std::vector<uint32_t>& names = limits_[by].replaces;
  return std::find(names.begin(), names.end(), limits_[limit].name) != names.end();
}

uint32_t LimitSetBuilder::add_file(std::string name) {
  set_.files_.push_back(std::move(name));
  return static_cast<uint32_t>(set_.files_.size() - 1);
}

uint32_t LimitSetBuilder::add_domain(std::string_view name, uint32_t file, uint32_t line) {
  const uint32_t number = add_node({.composite = std::string(name),
                                    .key_bytes = static_cast<uint32_t>(name.size()),
                                    .file = file,
                                    .line = line});
  set_.domains_.push_back(number);
  return number;
}

uint32_t LimitSetBuilder::add(uint32_t parent, std::string_view key, std::string_view value,
                              uint32_t file, uint32_t line) {
  Node added{.composite = std::string(key),
             .key_bytes = static_cast<uint32_t>(key.size()),
             .parent = parent,
             .level = set_.nodes_[parent].level + 1,
             .file = file,
             .line = line};
  if (!value.empty()) (added.composite += '_') += value;
  added.is_pattern = added.composite.find('*') != std::string::npos;
  const bool is_pattern = added.is_pattern;
  const uint32_t number = add_node(std::move(added));
  ++set_.nodes_[parent].children;
  if (is_pattern) set_.nodes_[parent].patterns.push_back(number);
  return number;
}

uint32_t LimitSetBuilder::add_node(Node node) {
  const auto number = static_cast<uint32_t>(set_.nodes_.size());
  set_.nodes_.push_back(std::move(node));
  if (2 * set_.nodes_.size() > set_.places_.size()) {
    set_.places_.assign(2 * set_.places_.size(), {});
    for (uint32_t each = 0; each <= number; ++each) place(each);
  } else {
    place(number);
  }
  return number;
}

void LimitSetBuilder::place(uint32_t node) {
  const Node& placed = set_.nodes_[node];
  const uint64_t hash = below(hash_of(placed.composite), placed.parent);
  const size_t mask = set_.places_.size() - 1;
  size_t i = hash & mask;
  while (set_.places_[i].node != absent) i = (i + 1) & mask;
  set_.places_[i] = {static_cast<uint32_t>(hash >> 32), node};
}

uint32_t LimitSetBuilder::name(std::string_view text) {
  if (text.empty()) return absent;
  const auto [at, added] =
      numbers_of_names_.emplace(text, static_cast<uint32_t>(set_.names_.size()));
  if (added) set_.names_.emplace_back(text);
  return at->second;
}

uint32_t LimitSetBuilder::add_limit(uint32_t node, Limit limit) {
  const auto number = static_cast<uint32_t>(set_.limits_.size());
  limit.node = node;
  for (const uint32_t name : limit.replaces) {
    if (set_.replaced_names_.size() <= name) set_.replaced_names_.resize(name + 1);
    set_.replaced_names_[name] = true;
  }
  set_.nodes_[node].limit = number;
  set_.limits_.push_back(std::move(limit));
  return number;
}

LimitSet LimitSetBuilder::take() {
  numbers_of_names_.clear();
  return std::exchange(set_, LimitSet());
}

}  // namespace sluice::envoy
