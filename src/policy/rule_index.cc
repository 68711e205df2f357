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
  if (!condition.pattern.exact()) return key->second.prefixes.load(literal);
  const auto found = key->second.values.find(literal);
  return found == key->second.values.end() ? 0 : found->second.size();
}

RuleIndex::Numbers& RuleIndex::place_of(const Condition& condition) {
  Key& key = keys_[condition.key];
  const std::string_view literal = condition.pattern.literal();
  if (condition.pattern.exact()) return key.values[std::string(literal)];
  return key.prefixes.place(literal);
}

bool RuleIndex::gather(std::span<const request::Entry> descriptor, Merge& merge) const {
  if (!merge.add(unfiled_)) return false;
  // Of a key's entries the last one counts: the others would only cost.
  std::array<const Key*, base::bounds::descriptor_entries_max> seen;
  size_t seen_count = 0;
  for (size_t i = descriptor.size(); i-- > 0;) {
    const request::Entry& entry = descriptor[i];
    const auto key = keys_.find(entry.key);
    if (key == keys_.end()) continue;
    const auto* const seen_end = seen.data() + seen_count;
    if (std::find(std::as_const(seen).data(), seen_end, &key->second) != seen_end) continue;
    if (seen_count == seen.size()) return false;
    seen[seen_count++] = &key->second;
    const auto value = key->second.values.find(entry.value);
    if (value != key->second.values.end() && !merge.add(value->second)) return false;
    const bool all = key->second.prefixes.each(
        entry.value, [&](const Numbers& numbers) { return merge.add(numbers); });
    if (!all) return false;
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
