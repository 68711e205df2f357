#include "protocol/limitd/type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"
#include "policy/text.h"
#include "protocol/limitd/rules.h"
#include "protocol/limitd/value.h"

namespace sluice::limitd {

namespace {

using Kind = LimitdValue::Kind;
using limit::Algorithm;
using limit::Limit;
using policy::in_ticks;

constexpr int64_t interval_ms_max = base::bounds::window_us_max / 1000;
constexpr limit::Duration keep_fresh_for = base::seconds(120);

constexpr std::array<std::string_view, 11> type_keys = {
    "size",     "per_second", "per_minute", "per_hour", "per_day", "per_interval",
    "interval", "unlimited",  "override",   "purpose",  "match"};
constexpr std::array<std::string_view, 10> override_keys = {
    "size",         "per_second", "per_minute", "per_hour", "per_day",
    "per_interval", "interval",   "unlimited",  "match",    "until"};

std::string_view called(const LimitdValue& value) {
  switch (value.kind) {
    case Kind::null:
      return "nothing";
    case Kind::boolean:
      return "a truth value";
    case Kind::integer:
    case Kind::number:
      return "a number";
    case Kind::time:
      return "a date";
    case Kind::text:
      return "text";
    case Kind::regex:
      return "a regular expression";
    case Kind::unknown:
      break;
  }
  return "something else";
}

class TypeReader {
 public:
  explicit TypeReader(policy::YamlReader& reader) : reader_(reader) {}

  void read(policy::YamlNode key, policy::YamlNode value, LimitdType& type) {
    const std::string context = "bucket " + policy::shortened(type.name, 64);
    reader_.set_context(context);
    if (!value.is_map()) {
      reader_.error("", key, value.is_null() ? "has no value" : "must be a map of keys to values",
                    "write `{ size: 10, per_second: 5 }`");
      return;
    }
    const auto entries = reader_.entries("", value, type_keys);
    numbers(entries, type.numbers);
    warn_of_name(key);
    if (!type.numbers.size && !type.numbers.rate && !number_failed_)
      reader_.error("", value, "has neither a size nor a rate",
                    "add `size: N`, or one of per_second, per_minute, per_hour, per_day, or both");
    for (const auto& [name, node] : entries) {
      if (name.text() == "purpose") {
        if (reader_.has_text("purpose", node)) type.purpose = node.text();
      } else if (name.text() == "match") {
        reader_.warning("match", name, "has no effect on a type", "move it to an override");
      } else if (name.text() == "override") {
        overrides(node.line() > 0 ? node : name, node, context, type);
      }
    }
  }

 private:
  using Entries = std::vector<policy::YamlReader::Entry>;

  void numbers(const Entries& entries, LimitdNumbers& out) {
    number_failed_ = false;
    policy::YamlNode rate_key, per_interval, interval_key;
    std::string rate_name;
    std::optional<int64_t> interval_ms;
    for (const auto& [key, node] : entries) {
      const std::string name(key.text());
      if (name == "size") {
        out.size = integer(name, key, node, 0, base::bounds::quota_max);
      } else if (name == "unlimited") {
        const LimitdValue value = limitd_value(node);
        if (value.kind == Kind::boolean)
          out.unlimited = value.boolean;
        else
          wrong(name, key, node, value, "must be true or false", "write `true` or `false`");
      } else if (name == "interval") {
        interval_key = key;
        interval_ms = integer(name, key, node, 1, interval_ms_max);
      } else if (name.starts_with("per_")) {
        const auto units = integer(name, key, node, 1, base::bounds::quota_max);
        if (rate_key) {
          number_failed_ = true;
          reader_.error(name, key,
                        "is a second rate beside " + rate_name + " (line " +
                            std::to_string(rate_key.line()) + ")",
                        "use only one of per_second, per_minute, per_hour, per_day and "
                        "per_interval");
          continue;
        }
        rate_key = key;
        rate_name = name;
        if (name == "per_interval") per_interval = key;
        const int64_t seconds = name == "per_second"   ? 1
                                : name == "per_minute" ? 60
                                : name == "per_hour"   ? 3600
                                : name == "per_day"    ? 86'400
                                                       : 0;
        if (units) out.rate = {*units, base::seconds(seconds)};
      }
    }
    if (per_interval && !interval_key) {
      number_failed_ = true;
      reader_.error("per_interval", per_interval, "has no interval beside it",
                    "add `interval: N`, in milliseconds");
    } else if (interval_key && !per_interval) {
      number_failed_ = true;
      reader_.error("interval", interval_key, "has no per_interval beside it",
                    "add `per_interval: N`, the tokens of an interval");
    } else if (per_interval && out.rate && interval_ms) {
      out.rate->window = base::milliseconds(*interval_ms);
    }
  }

  void wrong(const std::string& name, policy::YamlNode key, policy::YamlNode node,
             const LimitdValue& value, const std::string& message, std::string remedy) {
    number_failed_ = true;
    std::string shown = node.is_scalar() ? in_ticks(value.text) + " is " : "this is ";
    reader_.error(name, node.line() > 0 ? node : key,
                  message + ", and " + shown + std::string(called(value)), std::move(remedy));
  }

  std::optional<int64_t> integer(const std::string& name, policy::YamlNode key,
                                 policy::YamlNode node, int64_t least, int64_t most) {
    const LimitdValue value = limitd_value(node);
    const std::string range = std::to_string(least) + " to " + std::to_string(most);
    if (value.kind != Kind::integer) {
      wrong(name, key, node, value,
            value.kind == Kind::number ? "must be a whole number" : "must be a number",
            "write a whole number, " + range + ", without quotes");
    } else if (value.integer < least || value.integer > most) {
      number_failed_ = true;
      reader_.error(
          name, node,
          in_ticks(value.text) + (value.integer < least ? " is less than " + std::to_string(least)
                                                        : " is more than is counted to"),
          "write " + range);
    } else {
      const bool is_octal = value.text[0] == '0' && value.integer > 7 &&
                            value.text.find_first_not_of("01234567_") == std::string_view::npos;
      if (is_octal)
        reader_.warning(
            name, node,
            in_ticks(value.text) + " is not decimal: it is " + std::to_string(value.integer),
            "write `" + std::to_string(value.integer) + "` if that is meant");
      return value.integer;
    }
    return std::nullopt;
  }

  void overrides(policy::YamlNode place, policy::YamlNode map, const std::string& context,
                 LimitdType& type) {
    if (!map.is_map()) {
      reader_.error("override", place, "must be a map of keys to what holds for them",
                    "write `override: { 127.0.0.1: { size: 100 } }`");
      return;
    }
    for (const auto& [key, value] : reader_.entries("override", map)) {
      if (reader_.is_over()) return;
      LimitdOverride& one = type.overrides.emplace_back();
      one.name = key.text();
      one.line = key.line();
      reader_.set_context(context + ": override " + policy::shortened(one.name, 64));
      if (value.is_map())
        read_override(key, value, one);
      else
        reader_.error("", key, "must be a map of keys to values", "write `{ size: 10 }`");
    }
    reader_.set_context(context);
  }

  void read_override(policy::YamlNode key, policy::YamlNode value, LimitdOverride& out) {
    const auto entries = reader_.entries("", value, override_keys);
    numbers(entries, out.numbers);
    for (const auto& [name, node] : entries) {
      if (name.text() == "match") {
        if (!reader_.has_text("match", node)) continue;
        const bool tagged = limitd_value(node).kind == Kind::regex;
        auto expression = limitd_expression(node.text(), tagged);
        if (expression)
          out.expression = *std::move(expression);
        else
          reader_.error("match", node, in_ticks(node.text()) + " " + expression.problem().text,
                        "write it as in `!!js/regexp /^127\\./i`");
      } else if (name.text() == "until") {
        const LimitdValue at = limitd_value(node);
        const auto time = at.kind == Kind::time ? at.time : limitd_time(at.text);
        if (time)
          out.until = *time;
        else
          reader_.error("until", node.line() > 0 ? node : name,
                        node.is_scalar() ? in_ticks(at.text) + " is not a date" : "must be a date",
                        "write `2030-12-31` or `2030-12-31T23:59:59Z`");
      }
    }
    if (!out.expression) warn_of_name(key);
  }

  // All keys of a JavaScript object are texts: a number becomes its shortest spelling.
  void warn_of_name(policy::YamlNode key) {
    const LimitdValue value = limitd_value(key);
    const bool other = value.kind == Kind::time ||
                       (value.kind == Kind::integer && std::to_string(value.integer) != value.text);
    if (other)
      reader_.warning("", key,
                      "limitd takes this name for " + std::string(called(value)) +
                          " and spells it in its own way; here it is " + in_ticks(value.text),
                      "write it in quotes");
  }

  policy::YamlReader& reader_;
  bool number_failed_ = false;
};

Limit limit_of(const LimitdNumbers& numbers) {
  const int64_t size = numbers.size ? *numbers.size : numbers.rate ? numbers.rate->units : 0;
  const limit::Duration window = numbers.rate ? numbers.rate->window : limit::Duration{};
  if (numbers.unlimited.value_or(false)) return {Algorithm::unlimited, size, window, 0};
  if (size == 0) return {Algorithm::deny, 0, {}, 0};
  if (!numbers.rate) return {Algorithm::fixed_bucket, size, {}, size};
  return {Algorithm::token_bucket, numbers.rate->units, window, size};
}

}  // namespace

LimitdType read_limitd_type(policy::YamlNode key, policy::YamlNode value, std::string_view file,
                            policy::YamlReader& reader) {
  LimitdType type;
  type.name = key.text();
  type.file = file;
  type.line = key.line();
  TypeReader(reader).read(key, value, type);
  reader.set_context("");
  return type;
}

void add_limitd_rules(const LimitdType& type, request::Spaces& spaces, policy::RuleSet& rules) {
  std::string prefix = "limitd:";
  for (const char c : type.name) {
    if (c == ':' || c == '\\') prefix += '\\';
    prefix += c;
  }
  request::Space like;
  like.carry = limit::CarryOver::left;
  like.keep_fresh_for = keep_fresh_for;
  const request::SpaceRef space = spaces.hold(prefix + ':', "", like);
  const auto add = [&](policy::Rule rule, const LimitdNumbers& numbers) {
    rule.file = type.file;
    rule.actor = {"key"};
    rule.on_store_error = request::OnError::local;  // the protocol cannot express an error
    rule.limits = {limit_of(numbers)};
    rule.intern(spaces, space);
    rules.add(dialect, std::move(rule));
  };

  std::vector<const LimitdOverride*> ordered;
  for (const LimitdOverride& one : type.overrides) ordered.push_back(&one);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return javascript_index(a->name).value_or(UINT32_MAX) <
           javascript_index(b->name).value_or(UINT32_MAX);
  });
  for (const LimitdOverride* one : ordered) {
    policy::Rule rule;
    rule.line = one->line;
    rule.until = one->until;
    rule.pattern =
        "type=" + type.name + " key=" + (one->expression ? one->expression->text() : one->name);
    if (one->expression) rule.comment = one->name;
    rule.conditions.push_back({"type", policy::Pattern::equal_to(type.name)});
    rule.conditions.push_back(
        {"key", one->expression ? *one->expression : policy::Pattern::equal_to(one->name)});
    LimitdNumbers numbers = one->numbers;
    if (!numbers.size && !numbers.rate) {
      numbers = type.numbers;
      if (one->numbers.unlimited) numbers.unlimited = one->numbers.unlimited;
    }
    add(std::move(rule), numbers);
  }
  policy::Rule rule;
  rule.name = type.name;
  rule.comment = type.purpose;
  rule.line = type.line;
  rule.pattern = "type=" + type.name;
  rule.conditions.push_back({"type", policy::Pattern::equal_to(type.name)});
  add(std::move(rule), type.numbers);
}

}  // namespace sluice::limitd
