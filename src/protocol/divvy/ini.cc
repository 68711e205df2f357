// Divvy's INI dialect. It follows the JavaScript INI parser that Divvy uses, with three differences
// that users have always expected: dots in section names are ordinary characters, sections keep the
// order of the file, and blanks or a comment may stand around a section header.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/background.h"
#include "policy/text.h"
#include "protocol/divvy/raw.h"

namespace sluice::divvy {

namespace {

struct Line {
  std::string_view text;
  size_t number;
};

// One value in the file; a field written as a list (`x[] = 1`) has several.
struct Value {
  std::string text;
  bool set = true;  // false for the words null and false
};

std::string scalar_text(const nlohmann::json& json, const std::string& otherwise) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number()) return policy::number_text(json.get<double>());
  if (json.is_boolean()) return json.get<bool>() ? "true" : "false";
  if (json.is_null()) return "null";
  return otherwise;
}

bool is_quoted(std::string_view text) {
  return !text.empty() && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
}

// Removes the quotes, escapes and comment from a name or value.
Value unquoted(std::string_view raw) {
  const std::string_view text = policy::trim(raw);
  if (is_quoted(text)) {
    const bool single = text[0] == '\'';
    const std::string inner(single ? text.substr(1, text.size() > 1 ? text.size() - 2 : 0) : text);
    const nlohmann::json json = nlohmann::json::parse(inner, nullptr, false);
    if (json.is_discarded()) return {inner};
    return {scalar_text(json, inner), !json.is_null() && json != false};
  }
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ';' || c == '#') break;
    if (c == '\\' && at + 1 < text.size() &&
        std::string_view("\\;#").find(text[at + 1]) != std::string_view::npos) {
      out += text[++at];
    } else if (c == '\\' && at + 1 < text.size()) {
      // A backslash before any other character stays, and that character is then read as usual.
      out += c;
      out += text[++at];
    } else {
      out += c;
    }
  }
  return {std::string(policy::trim(out))};
}

// The text between the brackets of a section header; nothing: the line is not a header.
std::optional<std::string_view> section_header(std::string_view line) {
  const std::string_view text = policy::trim(line);
  if (!text.starts_with('[')) return std::nullopt;
  const size_t end = text.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view behind = policy::trim(text.substr(end + 1));
  if (!behind.empty() && behind[0] != ';' && behind[0] != '#') return std::nullopt;
  return text.substr(1, end - 1);
}

std::string without_escaped_dots(std::string text) {
  for (size_t at = 0; (at = text.find("\\.", at)) != std::string::npos; ++at) text.erase(at, 1);
  return text;
}

// Parses "method=GET path=/x". Each word ends at its second `=`, if it has one; a word without `=`
// has an empty value.
std::vector<std::pair<std::string, std::string>> operation_of(std::string_view name,
                                                              size_t& cut_words) {
  std::vector<std::pair<std::string, std::string>> operation;
  std::unordered_map<std::string, size_t> places;
  const auto add = [&](std::string_view word) {
    const size_t equals = word.find('=');
    std::string key(word.substr(0, equals));
    std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    const size_t second = value.find('=');
    if (second != std::string_view::npos) {
      value = value.substr(0, second);
      ++cut_words;
    }
    const auto [place, fresh] = places.try_emplace(key, operation.size());
    if (fresh) {
      operation.emplace_back(std::move(key), value);
    } else {
      operation[place->second].second = value;
    }
  };
  size_t first = 0;
  for (size_t at = 0; at < name.size();) {
    const size_t space = policy::space_size(name, at);
    if (space == 0) {
      ++at;
      continue;
    }
    if (at > first) add(name.substr(first, at - first));
    at += space;
    first = at;
  }
  if (first < name.size() || operation.empty()) add(name.substr(first));
  return operation;
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  size_t number = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    lines.push_back({text.substr(at, end - at), number});
    const bool pair = text.substr(end, 2) == "\r\n";
    at = end + (pair ? 2 : 1);
    ++number;
    base::yield_if_background();
  }
  return lines;
}

// The error for a line that begins like a section header but has no `]`; empty: the line is
// another.
std::string header_without_end(std::string_view line) {
  const std::string_view text = policy::trim(line);
  if (!text.starts_with('[') || text.find(']') != text.npos) return "";
  return "`" + policy::shortened(text, 64) + "` has no `]`";
}

class Reader {
 public:
  explicit Reader(Report& report) : report_(report) {}

  std::vector<RawRule> read(std::string_view text) {
    for (const Line& line : lines_of(text)) {
      base::yield_if_background();
      const std::string_view content = policy::trim(line.text);
      if (content.empty() || content[0] == ';' || content[0] == '#') continue;
      if (const auto name = section_header(line.text)) {
        open_section(*name, line.number);
      } else {
        take_field(line);
      }
    }
    std::vector<RawRule> rules;
    rules.reserve(sections_.size());
    for (Section& section : sections_) {
      base::yield_if_background();
      rules.push_back(finish(section));
    }
    return rules;
  }

 private:
  // The fields of a rule, in the order of `names`.
  enum Name : size_t { credit_limit, reset_seconds, actor_field, match_policy, label, comment };
  static constexpr std::array<std::string_view, 6> names = {
      "creditLimit", "resetSeconds", "actorField", "matchPolicy", "label", "comment"};
  struct Field {
    std::vector<Value> values;  // empty: the file does not set the field
    bool list = false;
    size_t line = 0;
  };
  struct Section {
    std::string spelling, name;
    size_t line = 0;
    std::array<Field, names.size()> fields;
  };

  void open_section(std::string_view between, size_t line) {
    std::string name = without_escaped_dots(unquoted(between).text);
    const auto [place, fresh] = by_name_.try_emplace(name, sections_.size());
    current_ = place->second;
    opened_line_ = line;
    if (fresh) {
      sections_.push_back({"[" + std::string(between) + "]", std::move(name), line, {}});
      return;
    }
    const Section& first = sections_[current_];
    report_.warning({line}, subject_of(first),
                    "this section is merged into the one of line " + std::to_string(first.line) +
                        ", at that place in the order; fields that both have are taken from here",
                    "join the two sections, or use JSON for two rules with one operation");
  }

  void take_field(const Line& line) {
    const size_t equals = line.text.find('=');
    if (equals == 0) {
      report_.warning({line.number}, {}, "this line begins with `=` and has no effect",
                      "remove it");
      return;
    }
    std::string name = unquoted(line.text.substr(0, equals)).text;
    if (current_ == no_section) {
      if (const std::string problem = header_without_end(line.text); !problem.empty()) {
        report_.error({line.number}, {}, problem, "end the section's header with it");
        return;
      }
      report_.error({line.number}, policy::shortened(policy::trim(line.text), 64),
                    "this stands in front of the first section",
                    "put it under the `[section]` of its rule, or remove it");
      return;
    }
    Section& section = sections_[current_];
    Value value{"true"};
    if (equals != std::string_view::npos) value = unquoted(line.text.substr(equals + 1));
    if (value.text == "null" || value.text == "false") value.set = false;
    const bool list = name.size() > 2 && name.ends_with("[]");
    if (list) name.resize(name.size() - 2);
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      take_unknown_field(line, name, section);
      return;
    }
    Field& field = section.fields[static_cast<size_t>(known - names.begin())];
    // A list continues after an earlier plain value, unless that value is empty or null.
    const bool empty =
        !field.values.empty() && (!field.values[0].set || field.values[0].text.empty());
    if (list && !field.list && empty) field.values.clear();
    field.list |= list;
    if (!field.list && !field.values.empty()) {
      if (field.line > opened_line_) {
        report_.warning(
            {line.number}, subject_of(section),
            name + " is already set in line " + std::to_string(field.line) + "; this one counts",
            "remove one of the two");
      }
      field.values.clear();
    }
    field.values.push_back(std::move(value));
    field.line = line.number;
  }

  void take_unknown_field(const Line& line, const std::string& name, const Section& section) {
    if (!name.starts_with('[')) {
      report_.unknown_field({line.number}, subject_of(section), name);
      return;
    }
    if (const std::string problem = header_without_end(line.text); !problem.empty()) {
      report_.warning({line.number}, subject_of(section),
                      problem + ", so it is a field of this rule, and so are the lines that follow",
                      "end the section's header with it");
      return;
    }
    report_.warning(
        {line.number}, subject_of(section),
        "`" + policy::shortened(policy::trim(line.text), 64) +
            "` is not a section header but a field of this rule, and so are the lines that follow",
        "end a header at its only `]`; names with `]` need JSON");
  }

  static std::string subject_of(const Section& section) {
    return "rule " + policy::shortened(section.spelling, 200);
  }

  RawRule finish(Section& section) {
    RawRule rule;
    rule.spelling = std::move(section.spelling);
    rule.place = {section.line};
    const std::string subject = rule.subject();
    if (section.name != "default") {
      size_t cut_words = 0;
      rule.operation = operation_of(section.name, cut_words);
      if (cut_words > 0) {
        report_.warning(rule.place, subject,
                        "a value ends at its second `=`; what follows has no effect",
                        "use JSON for values with `=`");
      }
    }
    rule.credit_limit = number(section, credit_limit, subject);
    rule.reset_seconds = number(section, reset_seconds, subject);
    rule.actor_field = option(section, actor_field);
    rule.match_policy = option(section, match_policy);
    rule.label = option(section, label);
    rule.comment = option(section, comment);
    return rule;
  }

  // Joins several values with commas.
  static std::string text_of(const Field& field) {
    std::string text;
    for (const Value& value : field.values) {
      if (&value != &field.values.front()) text += ',';
      text += value.text;
    }
    return text;
  }

  RawNumber number(const Section& section, Name name, const std::string& subject) {
    const Field& field = section.fields[name];
    if (field.values.empty()) return {};
    return leading_integer(text_of(field), {field.line}, names[name], subject, report_);
  }

  static RawText option(const Section& section, Name name) {
    const Field& field = section.fields[name];
    const bool unset = field.values.size() == 1 && !field.values[0].set;
    return {unset ? "" : text_of(field), {field.line}};
  }

  static constexpr size_t no_section = SIZE_MAX;

  Report& report_;
  std::vector<Section> sections_;
  std::unordered_map<std::string, size_t> by_name_;
  size_t current_ = no_section;
  size_t opened_line_ = 0;  // the line of the latest header
};

}  // namespace

std::vector<RawRule> read_divvy_ini(std::string_view text, Report& report) {
  return Reader(report).read(text);
}

}  // namespace sluice::divvy
