#include "policy/dialect.h"

#include "policy/rule_set.h"

namespace sluice::policy {

std::string name_or_pattern(const Rule& rule) {
  return rule.name.empty() ? rule.pattern : rule.name;
}

}  // namespace sluice::policy
