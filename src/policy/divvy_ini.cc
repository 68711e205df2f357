// Divvy's INI dialect. It is what an INI parser of JavaScript made of a file, with three
// differences that users had always expected: dots in section names are dots, sections keep the
// file's order, and blanks or a comment may stand around a section header.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "policy/divvy_raw.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

struct Line {
  std::string_view text;
  size_t number;
};

// A value of the file; several where the key was written as a list (`x[] = 1`).
struct Value {
  std::string text;
  bool set = true;  // null and false are not
};

std::string scalar_text(const nlohmann::json& json, const std::string& otherwise) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number()) return number_text(json.get<double>());
  if (json.is_boolean()) return json.get<bool>() ? "true" : "false";
  if (json.is_null()) return "null";
  return otherwise;
}

bool is_quoted(std::string_view text) {
  return !text.empty() && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
}

// A name or value without its quotes, escapes and comment.
Value unquoted(std::string_view raw) {
  const std::string_view text = trim(raw);
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
      // Any other pair stays as it is, its second character uninspected.
      out += c;
      out += text[++at];
    } else {
      out += c;
    }
  }
  return {std::string(trim(out))};
}

// What stands between the brackets of a section header; nothing: the line is none.
std::optional<std::string_view> section_header(std::string_view line) {
  const std::string_view text = trim(line);
  if (!text.starts_with('[')) return std::nullopt;
  const size_t end = text.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view behind = trim(text.substr(end + 1));
  if (!behind.empty() && behind[0] != ';' && behind[0] != '#') return std::nullopt;
  return text.substr(1, end - 1);
}

std::string without_escaped_dots(std::string text) {
  for (size_t at = 0; (at = text.find("\\.", at)) != std::string::npos; ++at) text.erase(at, 1);
  return text;
}

// "method=GET path=/x": words cut at their first two `=`; a word without one has an empty value.
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
    const size_t space = space_size(name, at);
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
  }
  return lines;
}

class Reader {
 public:
  explicit Reader(Report& report) : report_(report) {}

  std::vector<RawRule> read(std::string_view text) {
    for (const Line& line : lines_of(text)) {
      const std::string_view content = trim(line.text);
      if (content.empty() || content[0] == ';' || content[0] == '#') continue;
      if (const auto name = section_header(line.text)) {
        open_section(*name, line.number);
      } else {
        take_field(line);
      }
    }
    std::vector<RawRule> rules;
    rules.reserve(sections_.size());
    for (Section& section : sections_) rules.push_back(finish(section));
    return rules;
  }

 private:
  struct Field {
    std::string name;
    std::vector<Value> values;
    bool list = false;
    size_t line = 0;
  };
  struct Section {
    std::string spelling, name;
    size_t line = 0;
    std::vector<Field> fields;
  };

  void open_section(std::string_view between, size_t line) {
    std::string name = without_escaped_dots(unquoted(between).text);
    const auto [place, fresh] = by_name_.try_emplace(name, sections_.size());
    current_ = place->second;
    if (fresh) {
      sections_.push_back({"[" + std::string(between) + "]", std::move(name), line, {}});
      return;
    }
    const Section& first = sections_[current_];
    report_.warning({line}, "rule " + shortened(first.spelling, 200),
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
      report_.error({line.number}, shortened(trim(line.text), 64),
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
    auto at = std::find_if(section.fields.begin(), section.fields.end(),
                           [&](const Field& f) { return f.name == name; });
    if (at == section.fields.end()) {
      if (name.starts_with('[')) warn_of_broken_header(line, section);
      section.fields.push_back({std::move(name), {std::move(value)}, list, line.number});
      return;
    }
    const bool falsy =
        !at->values.empty() && (!at->values.back().set || at->values.back().text.empty());
    if (list && !at->list && falsy) at->values.clear();
    at->list |= list;
    if (!at->list) at->values.clear();
    at->values.push_back(std::move(value));
    at->line = line.number;
  }

  void warn_of_broken_header(const Line& line, const Section& section) {
    report_.warning(
        {line.number}, "rule " + shortened(section.spelling, 200),
        "`" + shortened(trim(line.text), 64) +
            "` is no section header but a field of this rule, and so are the lines that follow",
        "end a header at its only `]`; names with `]` need JSON");
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
    for (const Field& field : section.fields) take(field, rule, subject);
    return rule;
  }

  void take(const Field& field, RawRule& rule, const std::string& subject) {
    const Place place{field.line};
    std::string text;
    for (const Value& value : field.values) {
      if (&value != &field.values.front()) text += ',';
      text += value.text;
    }
    if (field.name == "creditLimit") {
      rule.credit_limit = leading_integer(text, place, field.name, subject, report_);
      return;
    }
    if (field.name == "resetSeconds") {
      rule.reset_seconds = leading_integer(text, place, field.name, subject, report_);
      return;
    }
    if (field.values.size() == 1 && !field.values[0].set) text.clear();
    if (field.name == "actorField") {
      rule.actor_field = {std::move(text), place};
    } else if (field.name == "matchPolicy") {
      rule.match_policy = {std::move(text), place};
    } else if (field.name == "label") {
      rule.label = {std::move(text), place};
    } else if (field.name == "comment") {
      rule.comment = {std::move(text), place};
    } else {
      report_.unknown_field(place, subject, field.name);
    }
  }

  static constexpr size_t no_section = SIZE_MAX;

  Report& report_;
  std::vector<Section> sections_;
  std::unordered_map<std::string, size_t> by_name_;
  size_t current_ = no_section;
};

}  // namespace

std::vector<RawRule> read_divvy_ini(std::string_view text, Report& report) {
  return Reader(report).read(text);
}

}  // namespace sluice::policy
