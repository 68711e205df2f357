#include "policy/read/native_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/units.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "policy/actor_name.h"
#include "policy/read/native.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

constexpr size_t plain_key_max = 1000;  // YAML allows 1,024 characters for a key without `?`

bool is_plain(std::string_view text) {
  static constexpr std::array<std::string_view, 5> words = {"null", "Null", "NULL", "true",
                                                            "false"};
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/';
  };
  return !text.empty() && text.size() <= plain_key_max && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || c == '-' || c == '.'; }) &&
         std::ranges::find(words, text) == words.end();
}

// A list is written as a YAML list, because its text would be compared as a text.
std::string yaml_of(const Pattern& pattern) {
  if (pattern.alternatives().empty()) return yaml_text(pattern.text());
  std::string out;
  for (const Pattern& one : pattern.alternatives())
    out += (out.empty() ? "[" : ", ") + yaml_text(one.text());
  return out + "]";
}

void append_match(const Rule& rule, std::string& out) {
  if (rule.conditions.empty()) return;
  out += "    match: {";
  for (const Condition& c : rule.conditions) {
    out += &c == &rule.conditions.front() ? " " : ", ";
    const bool is_long = c.key.size() > plain_key_max;
    out += (is_long ? "? " : "") + yaml_text(c.key) + (is_long ? " : " : ": ") + yaml_of(c.pattern);
  }
  out += " }\n";
}

void append_actor(const Rule& rule, std::string& out) {
  if (rule.actor.empty()) return;
  if (rule.actor.size() == 1) {
    out += "    actor: " + yaml_text(rule.actor.front()) + "\n";
    return;
  }
  out += "    actor: [";
  for (const std::string& actor : rule.actor)
    out += (&actor == &rule.actor.front() ? "" : ", ") + yaml_text(actor);
  out += "]\n";
}

void append_calendar(limit::Calendar calendar, std::string& out) {
  out += ", window: " + std::string(name_of(calendar.unit()));
  for (const auto& [key, value] : calendar.members())
    out += ", " + std::string(key) + ": " + yaml_text(value);
}

std::string limit_text(const Rule& rule, size_t index) {
  const limit::Limit& limit = rule.limits[index];
  std::string out = "{ quota: " + std::to_string(limit.quota);
  const bool is_places = limit.algorithm == limit::Algorithm::concurrency;
  const bool refills = !is_places && limit.algorithm != limit::Algorithm::fixed_bucket;
  if (limit.calendar)
    append_calendar(limit.calendar, out);
  else if (refills)
    out += ", window: " + base::spell_duration(limit.window);
  if (limit.algorithm != limit::Algorithm::token_bucket && !limit.calendar)
    out += ", algorithm: " + std::string(name_of(limit.algorithm));
  if (refills && limit.burst > 0 && limit.burst != limit.quota)
    out += ", burst: " + std::to_string(limit.burst);
  if (is_places) out += ", lease: " + base::spell_duration(limit.window);
  if (is_places && limit.burst != limit.window.us)
    out += ", max_lease: " + base::spell_duration({limit.burst});
  if (limit::has(rule.counts, index)) out += ", over: count";
  if (const auto overdraft = rule.overdraft_of(index))
    out += ", overdraft: " + std::to_string(*overdraft);
  if (const auto unit = rule.unit_of(index); !unit.empty()) out += ", unit: " + std::string(unit);
  return out + " }";
}

void append_limits(const Rule& rule, std::string& out) {
  if (!limit::has_counter(rule.limits.front().algorithm)) {
    out += "    " + std::string(name_of(rule.limits.front().algorithm)) + ": true\n";
    return;
  }
  if (rule.limits.size() == 1) {
    out += "    limit: " + limit_text(rule, 0) + "\n";
    return;
  }
  out += "    limits:\n";
  for (size_t i = 0; i < rule.limits.size(); ++i) out += "      - " + limit_text(rule, i) + "\n";
}

// A regular expression that matches only this text, whatever its characters.
std::string equal_expression(std::string_view text) {
  std::string out(expression_begin);
  out += '^';
  for (const char c : text) {
    if (std::string_view("-[]{}()+?.,\\^$|#*").find(c) != std::string_view::npos) out += '\\';
    if (c == '\n' || c == '\r')
      out += c == '\n' ? "\\n" : "\\r";
    else
      out += c;
  }
  return out + "$/)";
}

// The value of `match` with the same meaning; empty: native rules cannot express the pattern.
std::optional<std::string> native_value(const Pattern& pattern) {
  if (pattern.impossible() || pattern.oversized()) return std::nullopt;
  const std::string& text = pattern.text();
  const bool reads_otherwise =
      text.starts_with(network_begin) || text.starts_with(expression_begin);
  if (pattern.regex() != nullptr)
    return text.starts_with(expression_begin) ? text : "regex(" + text + ")";
  if (pattern.exact())
    return reads_otherwise || text.find('*') != text.npos ? equal_expression(text) : text;
  if (const std::string expression = pattern.loose_expression(); !expression.empty())
    return "regex(" + expression + ")";
  if (reads_otherwise) return std::nullopt;
  return pattern.is_prefix() ? std::string(pattern.literal()) + "*" : text;
}

// Replaces the rule's conditions by conditions of native rules that match the same values. Returns
// the text of a pattern that native rules cannot express; empty: all could be replaced.
std::optional<std::string> make_native(Rule& rule) {
  std::vector<Condition> conditions;
  for (const Condition& condition : rule.conditions) {
    // The condition holds for every request.
    if (condition.pattern.matches(std::nullopt)) continue;
    const auto value = native_value(condition.pattern);
    if (!value) return condition.key + "=" + condition.pattern.text();
    conditions.push_back({condition.key, Pattern::equal_to(*value)});
  }
  rule.conditions = std::move(conditions);
  return std::nullopt;
}

std::string sorted_match(const Rule& rule) {
  std::vector<std::string> all;
  for (const Condition& c : rule.conditions)
    all.push_back(yaml_quoted(c.key) + "=" + yaml_quoted(c.pattern.text()));
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += one;
  return text;
}

}  // namespace

std::string yaml_quoted(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  const auto escape = [&](uint32_t character, int digits) {
    out += digits == 2 ? "\\x" : "\\u";
    for (int i = digits - 1; i >= 0; --i) out += hex[character >> (4 * i) & 15];
  };
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode(text, i);
    // Characters that YAML does not allow unescaped.
    const bool control = c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0);
    if (control || c.value == 0x2028 || c.value == 0x2029 || c.value == 0xfffe ||
        c.value == 0xffff) {
      escape(c.value, control ? 2 : 4);
    } else {
      if (c.value == '"' || c.value == '\\') out += '\\';
      out += text.substr(i, c.size);
    }
    i += c.size;
  }
  return out + '"';
}

std::string yaml_text(std::string_view text) {
  return is_plain(text) ? std::string(text) : yaml_quoted(text);
}

std::string title_of(const Rule& rule) {
  return rule.name.empty() ? "rule [" + shortened(rule.pattern, 200) + "]" : "rule " + rule.name;
}

namespace {

void append_reserve(const request::HoldTerms& terms, std::string& out) {
  const request::HoldTerms usual;
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    text.append(text.empty() ? "" : ", ").append(key).append(": ").append(value);
  };
  if (terms.ttl_max != usual.ttl_max) add("max_ttl", base::spell_duration(terms.ttl_max));
  if (terms.fraction != usual.fraction) {
    std::string digits = std::to_string(terms.fraction);
    digits.insert(0, 6 - digits.size(), '0');
    digits.erase(digits.find_last_not_of('0') + 1);
    add("max_fraction", "0." + digits);
  }
  if (terms.keeps) add("on_expiry", "keep");
  if (terms.ignores_late) add("late_commit", "ignore");
  if (!text.empty()) out += "    reserve: { " + text + " }\n";
}

}  // namespace

std::string native_text(std::span<const Rule> rules) {
  std::string out;
  for (const Rule& rule : rules) {
    const size_t begin = out.size();
    if (!rule.name.empty()) out += "    name: " + yaml_text(rule.name) + "\n";
    if (!rule.comment.empty()) out += "    comment: " + yaml_quoted(rule.comment) + "\n";
    append_match(rule, out);
    append_actor(rule, out);
    append_limits(rule, out);
    if (rule.mode != Mode::enforce)
      out += std::string("    mode: ") + (rule.mode == Mode::shadow ? "shadow" : "off") + "\n";
    if (rule.then == Then::continue_) out += "    then: continue\n";
    if (rule.on_store_error != request::OnError::error)
      out += "    on_store_error: " + std::string(name_of(rule.on_store_error)) + "\n";
    append_reserve(rule.reserve, out);
    if (!rule.fair_by.empty()) out += "    fair_by: " + yaml_text(rule.fair_by) + "\n";
    out[begin + 2] = '-';
  }
  return out;
}

std::vector<Rule> as_native(std::span<const Rule> rules, std::string_view remedy,
                            base::Diagnostics& diagnostics) {
  std::vector<Rule> all;
  std::set<std::string> seen;
  for (const Rule& rule : rules) {
    Rule native;
    native.comment = rule.comment;
    native.file = rule.file;
    native.line = rule.line;
    native.conditions = rule.conditions;
    native.actor = rule.actor;
    native.mode = rule.mode;
    native.then = rule.then;
    native.on_store_error = rule.on_store_error;
    native.reserve = rule.reserve;
    native.limits = rule.limits;
    if (const auto problem = make_native(native)) {
      diagnostics.push_back({.file = rule.file,
                             .line = rule.line,
                             .column = 0,
                             .subject = "rule [" + shortened(rule.pattern, 200) + "]",
                             .message = in_ticks(*problem) + " cannot be written as a native rule",
                             .remedy = std::string(remedy)});
      continue;
    }
    if (sound_rule_name(rule.name)) native.name = rule.name;
    // In brackets, which no name contains.
    if (native.name.empty() && !seen.insert("[" + sorted_match(native) + "]").second)
      native.name = "rule-" + std::to_string(rule.line);
    while (!native.name.empty() && !seen.insert(native.name).second) native.name += "-";
    all.push_back(std::move(native));
  }
  return all;
}

}  // namespace sluice::policy
