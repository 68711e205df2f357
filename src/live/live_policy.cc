#include "live/live_policy.h"

namespace sluice::live {

size_t count_rules(const policy::RuleSet& rules) {
  size_t count = rules.native_rules().size();
  for (const auto dialect : {policy::Dialect::divvy, policy::Dialect::limitd})
    count += rules.rules(dialect).size();
  return count;
}

std::string hash_text(uint64_t hash) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = hex[hash >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace sluice::live
