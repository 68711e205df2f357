// Divvy's JSON policies: {"overrides": [rule, ...], "default": rule}.
#include <algorithm>

#include "base/background.h"
#include "policy/read/json_tree.h"
#include "policy/text.h"
#include "protocol/divvy/raw.h"

namespace sluice::divvy {

namespace {

using Kind = policy::JsonNode::Kind;

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "true or false";
    case Kind::number:
      return "a number";
    case Kind::text:
      return "text";
    case Kind::list:
      return "a list";
    case Kind::object:
      return "an object";
  }
  return "";
}

// The text with which a value of an operation is compared.
std::string value_text(const policy::JsonNode& node) {
  return node.kind == Kind::text ? node.text : compact_json(node);
}

bool is_unset(const policy::JsonNode& node) {
  return node.kind == Kind::null || (node.kind == Kind::boolean && !node.boolean) ||
         (node.kind == Kind::text && node.text.empty());
}

class JsonReader {
 public:
  JsonReader(std::string_view text, Report& report) : text_(text), report_(report) {
    for (size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '\n') line_starts_.push_back(at + 1);
    }
  }

  std::vector<RawRule> read() {
    policy::JsonDocument document;
    if (const auto error = parse_json(text_, document)) {
      report_.error(place(error->at), {}, error->message,
                    "check commas, quotes and brackets there");
      return {};
    }
    for (const auto& [key, at] : document.repeated_keys) {
      report_.warning(place(at), {},
                      "`" + policy::shortened(key, 64) + "` is here twice; the last one counts",
                      "remove one");
    }
    const policy::JsonNode& root = document.root;
    if (root.kind != Kind::object) {
      report_.error({1}, {},
                    std::string("the file holds ") + kind_text(root.kind) + " instead of an object",
                    "write {\"overrides\": [...], \"default\": {...}}");
      return {};
    }
    for (size_t i = 0; i < root.keys.size(); ++i) {
      const std::string& key = root.keys[i];
      if (key == "overrides" || key == "default") continue;
      const std::string_view nearest = base::nearest_word(key, {"overrides", "default"});
      report_.warning(
          place(root.items[i].at), {}, "`" + policy::shortened(key, 64) + "` has no effect",
          nearest.empty() ? "remove it" : "did you mean `" + std::string(nearest) + "`?");
    }
    if (const policy::JsonNode* overrides = root.find("overrides")) take_overrides(*overrides);
    if (const policy::JsonNode* last = root.find("default")) take_default(*last);
    return std::move(rules_);
  }

 private:
  Place place(size_t at) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), at);
    return {static_cast<size_t>(next - line_starts_.begin()), at - *(next - 1) + 1};
  }

  void take_overrides(const policy::JsonNode& overrides) {
    if (overrides.kind != Kind::list) {
      report_.error(place(overrides.at), {},
                    std::string("`overrides` is ") + kind_text(overrides.kind),
                    "write a list of rules, [] for none");
      return;
    }
    for (const policy::JsonNode& rule : overrides.items) {
      base::yield_if_background();
      take_rule(rule, "a rule");
    }
  }

  void take_default(const policy::JsonNode& last) {
    const bool skipped =
        last.kind != Kind::object && last.kind != Kind::null && last.kind != Kind::list;
    if (skipped) {
      report_.warning(place(last.at), {},
                      std::string("`default` is ") + kind_text(last.kind) + " and has no effect",
                      "write a rule: {\"operation\": {}, \"creditLimit\": N, \"resetSeconds\": N}");
      return;
    }
    take_rule(last, "`default`");
  }

  void take_rule(const policy::JsonNode& node, const std::string& what) {
    if (node.kind != Kind::object) {
      report_.error(place(node.at), {}, what + " is " + kind_text(node.kind),
                    "write {\"operation\": {...}, \"creditLimit\": N, \"resetSeconds\": N}");
      rules_.emplace_back().broken = true;
      return;
    }
    RawRule rule;
    rule.place = place(node.at);
    if (!take_operation(node, rule, what)) {
      rules_.emplace_back().broken = true;
      return;
    }
    const std::string subject = rule.subject();
    for (size_t i = 0; i < node.keys.size(); ++i)
      take_field(node.keys[i], node.items[i], rule, subject);
    rules_.push_back(std::move(rule));
  }

  bool take_operation(const policy::JsonNode& node, RawRule& rule, const std::string& what) {
    const std::string remedy =
        "write {\"key\": \"value\", ...}, or {} for a rule that matches every request";
    const policy::JsonNode* operation = node.find("operation");
    if (operation == nullptr) {
      report_.error(rule.place, {}, what + " has no `operation`", remedy);
      return false;
    }
    if (operation->kind != Kind::object) {
      report_.error(place(operation->at), {},
                    std::string("`operation` is ") + kind_text(operation->kind), remedy);
      return false;
    }
    for (size_t i = 0; i < operation->keys.size(); ++i)
      rule.operation.emplace_back(operation->keys[i], value_text(operation->items[i]));
    rule.spelling = "[" + rule.pattern() + "]";
    for (size_t i = 0; i < operation->keys.size(); ++i) {
      if (operation->keys[i] == "constructor") {
        report_.error(place(operation->items[i].at), rule.subject(),
                      "`operation` has a key `constructor`, which Divvy does not take",
                      "name the key differently");
      }
    }
    return true;
  }

  void take_field(const std::string& name, const policy::JsonNode& value, RawRule& rule,
                  const std::string& subject) {
    if (name == "operation") return;
    if (name == "creditLimit") {
      rule.credit_limit = number(value, name, subject);
      // As in Divvy, null or a missing number counts as a limit of 0.
      if (is_unset(value)) {
        report_.warning(
            place(value.at), subject,
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
      rule.comment = {is_unset(value) ? "" : value_text(value), place(value.at)};
    } else {
      report_.unknown_field(place(value.at), subject, name);
    }
  }

  RawText option(const policy::JsonNode& value, const std::string& name,
                 const std::string& subject) {
    if (is_unset(value)) return {"", place(value.at)};
    if (value.kind != Kind::text && value.kind != Kind::number) {
      report_.warning(place(value.at), subject,
                      "`" + name + "` is " + kind_text(value.kind) + "; it is taken as the text `" +
                          policy::shortened(value_text(value), 64) + "`",
                      "write it in quotes");
    }
    return {value_text(value), place(value.at)};
  }

  RawNumber number(const policy::JsonNode& value, const std::string& name,
                   const std::string& subject) {
    if (value.kind == Kind::number) {
      // Goes through the number's text so that one function checks the bounds. The text of a whole
      // number contains neither a point nor an exponent.
      return whole(policy::number_text(value.number), place(value.at), name, subject);
    }
    if (value.kind == Kind::text && !value.text.empty())
      return whole(value.text, place(value.at), name, subject);
    RawNumber wrong;
    wrong.kind = RawNumber::Kind::wrong;
    wrong.spelling = policy::shortened(value_text(value), 64);
    wrong.problem = "is not a number";
    wrong.place = place(value.at);
    return wrong;
  }

  RawNumber whole(const std::string& text, Place at, const std::string& name,
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
  std::vector<size_t> line_starts_{0};
  std::vector<RawRule> rules_;
};

}  // namespace

std::vector<RawRule> read_divvy_json(std::string_view text, Report& report) {
  return JsonReader(text, report).read();
}

}  // namespace sluice::divvy
