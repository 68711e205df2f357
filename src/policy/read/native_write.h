// For tests: rules that are read, written and read again must be the same.
#pragma once

#include "policy/read/native_text.h"
#include "policy/rule_set.h"

namespace sluice::policy {

inline bool same_overdrafts(const Rule& a, const Rule& b) {
  if (a.overdrafts == nullptr || b.overdrafts == nullptr) return a.overdrafts == b.overdrafts;
  return *a.overdrafts == *b.overdrafts;
}

inline bool same_rule(const Rule& a, const Rule& b) {
  if (a.conditions.size() != b.conditions.size()) return false;
  for (size_t i = 0; i < a.conditions.size(); ++i)
    if (a.conditions[i].key != b.conditions[i].key ||
        a.conditions[i].pattern.text() != b.conditions[i].pattern.text())
      return false;
  return a.name == b.name && a.comment == b.comment && a.pattern == b.pattern &&
         a.actor == b.actor && a.mode == b.mode && a.then == b.then &&
         a.on_store_error == b.on_store_error && a.limits == b.limits && a.counts == b.counts &&
         same_overdrafts(a, b) && a.fair_by == b.fair_by && a.unit == b.unit && a.space == b.space;
}

}  // namespace sluice::policy
