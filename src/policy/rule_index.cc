#include "policy/rule_index.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "policy/rule_set.h"

namespace sluice::policy {

void RuleIndex::add(std::span<const Condition> conditions) {
  const Condition* best = nullptr;
  size_t best_load = SIZE_MAX;
  for (const Condition& condition : conditions) {
    // From an impossible pattern on, conditions are only looked at by requests that it fails.
    if (condition.pattern.impossible()) break;
    // A pattern that an absent key fits says nothing about the entries that there must be.
    if (condition.pattern.matches(std::nullopt)) continue;
    // Nor does an expression about what they begin with; all requests with the key would meet it.
    if (condition.pattern.regex() != nullptr) continue;
    const size_t load = load_of(condition);
    if (load < best_load) {
      best = &condition;
      best_load = load;
    }
  }
  Numbers& place = best == nullptr ? unfiled_ : place_of(*best);
  place.push_back(count_++);
}

size_t RuleIndex::load_of(const Condition& condition) const {
  const auto key = keys_.find(condition.key);
  if (key == keys_.end()) return 0;
  const std::string_view literal = condition.pattern.literal();
  const TextMap<Numbers>* by_text = &key->second.values;
  size_t size = literal.size();
  if (!condition.pattern.exact()) {
    const std::vector<Prefixes>& all = key->second.prefixes;
    const size_t longest = longest_within(all, literal.size());
    if (longest == all.size()) return all.size() < prefix_sizes_max ? 0 : SIZE_MAX;
    if (all[longest].size < literal.size() && all.size() < prefix_sizes_max) return 0;
    by_text = &all[longest].rules;
    size = all[longest].size;
  }
  const auto found = by_text->find(literal.substr(0, size));
  return found == by_text->end() ? 0 : found->second.size();
}

RuleIndex::Numbers& RuleIndex::place_of(const Condition& condition) {
  Key& key = keys_[condition.key];
  const std::string_view literal = condition.pattern.literal();
  if (condition.pattern.exact()) return key.values[std::string(literal)];
  std::vector<Prefixes>& all = key.prefixes;
  size_t longest = longest_within(all, literal.size());
  const bool fits = longest < all.size() && all[longest].size == literal.size();
  if (!fits && all.size() < prefix_sizes_max) {
    longest = all.size();
    all.push_back({literal.size(), {}});
  }
  return all[longest].rules[std::string(literal.substr(0, all[longest].size))];
}

// The longest size of prefix that is at most `size`; all.size(): there is none.
size_t RuleIndex::longest_within(const std::vector<Prefixes>& all, size_t size) {
  size_t longest = all.size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].size > size) continue;
    if (longest == all.size() || all[i].size > all[longest].size) longest = i;
  }
  return longest;
}

bool RuleIndex::gather(std::span<const limit::Entry> descriptor, Merge& merge) const {
  if (!merge.add(unfiled_)) return false;
  // Of a key's entries the last one counts: the others would only cost.
  std::array<const Key*, base::bounds::descriptor_entries_max> seen;
  size_t seen_count = 0;
  for (size_t i = descriptor.size(); i-- > 0;) {
    const limit::Entry& entry = descriptor[i];
    const auto key = keys_.find(entry.key);
    if (key == keys_.end()) continue;
    const auto* const seen_end = seen.data() + seen_count;
    if (std::find(std::as_const(seen).data(), seen_end, &key->second) != seen_end) continue;
    if (seen_count == seen.size()) return false;
    seen[seen_count++] = &key->second;
    const auto value = key->second.values.find(entry.value);
    if (value != key->second.values.end() && !merge.add(value->second)) return false;
    for (const Prefixes& prefixes : key->second.prefixes) {
      if (prefixes.size > entry.value.size()) continue;
      const auto prefix = prefixes.rules.find(entry.value.substr(0, prefixes.size));
      if (prefix != prefixes.rules.end() && !merge.add(prefix->second)) return false;
    }
  }
  return true;
}

uint32_t RuleIndex::Merge::next() {
  if (count_ == 0) return UINT32_MAX;
  List* least = &lists_[0];
  for (size_t i = 1; i < count_; ++i) {
    if (*lists_[i].at < *least->at) least = &lists_[i];
  }
  const uint32_t number = *least->at++;
  if (least->at == least->end) *least = lists_[--count_];
  return number;
}

}  // namespace sluice::policy
