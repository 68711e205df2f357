#include "policy/rule_index.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/ip_address.h"
#include "policy/rule_set.h"

namespace sluice::policy {

namespace {

std::string_view bytes_of(const base::IpAddress& address) {
  return {reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()};
}

}  // namespace

void RuleIndex::add(std::span<const Condition> conditions) {
  const Condition* best = nullptr;
  size_t best_load = SIZE_MAX;
  for (const Condition& condition : conditions) {
    // Conditions after an impossible pattern are only reached by requests that it fails.
    if (condition.pattern.impossible()) break;
    // A pattern that matches an absent key does not require an entry.
    if (condition.pattern.matches(std::nullopt)) continue;
    // An expression gives no beginning of the value, so all requests with the key would meet it.
    if (condition.pattern.regex() != nullptr) continue;
    const size_t load = load_of(condition.key, condition.pattern);
    if (load < best_load) {
      best = &condition;
      best_load = load;
    }
  }
  const uint32_t number = count_++;
  if (best == nullptr)
    unfiled_.push_back(number);
  else
    file(best->key, best->pattern, number);
}

void RuleIndex::file(const std::string& key, const Pattern& pattern, uint32_t number) {
  for (const Pattern& one : pattern.alternatives()) file(key, one, number);
  if (!pattern.alternatives().empty()) return;
  Numbers& place = place_of(key, pattern);
  // Two values of a list may have the same place.
  if (place.empty() || place.back() != number) place.push_back(number);
}

size_t RuleIndex::load_of(const std::string& name, const Pattern& pattern) const {
  size_t most = 0;
  for (const Pattern& one : pattern.alternatives()) most = std::max(most, load_of(name, one));
  if (!pattern.alternatives().empty()) return most;
  const auto key = keys_.find(name);
  if (key == keys_.end()) return 0;
  if (const base::IpNetwork* const network = pattern.network()) {
    for (const auto& length : key->second.networks.lengths) {
      if (length.is_v6 != network->address.is_v6 || length.bits != network->bits) continue;
      const auto found = length.by_first.find(bytes_of(network->address));
      return found == length.by_first.end() ? 0 : found->second.size();
    }
    return 0;
  }
  const std::string_view literal = pattern.literal();
  if (!pattern.exact()) return key->second.prefixes.load(literal);
  const auto found = key->second.values.find(literal);
  return found == key->second.values.end() ? 0 : found->second.size();
}

RuleIndex::Numbers& RuleIndex::place_of(const std::string& name, const Pattern& pattern) {
  Key& key = keys_[name];
  if (const base::IpNetwork* const network = pattern.network()) {
    auto& lengths = key.networks.lengths;
    auto at = std::ranges::find_if(lengths, [&](const Networks::Length& one) {
      return one.is_v6 == network->address.is_v6 && one.bits == network->bits;
    });
    if (at == lengths.end()) at = lengths.insert(at, {network->address.is_v6, network->bits, {}});
    return at->by_first[std::string(bytes_of(network->address))];
  }
  const std::string_view literal = pattern.literal();
  if (pattern.exact()) return key.values[std::string(literal)];
  return key.prefixes.place(literal);
}

bool RuleIndex::gather_networks(const Networks& networks, std::string_view value, Merge& merge) {
  const auto address = base::parse_ip_address(value);
  if (!address) return true;
  for (const auto& length : networks.lengths) {
    if (length.is_v6 != address->is_v6) continue;
    const base::IpAddress first = first_of(*address, length.bits);
    const auto found = length.by_first.find(bytes_of(first));
    if (found != length.by_first.end() && !merge.add(found->second)) return false;
  }
  return true;
}

bool RuleIndex::gather(std::span<const request::Entry> descriptor, Merge& merge) const {
  if (!merge.add(unfiled_)) return false;
  // Of a key's entries only the last one counts; looking up the others would be wasted.
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
    if (!key->second.networks.lengths.empty() &&
        !gather_networks(key->second.networks, entry.value, merge))
      return false;
  }
  return true;
}

uint32_t RuleIndex::Merge::next() {
  if (count_ == 0) return UINT32_MAX;
  NumberList* least = &lists_[0];
  for (size_t i = 1; i < count_; ++i) {
    if (*lists_[i].at < *least->at) least = &lists_[i];
  }
  const uint32_t number = *least->at++;
  if (least->at == least->end) *least = lists_[--count_];
  return number;
}

}  // namespace sluice::policy
