// Any texts, read as limitd's configuration: each file follows a line `---- NAME`, the environment
// follows the line `---- environment`. The texts must be read, or refused with one line for each
// reason. The rules that were read must have valid limits and match requests made from them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/decide.h"
#include "protocol/limitd/rules.h"

namespace sluice::limitd {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const policy::Rule& rule) {
  require(rule.space != nullptr && rule.limits.size() == 1 && rule.limits_id > 0);
  require(limit::cells(rule.limits) <= limit::cells_max);
  const limit::Limit& limit = rule.limits[0];
  require(limit.quota >= 0 && limit.quota <= base::bounds::quota_max);
  require(limit.window.us >= 0 && limit.window.us <= base::bounds::window_us_max);
  const bool bucket = limit.algorithm == limit::Algorithm::token_bucket ||
                      limit.algorithm == limit::Algorithm::fixed_bucket;
  require(bucket ? limit.burst >= 1 && limit.burst <= base::bounds::quota_max : limit.burst == 0);
  require((limit.algorithm == limit::Algorithm::token_bucket) == (limit.window.us > 0 && bucket));
  require(!bucket || limit.quota >= 1);
}

void split(std::string_view all, std::vector<NamedText>& files, std::vector<NamedText>& variables) {
  constexpr std::string_view mark = "---- ";
  std::string_view name = "main";
  size_t begin = 0;
  const auto end_text = [&](size_t end) {
    const std::string_view text = all.substr(begin, end - begin);
    if (name != "environment") {
      files.push_back({name, text});
      return;
    }
    for (size_t at = 0; at < text.size();) {
      const size_t line_end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, line_end - at);
      const size_t equals = line.find('=');
      if (equals != std::string_view::npos)
        variables.push_back({line.substr(0, equals), line.substr(equals + 1)});
      at = line_end + 1;
    }
  };
  for (size_t at = 0; at < all.size();) {
    const size_t line_end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, line_end - at);
    if (line.starts_with(mark)) {
      if (at > 0) end_text(at);
      name = line.substr(mark.size());
      begin = std::min(line_end + 1, all.size());
    }
    at = line_end + 1;
  }
  end_text(all.size());
}

void read_one(std::string_view all) {
  std::vector<NamedText> files, variables;
  split(all, files, variables);
  request::Spaces spaces;
  policy::RuleSet rules;
  LimitdConfig config;
  base::Diagnostics diagnostics;
  read_limitd(files, variables, spaces, rules, config, diagnostics);
  for (const base::Diagnostic& d : diagnostics)
    require(to_string(d).find('\n') == std::string::npos);
  const std::span<const policy::Rule> read = rules.rules(&dialect);
  if (has_errors(diagnostics)) {
    require(read.empty());
    return;
  }
  require(config.db && config.types <= read.size());
  policy::Plan plan;
  for (const policy::Rule& rule : read) {
    check(rule);
    // The request has the rule's key, or its expression's text as the key. It must meet a rule of
    // the same type; for a rule with a key, that rule or an earlier one.
    const std::string_view type = rule.conditions[0].pattern.text();
    const std::string_view key =
        rule.conditions.size() > 1 ? std::string_view(rule.conditions[1].pattern.text()) : "";
    const request::Entry request[] = {{"type", type}, {"key", key}};
    plan.clear();
    rules.match(&dialect, {.descriptor = request, .now = {INT64_MIN}}, plan);
    const auto steps = plan.steps(plan.parts()[0]);
    require(steps.size() == 1 && steps[0].rule->space == rule.space);
    const bool is_exact = rule.conditions.size() == 2 && rule.conditions[1].pattern.exact();
    require(!is_exact || steps[0].rule <= &rule);
  }
}

}  // namespace
}  // namespace sluice::limitd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::limitd::read_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
