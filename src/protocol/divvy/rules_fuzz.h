// What both fuzz targets of Divvy's formats do with a text: read it for both kinds of matching. If
// it is accepted, they make requests from its own rules, and the index must find the same rules as
// a plain search.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "protocol/divvy/rules.h"

namespace sluice::divvy {

inline void fuzz_divvy(std::string_view text, DivvyFormat format) {
  for (const DivvyMatching matching : {DivvyMatching::code, DivvyMatching::documented}) {
    request::Spaces spaces;
    policy::RuleSet rules;
    base::Diagnostics diagnostics;
    read_divvy(text, format, matching, "fuzz", spaces, rules, diagnostics);
    for (const base::Diagnostic& d : diagnostics) {
      if (to_string(d).find('\n') != std::string::npos) std::abort();
    }
    if (has_errors(diagnostics)) continue;

    const std::span<const policy::Rule> all = rules.rules(&dialect);
    if (all.empty() || !all.back().conditions.empty() || all.back().mode != policy::Mode::enforce)
      std::abort();
    policy::Plan plan;
    std::vector<request::Entry> request;
    for (size_t i = 0; i < all.size() && i < 64; ++i) {
      request.clear();
      for (const policy::Condition& condition : all[i].conditions)
        request.push_back({condition.key, condition.pattern.text()});
      if (i % 3 == 1 && !request.empty()) request.pop_back();
      for (const auto& actor : all[i].actor) request.push_back({actor, "actor"});
      plan.clear();
      rules.match(&dialect, {request}, plan);
      const policy::Plan::RequestPlan& part = plan.parts()[0];
      // The rules that the plain search finds: all that match, up to the first enforced one.
      size_t step = 0;
      std::string_view error;
      for (const policy::Rule& rule : all) {
        const auto found = mismatch(rule, request, error);
        if (!error.empty()) break;
        if (found) continue;
        if (step == part.step_count || plan.steps(part)[step].rule != &rule) std::abort();
        ++step;
        if (rule.mode == policy::Mode::enforce) break;
      }
      if (step != part.step_count || error != part.error) std::abort();
      if (error.empty() && step == 0) std::abort();  // the default rule matches every request
    }
  }
}

}  // namespace sluice::divvy
