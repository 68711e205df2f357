// Divvy's JSON policies: {"overrides": [rule, ...], "default": rule}.
#include "base/background.h"
#include "policy/read/json_tree.h"
#include "policy/text.h"
#include "protocol/divvy/raw.h"

namespace sluice::divvy {

namespace {

using policy::YamlNode;

bool is_text(YamlNode node) {
  return node.is_scalar() && !node.is_plain();
}
bool is_boolean(YamlNode node) {
  return node.is_plain() && (node.text() == "true" || node.text() == "false");
}
bool is_number(YamlNode node) {
  return node.is_scalar() && node.is_plain() && !is_boolean(node);
}

std::string kind_text(YamlNode node) {
  if (node.is_null()) return "null";
  if (node.is_list()) return "a list";
  if (node.is_map()) return "an object";
  return is_text(node) ? "text" : is_boolean(node) ? "true or false" : "a number";
}

// The text with which a value of an operation is compared.
std::string value_text(YamlNode node) {
  return is_text(node) ? std::string(node.text()) : compact_json(node);
}

bool is_unset(YamlNode node) {
  return node.is_null() ||
         (node.is_scalar() && (is_text(node) ? node.text().empty() : node.text() == "false"));
}

LineAndColumn place(YamlNode node) {
  return {node.line(), node.column()};
}

// Calls `take` with each key and value.
template <class Take>
void each_member(YamlNode object, Take take) {
  for (YamlNode key = object.first_child(); key; key = key.next().next())
    take(key.text(), key.next());
}

// The value of the key; no node: there is none.
YamlNode find(YamlNode object, std::string_view wanted) {
  YamlNode found;
  each_member(object, [&](std::string_view key, YamlNode value) {
    if (key == wanted) found = value;
  });
  return found;
}

class JsonReader {
 public:
  JsonReader(std::string_view text, Report& report) : text_(text), report_(report) {}

  std::vector<RawRule> read() {
    policy::YamlDocument document;
    std::vector<policy::RepeatedKey> repeated;
    if (const auto error = parse_json(text_, document, repeated)) {
      report_.error({error->line, error->column}, {}, error->message, error->remedy);
      return {};
    }
    for (const policy::RepeatedKey& one : repeated) {
      report_.warning({one.line, one.column}, {},
                      "`" + policy::shortened(one.key, 64) + "` is here twice; the last one counts",
                      "remove one");
    }
    const YamlNode root = document.root();
    if (!root.is_map()) {
      report_.error({1}, {}, "the file holds " + kind_text(root) + " instead of an object",
                    "write {\"overrides\": [...], \"default\": {...}}");
      return {};
    }
    each_member(root, [&](std::string_view key, YamlNode value) {
      if (key == "overrides" || key == "default") return;
      const std::string_view nearest =
          base::nearest_word(std::string(key), {"overrides", "default"});
      report_.warning(
          place(value), {}, "`" + policy::shortened(key, 64) + "` has no effect",
          nearest.empty() ? "remove it" : "did you mean `" + std::string(nearest) + "`?");
    });
    if (const YamlNode overrides = find(root, "overrides")) take_overrides(overrides);
    if (const YamlNode last = find(root, "default")) take_default(last);
    return std::move(rules_);
  }

 private:
  void take_overrides(YamlNode overrides) {
    if (!overrides.is_list()) {
      report_.error(place(overrides), {}, "`overrides` is " + kind_text(overrides),
                    "write a list of rules, [] for none");
      return;
    }
    for (YamlNode rule = overrides.first_child(); rule; rule = rule.next()) {
      base::yield_if_background();
      take_rule(rule, "a rule");
    }
  }

  void take_default(YamlNode last) {
    if (last.is_scalar()) {
      report_.warning(place(last), {}, "`default` is " + kind_text(last) + " and has no effect",
                      "write a rule: {\"operation\": {}, \"creditLimit\": N, \"resetSeconds\": N}");
      return;
    }
    take_rule(last, "`default`");
  }

  void take_rule(YamlNode node, const std::string& what) {
    if (!node.is_map()) {
      report_.error(place(node), {}, what + " is " + kind_text(node),
                    "write {\"operation\": {...}, \"creditLimit\": N, \"resetSeconds\": N}");
      rules_.emplace_back().broken = true;
      return;
    }
    RawRule rule;
    rule.place = place(node);
    if (!take_operation(node, rule, what)) {
      rules_.emplace_back().broken = true;
      return;
    }
    const std::string subject = rule.subject();
    each_member(node, [&](std::string_view key, YamlNode value) {
      take_field(std::string(key), value, rule, subject);
    });
    rules_.push_back(std::move(rule));
  }

  bool take_operation(YamlNode node, RawRule& rule, const std::string& what) {
    const std::string remedy =
        "write {\"key\": \"value\", ...}, or {} for a rule that matches every request";
    const YamlNode operation = find(node, "operation");
    if (!operation) {
      report_.error(rule.place, {}, what + " has no `operation`", remedy);
      return false;
    }
    if (!operation.is_map()) {
      report_.error(place(operation), {}, "`operation` is " + kind_text(operation), remedy);
      return false;
    }
    each_member(operation, [&](std::string_view key, YamlNode value) {
      rule.operation.emplace_back(key, value_text(value));
    });
    rule.spelling = "[" + rule.pattern() + "]";
    if (const YamlNode value = find(operation, "constructor"))
      report_.error(place(value), rule.subject(),
                    "`operation` has a key `constructor`, which Divvy does not take",
                    "name the key differently");
    return true;
  }

  void take_field(const std::string& name, YamlNode value, RawRule& rule,
                  const std::string& subject) {
    if (name == "operation") return;
    if (name == "creditLimit") {
      rule.credit_limit = number(value, name, subject);
      // As in Divvy, null or a missing number counts as a limit of 0.
      if (is_unset(value)) {
        report_.warning(
            place(value), subject,
            "creditLimit `" + value_text(value) + "` counts as 0: every request is denied",
            "write 0, or the limit that is meant");
        rule.credit_limit.kind = RawNumber::Kind::integer;
        rule.credit_limit.spelling = "0";
      }
    } else if (name == "resetSeconds") {
      rule.reset_seconds = number(value, name, subject);
    } else if (name == "actorField") {
      rule.actor_field = option(value, name, subject);
    } else if (name == "matchPolicy") {
      rule.match_policy = option(value, name, subject);
    } else if (name == "label") {
      rule.label = option(value, name, subject);
    } else if (name == "comment") {
      rule.comment = {is_unset(value) ? "" : value_text(value), place(value)};
    } else {
      report_.unknown_field(place(value), subject, name);
    }
  }

  RawText option(YamlNode value, const std::string& name, const std::string& subject) {
    if (is_unset(value)) return {"", place(value)};
    if (!is_text(value) && !is_number(value)) {
      report_.warning(place(value), subject,
                      "`" + name + "` is " + kind_text(value) + "; it is taken as the text `" +
                          policy::shortened(value_text(value), 64) + "`",
                      "write it in quotes");
    }
    return {value_text(value), place(value)};
  }

  RawNumber number(YamlNode value, const std::string& name, const std::string& subject) {
    // Also a number goes by its text, so that one function checks the bounds. The text of a whole
    // number contains neither a point nor an exponent.
    if (is_number(value) || (is_text(value) && !value.text().empty()))
      return whole(std::string(value.text()), place(value), name, subject);
    RawNumber wrong;
    wrong.kind = RawNumber::Kind::wrong;
    wrong.spelling = policy::shortened(value_text(value), 64);
    wrong.problem = "is not a number";
    wrong.place = place(value);
    return wrong;
  }

  RawNumber whole(const std::string& text, LineAndColumn at, const std::string& name,
                  const std::string& subject) {
    const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
    if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos) {
      RawNumber number = leading_integer(text, at, name, subject, report_);
      // Counter names contain the number as the file spells it, so "007" stays "007".
      if (number.kind == RawNumber::Kind::integer) number.spelling = text;
      return number;
    }
    RawNumber wrong;
    wrong.kind = RawNumber::Kind::wrong;
    wrong.spelling = policy::shortened(text, 64);
    wrong.problem = "is not a whole number up to " + std::to_string(base::bounds::quota_max);
    wrong.place = at;
    return wrong;
  }

  std::string_view text_;
  Report& report_;
  std::vector<RawRule> rules_;
};

}  // namespace

std::vector<RawRule> read_divvy_json(std::string_view text, Report& report) {
  return JsonReader(text, report).read();
}

}  // namespace sluice::divvy
