#include "protocol/divvy/rules.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "policy/read/yaml_tree.h"
#include "policy/rule_set.h"
#include "policy/text.h"
#include "protocol/divvy/raw.h"
#include "request/space.h"

namespace sluice::divvy {

namespace {

using limit::Algorithm;
using limit::Limit;

// The suffix is needed because a canary may have the same pattern as the rule after it.
std::string rule_name(const policy::Rule& rule) {
  return rule.pattern + (rule.mode == policy::Mode::shadow ? " (canary)" : "");
}

// A rule is also known by its label, and a canary by its pattern without the suffix.
bool is_also_called(const policy::Rule& rule, std::string_view name) {
  return rule.name == name || rule.pattern == name;
}

std::optional<policy::LimitsProblem> check_override(std::span<const Limit> limits) {
  if (limits.size() == 1 && limits[0].algorithm == Algorithm::fixed_window &&
      limits[0].window.us % 1'000'000 == 0)
    return std::nullopt;
  return policy::LimitsProblem{
      "limits",
      "a rule of Divvy's has one limit of algorithm fixed_window, with a window of "
      "whole seconds: its counters are Divvy's own"};
}

// Divvy's key contains the limit's numbers, so another limit needs another space; the value is the
// number of units that remain.
request::SpaceRef override_space(request::Spaces& spaces, std::string_view prefix,
                                 const Limit& limit, size_t most) {
  request::Space like;
  like.encoding = request::KeyEncoding::remaining_text;
  return spaces.hold(
      prefix, ":" + std::to_string(limit.quota) + ":" + std::to_string(limit.window.us / 1'000'000),
      like, most);
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "divvy",
    .rule_name = rule_name,
    .is_also_called = is_also_called,
    .override_algorithm = Algorithm::fixed_window,
    .check_override = check_override,
    .override_space = override_space,
    .unmatched = "Divvy's protocol answers `OK false 0 -1`.",
};

namespace {

constexpr int64_t reset_seconds_max = base::bounds::window_us_max / 1'000'000;
constexpr size_t label_bytes_max = 255;

// The part of a counter's name that comes from the operation, with keys in Divvy's order.
std::string space_prefix(const RawRule& raw) {
  auto pairs = raw.operation;
  std::sort(pairs.begin(), pairs.end(),
            [](const auto& a, const auto& b) { return policy::utf16_less(a.first, b.first); });
  std::string prefix = "divvy:";
  for (const auto& [key, value] : pairs) {
    if (prefix.size() > 6) prefix += ' ';
    prefix += key + '=' + value;
  }
  return prefix + ':';
}

bool sound_label(std::string_view label) {
  return label.size() <= label_bytes_max && std::all_of(label.begin(), label.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

// The settings of a file's rules that the file does not contain.
struct SaidOfAll {
  DivvyMatching matching;
  request::OnError on_store_error;
};

class Validation {
 public:
  Validation(const SaidOfAll& said, request::Spaces& spaces, policy::RuleSet& rules, Report& report)
      : said_(said), spaces_(spaces), rules_(rules), report_(report) {}

  void add_all(const std::vector<RawRule>& raws) {
    if (raws.empty()) return;
    for (size_t i = 0; i < raws.size(); ++i) add(raws[i], i + 1 == raws.size());
    if (!raws.back().broken && !raws.back().operation.empty()) {
      report_.error(
          {}, {}, "the file does not define a default rule: the last rule must have no conditions",
          "add `[default]` (INI) or `\"default\": {\"operation\": {}, ...}` (JSON) at the end, "
          "with "
          "creditLimit = 0 and resetSeconds = 0 to deny what no rule matches");
    }
  }

 private:
  void add(const RawRule& raw, bool last) {
    if (raw.broken) return;
    if (raw.operation.size() > base::bounds::descriptor_entries_max) {
      report_.error(raw.place, raw.subject(),
                    "it asks for " + std::to_string(raw.operation.size()) +
                        " entries; a request has at most " +
                        std::to_string(base::bounds::descriptor_entries_max),
                    "remove conditions");
      return;
    }
    policy::Rule rule;
    rule.pattern = raw.pattern();
    rule.file = std::string(report_.file());
    rule.line = raw.place.line;
    if (!raw.actor_field.value.empty()) rule.actor = {raw.actor_field.value};
    rule.comment = raw.comment.value;
    rule.on_store_error = said_.on_store_error;
    add_conditions(raw, rule);
    check_reachable(raw, rule);
    check_numbers(raw, rule);
    check_label(raw, rule);
    check_policy(raw, rule, last);
    check_actor(raw);
    const std::string& seconds = raw.reset_seconds.spelling;
    request::Space like;
    like.encoding = request::KeyEncoding::remaining_text;
    rule.intern(spaces_, spaces_.hold(space_prefix(raw),
                                      ":" + raw.credit_limit.spelling + ":" + seconds, like));
    rules_.add(dialect, std::move(rule));
  }

  void add_conditions(const RawRule& raw, policy::Rule& rule) {
    for (const auto& [key, value] : raw.operation) {
      policy::Pattern pattern = said_.matching == DivvyMatching::code
                                    ? policy::Pattern::loose(value)
                                    : policy::Pattern::wildcard(value);
      if (pattern.impossible()) {
        report_.warning(raw.place, raw.subject(),
                        "`" + policy::shortened(key + "=" + value, 64) +
                            "` has a star directly behind a star: EVERY REQUEST "
                            "that gets as far as this condition is answered with an error and its "
                            "connection closed",
                        "write one `*`");
      } else if (pattern.oversized()) {
        report_.error(raw.place, raw.subject(),
                      "the value of `" + policy::shortened(key, 64) + "` has more than " +
                          std::to_string(policy::Pattern::elements_max) +
                          " characters behind its first star and a further star",
                      "shorten it, or use one star only");
      }
      rule.conditions.push_back({key, std::move(pattern)});
    }
  }

  // A rule is unreachable if a request with exactly its operation is decided by an earlier rule.
  void check_reachable(const RawRule& raw, const policy::Rule& rule) {
    descriptor_.clear();
    for (const auto& [key, value] : raw.operation) descriptor_.push_back({key, value});
    std::string_view error;
    const policy::Rule* by = rules_.decider(&dialect, descriptor_, error);
    if (!error.empty()) {
      report_.error(raw.place, raw.subject(),
                    "an earlier rule cannot be evaluated: " + std::string(error),
                    "write one `*` where that rule has two");
      return;
    }
    if (by == nullptr) return;
    const std::string place =
        (by->file == rule.file ? "line " : by->file + " line ") + std::to_string(by->line);
    std::string message = "it is unreachable: rule [" + policy::shortened(by->pattern, 200) +
                          "] (" + place + ") answers everything that it could match";
    const bool by_absent_key =
        std::any_of(by->conditions.begin(), by->conditions.end(), [&](const policy::Condition& c) {
          return c.pattern.any() &&
                 std::none_of(descriptor_.begin(), descriptor_.end(),
                              [&](const request::Entry& e) { return e.key == c.key; });
        });
    if (by_absent_key) message += " (in Divvy `*` also matches a request without the key)";
    report_.error(raw.place, raw.subject(), std::move(message),
                  "move it in front of that rule, or narrow that rule" +
                      std::string(by_absent_key ? ", or choose the documented matching" : ""));
  }

  void check_numbers(const RawRule& raw, policy::Rule& rule) {
    const RawNumber& limit = raw.credit_limit;
    if (!sound_number(raw, limit, "creditLimit",
                      "add `creditLimit = N`: how many requests a window allows, 0 for none")) {
      return;
    }
    if (limit.value == 0) {
      rule.limits = {{limit::Algorithm::deny, 0, {}}};
      return;
    }
    const RawNumber& reset = raw.reset_seconds;
    if (!sound_number(raw, reset, "resetSeconds",
                      "add `resetSeconds = N`: the seconds of a window, 0 to allow always")) {
      return;
    }
    if (reset.value > reset_seconds_max) {
      report_.error(reset.place, raw.subject(),
                    "resetSeconds " + reset.spelling + " is beyond " +
                        std::to_string(reset_seconds_max) + " (100 years), the longest window",
                    "shorten the window");
      return;
    }
    rule.limits = {reset.value == 0 ? limit::Limit{limit::Algorithm::unlimited, limit.value, {}}
                                    : limit::Limit{limit::Algorithm::fixed_window, limit.value,
                                                   base::seconds(reset.value)}};
  }

  bool sound_number(const RawRule& raw, const RawNumber& number, std::string_view field,
                    std::string remedy) {
    const std::string name(field);
    if (number.kind == RawNumber::Kind::missing) {
      report_.error(raw.place, raw.subject(), name + " is missing", std::move(remedy));
    } else if (number.kind == RawNumber::Kind::wrong) {
      report_.error(
          number.place, raw.subject(), name + " `" + number.spelling + "` " + number.problem,
          number.problem.find("; write") == std::string::npos ? "write a whole number from 0 on"
                                                              : "");
    } else if (number.value < 0) {
      report_.error(number.place, raw.subject(), name + " " + number.spelling + " is negative",
                    "write a whole number from 0 on");
    } else {
      return true;
    }
    return false;
  }

  void check_label(const RawRule& raw, policy::Rule& rule) {
    const std::string& label = raw.label.value;
    if (label.empty()) return;
    rule.name = label;
    if (!sound_label(label)) {
      report_.error(raw.label.place, raw.subject(),
                    "label `" + policy::shortened(label, 64) + "` cannot name a metric",
                    "use 1 to 255 letters, digits, `_` or `-`");
      return;
    }
    const auto [first, fresh] = labels_.try_emplace(label, raw.place.line);
    if (fresh) return;
    report_.error(raw.label.place, raw.subject(),
                  "label `" + label + "` is already the label of the rule on line " +
                      std::to_string(first->second),
                  "give each rule a label of its own");
  }

  void check_policy(const RawRule& raw, policy::Rule& rule, bool last) {
    const std::string& policy = raw.match_policy.value;
    if (policy == "canary") {
      rule.counted_as_shadow = true;
      // No rule follows the default rule, so it decides even as a canary.
      const bool decides = last && raw.operation.empty();
      rule.mode = decides ? policy::Mode::enforce : policy::Mode::shadow;
      if (decides) {
        report_.warning(
            raw.match_policy.place, raw.subject(),
            "the default rule decides although its matchPolicy is canary; only metrics call it one",
            "remove the matchPolicy");
      }
    } else if (!policy.empty() && policy != "stop") {
      const std::string_view nearest = base::nearest_word(policy, {"stop", "canary"});
      report_.error(
          raw.match_policy.place, raw.subject(),
          "matchPolicy `" + policy::shortened(policy, 64) + "` is unknown",
          nearest.empty() ? "write `stop` or `canary`" : "write `" + std::string(nearest) + "`");
    }
  }

  void check_actor(const RawRule& raw) {
    const std::string& actor = raw.actor_field.value;
    if (actor.empty() || raw.operation.empty()) return;
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : raw.operation) {
      if (key == actor) return;
      keys.push_back(key);
    }
    const std::string_view nearest = base::nearest_word(actor, keys);
    report_.warning(
        raw.actor_field.place, raw.subject(),
        "actorField `" + policy::shortened(actor, 64) +
            "` is not a key of this rule; all requests without that key share one counter",
        nearest.empty() ? "check its spelling; if requests carry it, all is well"
                        : "did you mean `" + std::string(nearest) + "`?");
  }

  const SaidOfAll said_;
  request::Spaces& spaces_;
  policy::RuleSet& rules_;
  Report& report_;
  std::unordered_map<std::string, size_t> labels_;  // the line of the rule that has the label
  std::vector<request::Entry> descriptor_;
};

size_t line_of(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(
                 std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

}  // namespace

std::optional<DivvyFormat> divvy_format(std::string_view file_name) {
  const size_t name = file_name.find_last_of('/') + 1;
  const size_t dot = file_name.find_last_of('.');
  // A name such as ".ini" has no extension.
  if (dot == std::string_view::npos || dot <= name) return std::nullopt;
  const std::string_view extension = file_name.substr(dot);
  if (extension == ".ini") return DivvyFormat::ini;
  if (extension == ".json") return DivvyFormat::json;
  return std::nullopt;
}

void read_divvy(std::string_view text, DivvyFormat format, DivvyMatching matching,
                std::string_view file, request::Spaces& spaces, policy::RuleSet& rules,
                base::Diagnostics& diagnostics, request::OnError on_store_error) {
  Report report(file, diagnostics);
  if (text.size() > base::bounds::config_bytes_max) {
    report.error({}, {},
                 "the file has " + std::to_string(text.size()) + " bytes; " +
                     std::to_string(base::bounds::config_bytes_max) + " is the most that is read",
                 "split the policy or shorten it");
    return;
  }
  size_t replaced_at = 0;
  const std::string sound = policy::sound_utf8(text, replaced_at);
  if (replaced_at != std::string_view::npos) {
    report.warning({line_of(text, replaced_at)}, {},
                   "the file is not UTF-8 here; what is ill-formed reads as U+FFFD",
                   "save the file as UTF-8");
  }
  std::string_view content = sound;
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);

  const size_t before = diagnostics.size();
  const std::vector<RawRule> raws = format == DivvyFormat::ini ? read_divvy_ini(content, report)
                                                               : read_divvy_json(content, report);
  // Its lines say nothing each.
  if (auto manifest = raws.empty() ? policy::find_manifest(content) : std::nullopt) {
    diagnostics.resize(before);
    report.error({manifest->line}, {}, std::move(manifest->message), std::move(manifest->remedy));
    return;
  }
  const size_t room =
      base::bounds::rules_max - std::min(base::bounds::rules_max, rules.rules(&dialect).size());
  if (raws.size() > room) {
    report.error({}, {}, "more than " + std::to_string(base::bounds::rules_max) + " rules in all",
                 "join rules that differ in a value only into one with a `*`");
    return;
  }
  const auto added = diagnostics.begin() + static_cast<ptrdiff_t>(before);
  if (raws.empty() && !base::has_errors({added, diagnostics.end()})) {
    report.error({}, {}, "the file does not define any rules",
                 "add at least a `[default]` rule (INI) or `default` (JSON)");
  }
  Validation({matching, on_store_error}, spaces, rules, report).add_all(raws);
  // Sorts the findings of the reader and the validation by line; findings about the whole file,
  // which have no line, come last.
  std::stable_sort(
      diagnostics.begin() + static_cast<ptrdiff_t>(before), diagnostics.end(),
      [](const base::Diagnostic& a, const base::Diagnostic& b) { return a.line - 1 < b.line - 1; });
}

}  // namespace sluice::divvy
