#include "policy/read/yaml_tree_reader.h"

#include <algorithm>

#include "policy/text.h"

namespace sluice::policy {

YamlReader::YamlReader(std::string_view file, const YamlDocument& document,
                       base::Diagnostics& diagnostics)
    : file_(file),
      diagnostics_(diagnostics),
      // Without aliases a walk visits each node once; with aliases as people use them, a few times.
      visits_left_(16 * document.size() + 1'000'000) {}

base::Diagnostic YamlReader::place(std::string_view subject, YamlNode node) const {
  base::Diagnostic d;
  d.file = file_;
  d.line = node.line();
  d.column = node.column();
  d.subject = context_;
  if (!context_.empty() && !subject.empty()) d.subject += ": ";
  d.subject += shortened(subject, 64);
  return d;
}

void YamlReader::error(std::string_view subject, YamlNode node, std::string message,
                       std::string remedy) {
  add(base::Diagnostic::Severity::error, subject, node, std::move(message), std::move(remedy));
}

void YamlReader::warning(std::string_view subject, YamlNode node, std::string message,
                         std::string remedy) {
  add(base::Diagnostic::Severity::warning, subject, node, std::move(message), std::move(remedy));
}

void YamlReader::add(base::Diagnostic::Severity severity, std::string_view subject, YamlNode node,
                     std::string message, std::string remedy) {
  if (over_) return;
  base::Diagnostic d = place(subject, node);
  d.severity = severity;
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  diagnostics_.push_back(std::move(d));
  if (severity != base::Diagnostic::Severity::error || ++errors_ < errors_max) return;
  base::Diagnostic last;
  last.file = file_;
  last.message =
      "the file has " + std::to_string(errors_max) + " errors or more; the others are not shown";
  last.remedy = "fix these first";
  diagnostics_.push_back(std::move(last));
  over_ = true;
}

bool YamlReader::visit(YamlNode node) {
  if (over_) return false;
  if (visits_left_ > 0) {
    --visits_left_;
    return true;
  }
  error("", node, "aliases and merge keys expand to far more than the file contains",
        "repeat less by alias");
  over_ = true;
  return false;
}

size_t YamlReader::Gathered::find(std::string_view text) const {
  if (!by_text.empty()) {
    const auto at = by_text.find(text);
    return at == by_text.end() ? all.size() : at->second;
  }
  size_t i = 0;
  while (i < all.size() && all[i].key.text() != text) ++i;
  return i;
}

void YamlReader::Gathered::add(const Entry& entry) {
  constexpr size_t compared_max = 16;
  all.push_back(entry);
  if (all.size() <= compared_max) return;
  for (size_t i = by_text.empty() ? 0 : all.size() - 1; i < all.size(); ++i)
    by_text.emplace(all[i].key.text(), i);
}

std::vector<YamlReader::Entry> YamlReader::entries(std::string_view subject, YamlNode map) {
  Gathered gathered;
  append(subject, map, 0, gathered);
  return std::move(gathered.all);
}

// Appends the map's own keys, then those that it merges. Entries that `into` has already override
// them.
void YamlReader::append(std::string_view subject, YamlNode map, size_t depth, Gathered& into) {
  const size_t overriding = into.all.size();
  YamlNode merged, merge_key;
  const auto twice = [&](YamlNode key, YamlNode first) {
    error(key.text(), key, "occurs twice, first on line " + std::to_string(first.line()),
          "keep one of them");
  };
  for (YamlNode key = map.first_child(), value; key; key = value.next()) {
    value = key.next();
    if (!visit(key)) return;
    if (!key.is_scalar()) {
      error(subject, key, "has a key that is a list or a map", "write a text in front of the `:`");
      continue;
    }
    if (key.is_plain() && key.text() == "<<") {
      if (merge_key) twice(key, merge_key);
      merge_key = key;
      merged = value;
      continue;
    }
    const size_t before = into.find(key.text());
    if (before == into.all.size())
      into.add({key, value});
    else if (before >= overriding)  // twice in this map; otherwise it is overridden, as intended
      twice(key, into.all[before].key);
  }
  if (merge_key) merge(subject, merged, depth, into);
}

void YamlReader::merge(std::string_view subject, YamlNode value, size_t depth, Gathered& into) {
  if (depth == yaml_depth_max) {
    error("<<", value, "merges through more than " + std::to_string(yaml_depth_max) + " maps",
          "merge fewer maps into each other");
  } else if (value.is_map()) {
    append(subject, value, depth + 1, into);
  } else if (value.is_list()) {
    for (YamlNode item = value.first_child(); item; item = item.next()) {
      if (!visit(item)) return;
      if (item.is_map())
        append(subject, item, depth + 1, into);
      else
        error("<<", item, "merges something that is not a map",
              "name maps only, as in `<<: [*a, *b]`");
    }
  } else {
    error("<<", value, "merges something that is not a map", "name a map, as in `<<: *defaults`");
  }
}

std::vector<YamlReader::Entry> YamlReader::entries(std::string_view subject, YamlNode map,
                                                   std::span<const std::string_view> known,
                                                   std::span<const GoneKey> gone) {
  if (!map.is_map()) {
    std::string keys;
    for (const auto& word : known) keys += (keys.empty() ? "`" : ", `") + std::string(word) + "`";
    error(subject, map, "must be a map of keys to values", "its keys are " + keys);
    return {};
  }
  std::vector<Entry> all = entries(subject, map);
  std::erase_if(all, [&](const Entry& entry) {
    const std::string_view key = entry.key.text();
    if (std::find(known.begin(), known.end(), key) != known.end()) return false;
    const auto old =
        std::find_if(gone.begin(), gone.end(), [&](const GoneKey& one) { return one.key == key; });
    if (old != gone.end())
      error(key, entry.key, "is gone", std::string(old->remedy));
    else
      error(key, entry.key, "is not a known key", known_words(key, known));
    return true;
  });
  return all;
}

bool YamlReader::has_text(std::string_view subject, YamlNode node) {
  if (!visit(node)) return false;
  if (node.is_scalar() && !node.text().empty()) return true;
  error(subject, node,
        node.is_null() || node.is_scalar() ? "has no value" : "must be a single value",
        "write one value, or take the key out");
  return false;
}

std::string known_words(std::string_view word, std::span<const std::string_view> known) {
  const auto near = base::nearest_word(word, {known.begin(), known.end()});
  if (!near.empty()) return "did you mean `" + std::string(near) + "`?";
  std::string text;
  for (const auto& k : known) text += (text.empty() ? "known here: " : ", ") + std::string(k);
  return text;
}

}  // namespace sluice::policy
