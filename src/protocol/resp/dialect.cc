#include "protocol/resp/dialect.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "limit/gcra.h"
#include "policy/inline_limits.h"

namespace sluice::resp {
namespace {

using limit::Algorithm;

std::optional<policy::LimitsProblem> check_override(std::span<const limit::Limit> limits) {
  for (size_t i = 0; i < limits.size(); ++i)
    if (limit::has_counter(limits[i].algorithm))
      return policy::LimitsProblem{
          "limits[" + std::to_string(i) + "]",
          "the limits of this rule come with each command; only `unlimited` and `deny` can "
          "replace them, or a rule of the policy for `command` and `key`"};
  return std::nullopt;
}

struct Served {
  Algorithm algorithm;
  std::string_view command, prefix;
};

constexpr Served served[] = {{Algorithm::gcra_cell, "cl.throttle", "cell:"},
                             {Algorithm::gcra_crab, "throttle", "crab:"},
                             {Algorithm::gcra_redis, "gcra", "gcra:"}};

// Stores keys as redis-cell does: without a prefix, although Redis may contain other keys.
// redis-cell knows only one database, so the rule applies to database 0.
void share_with_cell(request::Spaces& spaces, policy::Rule& rule) {
  request::Space like;
  like.encoding = request::KeyEncoding::tat_text;
  rule.pattern += " " + std::string(database_entry) + "=0";
  rule.conditions.push_back({std::string(database_entry), policy::Pattern::equal_to("0")});
  rule.actor = {std::string(key_entry)};
  rule.intern(spaces, spaces.hold("", "", like));
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "resp",
    .written = false,
    .check_override = check_override,
    .unmatched = "SLUICE.* answer -NORULE, or as `resp.unmatched` says.",
};

std::string_view command_of(Algorithm algorithm) {
  for (const Served& one : served)
    if (one.algorithm == algorithm) return one.command;
  return {};
}

void add_throttle_rules(request::Spaces& spaces, policy::RuleSet& rules,
                        const RespOptions& options) {
  for (const Served& one : served) {
    policy::Rule rule;
    rule.name = one.command;
    rule.comment = "the limit that comes with each command";
    rule.pattern = std::string(command_entry) + "=" + std::string(one.command);
    rule.file = "resp";
    rule.conditions = {
        {std::string(command_entry), policy::Pattern::equal_to(std::string(one.command))}};
    rule.actor = {std::string(database_entry), std::string(key_entry)};
    rule.limits = {limit::gcra::without_numbers(one.algorithm)};
    rule.limits_from = policy::LimitsFrom::numbers;
    rule.on_store_error = options.on_store_error;
    if (options.cell_shared && one.algorithm == Algorithm::gcra_cell)
      share_with_cell(spaces, rule);
    else
      rule.intern(spaces, spaces.hold(std::string(one.prefix), "", request::Space()));
    rules.add(dialect, std::move(rule));
  }
  policy::Rule rule;
  rule.name = inline_command;
  rule.comment = "the limits that come with each request";
  rule.pattern = std::string(command_entry) + "=" + std::string(inline_command);
  rule.file = "resp";
  rule.conditions = {
      {std::string(command_entry), policy::Pattern::equal_to(std::string(inline_command))}};
  rule.actor = {std::string(key_entry)};
  rule.limits = {{limit::Algorithm::unlimited}};
  rule.limits_from = policy::LimitsFrom::request;
  rule.on_store_error = options.on_store_error;
  rule.intern(spaces, policy::inline_space(spaces));
  rules.add(dialect, std::move(rule));
}

}  // namespace sluice::resp
