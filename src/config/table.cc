#include "config/table.h"

#include <algorithm>
#include <filesystem>

#include "base/units.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

bool is_shown(const Entry& entry, const Texts& usual) {
  if (entry.key.empty() || entry.about.shown == Shown::never) return false;
  if (entry.print) return true;
  if (entry.parts) return !print_table(entry.parts(), usual_of(entry)).empty();
  const std::string text = entry.text ? entry.text() : "";
  if (text.empty() || (entry.about.secret && text == "\"\"")) return false;
  if (entry.about.shown == Shown::always && !entry.about.secret) return true;
  const auto at = usual.find(std::string(entry.key));
  return at == usual.end() || at->second != text;
}

}  // namespace

bool FileReader::sequence(const std::string& key, const YamlNode& node, std::string example) {
  if (node.is_list() && node.size() > 0) return true;
  complain(place(key, node), "must be a list with at least one entry", std::move(example),
           diagnostics_);
  return false;
}

std::optional<std::string> FileReader::text(const std::string& key, const YamlNode& node) {
  if (!yaml_.has_text(key, node)) return std::nullopt;
  return std::string(node.text());
}

Written FileReader::written(const std::string& key, const YamlNode& node) {
  return {.key = key,
          .text = {},
          .origin = origin(node),
          .place = place(key, node),
          .diagnostics = diagnostics_,
          .reader = this,
          .node = node};
}

std::string FileReader::beside_file(const std::string& path) const {
  return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
}

bool Written::wrong(std::string what, std::string remedy) const {
  complain(place, std::move(what), std::move(remedy), diagnostics);
  return false;
}

bool Written::wrong_text(const std::string& what, std::string remedy) const {
  return wrong("`" + text + "` " + what, std::move(remedy));
}

GivenKeys read_table(const Written& map, const Table& table) {
  GivenKeys given;
  std::vector<std::string_view> known;
  std::vector<policy::YamlReader::GoneKey> gone;
  for (const Entry& entry : table)
    if (!entry.gone.empty())
      gone.push_back({entry.key, entry.gone});
    else if (!entry.key.empty())
      known.push_back(entry.key);
  FileReader& reader = *map.reader;
  for (const auto& [key, value] : reader.yaml().entries(map.key, map.node, known, gone)) {
    const std::string_view name = key.text();
    const auto entry =
        std::find_if(table.begin(), table.end(), [&](const Entry& one) { return one.key == name; });
    Written written = reader.written(std::string(name), value);
    given[written.key] = value;
    if (entry->is_single) {
      auto text = reader.text(written.key, value);
      if (!text) continue;
      written.text = *std::move(text);
    }
    entry->read(written);
  }
  return given;
}

bool set_entry(const Entry& entry, std::string_view text, const std::string& name,
               base::Diagnostics& diagnostics) {
  base::Diagnostic place;
  place.subject = name;
  return entry.read({.key = name,
                     .text = std::string(text),
                     .origin = name,
                     .place = std::move(place),
                     .diagnostics = diagnostics});
}

namespace {

std::string shown_key(const Entry& entry) {
  return entry.is_name ? in_quotes(entry.key) : std::string(entry.key);
}

}  // namespace

std::string line_with_origin(std::string text, std::string origin) {
  constexpr size_t column = 56;
  // The comment must not contain a line end, which a file's name may have.
  std::replace_if(
      origin.begin(), origin.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
      '?');
  if (text.size() < column) text.resize(column, ' ');
  return text + " # " + origin + "\n";
}

std::string text_of(const Table& table, const Texts& usual) {
  std::string out;
  for (const Entry& entry : table) {
    if (!is_shown(entry, usual)) continue;
    const std::string text = entry.about.secret ? "(hidden)"
                             : entry.parts      ? text_of(entry.parts(), usual_of(entry))
                                                : entry.text();
    if (text.empty()) continue;
    out.append(out.empty() ? "" : ", ").append(shown_key(entry)).append(": ").append(text);
  }
  return out.empty() ? out : "{ " + out + " }";
}

std::string print_table(const Table& table, const Texts& usual, const std::string& indent) {
  std::string out;
  for (const Entry& entry : table) {
    if (!is_shown(entry, usual)) continue;
    const auto line = [&](const std::string& text, const std::string* origin) {
      const std::string whole = indent + shown_key(entry) + ":" + text;
      out += origin == nullptr ? whole + "\n" : line_with_origin(whole, *origin);
    };
    if (entry.about.secret) {
      out += indent + "# " + std::string(entry.key) + ": not shown\n";
    } else if (entry.print) {
      out += entry.print();
    } else if (entry.parts) {
      const Table parts = entry.parts();
      const Texts usual_parts = usual_of(entry);
      const Entry* only = nullptr;
      size_t shown = 0;
      for (const Entry& part : parts)
        if (is_shown(part, usual_parts) && ++shown == 1) only = &part;
      if (entry.on_one_line || shown == 1) {
        if (const std::string text = text_of(parts, usual_parts); !text.empty())
          line(" " + text, shown == 1 && only->origin != nullptr ? only->origin : entry.origin);
      } else if (shown > 0) {
        line("", entry.origin);
        out += print_table(parts, usual_parts, indent + "  ");
      }
    } else {
      line(" " + entry.text(), entry.origin);
    }
  }
  return out;
}

Texts values_of(const Table& table) {
  Texts all;
  for (const Entry& entry : table) {
    const std::string key(entry.key);
    if (entry.key.empty() || entry.about.reloaded) continue;
    if (entry.text)
      all[key] = entry.text();
    else if (entry.parts && entry.about.shown != Shown::never)
      for (auto& [path, text] : values_of(entry.parts())) all[key + "." + path] = std::move(text);
  }
  return all;
}

Texts usual_of(const Entry& map) {
  Texts usual;
  if (map.visit_usual && !map.all_shown)
    map.visit_usual([&](const Table& table) { usual = values_of(table); });
  return usual;
}

void each_outside(const Table& table, const std::function<void(const Entry&)>& visit) {
  for (const Entry& entry : table) {
    if (!entry.about.flag.empty() || !entry.about.variable.empty()) visit(entry);
    if (!entry.parts) continue;
    each_outside(entry.parts(), [&](const Entry& part) {
      Entry its = part;
      if (its.owner == nullptr) its.owner = entry.owner;
      std::string* const shared = its.origin == nullptr ? entry.origin : nullptr;
      if (shared != nullptr)
        its.read = [read = part.read, shared](const Written& written) {
          if (!read(written)) return false;
          *shared = *shared == "default" ? written.origin : *shared + " and " + written.origin;
          return true;
        };
      visit(its);
    });
  }
}

namespace {

// Rows of the entries that a file may have, and of those that are only flags and variables.
struct Rows {
  std::string keys, others;

  void add(const Table& table, const std::string& prefix) {
    for (const Entry& entry : table) {
      if (!entry.gone.empty()) continue;
      std::string outside, help(entry.about.help);
      for (const std::string_view name : {entry.about.flag, entry.about.variable})
        if (!name.empty()) outside += (outside.empty() ? "`" : ", `") + std::string(name) + "`";
      std::replace(help.begin(), help.end(), '\n', ' ');
      if (entry.key.empty()) {
        others += "| " + outside + " | " + help + " |\n";
        continue;
      }
      const std::string path = prefix + std::string(entry.key) + std::string(entry.each);
      const bool is_map = entry.values.empty() && entry.visit_usual && !help.empty();
      if (!entry.values.empty() || is_map) {
        std::string usual =
            entry.text && !entry.about.secret && !entry.about.required ? entry.text() : "";
        if (usual == "\"\"" || usual == "[]") usual.clear();
        keys += "| `" + path + "` | " + (is_map ? "a map" : entry.values) + " | " +
                (usual.empty() ? "" : "`" + usual + "`") + " | " + outside + " | " + help + " |\n";
      }
      if (entry.visit_usual) entry.visit_usual([&](const Table& parts) { add(parts, path + "."); });
    }
  }
};

}  // namespace

std::string settings_page(const Table& table) {
  constexpr const char* head =
      "| key | values | default | flag, variable | meaning |\n|---|---|---|---|---|\n";
  std::string first, rest, others;
  for (const Entry& entry : table) {
    Rows rows;
    rows.add({entry}, "");
    others += rows.others;
    if (entry.visit_usual && !rows.keys.empty())
      rest += "\n## " + std::string(entry.key) + "\n\n" + head + rows.keys;
    else
      first += rows.keys;
  }
  return head + first + rest +
         "\n## Flags and variables alone\n\n| flag, variable | meaning |\n|---|---|\n" + others;
}

bool Number::read_number(const Written& written, uint64_t& to) const {
  const auto number = !zero.empty() && written.text == zero ? 0 : base::parse_count(written.text);
  const bool is_zero = !zero.empty() && written.text == zero;
  if (number && (is_zero || (*number >= least && *number <= most))) {
    to = *number;
    return true;
  }
  return written.wrong_text(
      "is not " + std::string(what),
      !remedy.empty() ? std::string(remedy)
                      : "write " + (zero.empty() ? "" : "`" + std::string(zero) + "` or ") +
                            std::to_string(least) + " to " + std::to_string(most));
}

bool Milliseconds::read(const Written& written, base::Duration& to) const {
  int64_t number = 0;
  if (!Number{least, most, "a number of milliseconds"}.read(written, number)) return false;
  to = base::milliseconds(number);
  return true;
}

std::string Number::values() const {
  return (zero.empty() ? "" : "`" + std::string(zero) + "`, ") + std::to_string(least) + " to " +
         std::to_string(most);
}

bool Size::read_size(const Written& written, uint64_t& to) const {
  const auto bytes = base::parse_size(written.text);
  if (bytes && *bytes >= least && *bytes <= most) {
    to = *bytes;
    return true;
  }
  return written.wrong_text(
      "is not a size" +
          (bytes ? " from " + base::format_size(least) + " to " + base::format_size(most) : ""),
      std::string(remedy));
}

std::string Size::text(uint64_t value) const {
  return base::format_size(value);
}

bool Length::read(const Written& written, base::Duration& to) const {
  const auto length = written.text == "0" ? base::Duration{} : base::parse_duration(written.text);
  if (length && length->us == 0 && none) {
    to = *none;
    return true;
  }
  if (length && *length >= least && *length <= most) {
    to = *length;
    return true;
  }
  return written.wrong_text("is not a length of time from " + base::spell_duration(least) + " to " +
                                base::spell_duration(most),
                            "write a number and a unit, as in `" +
                                std::string(example.empty() ? "30s" : example) + "`" +
                                (none ? ", or 0 for none" : ""));
}

std::string Length::text(base::Duration value) const {
  return none && value == *none ? "0" : in_one_unit(value);
}

std::string Length::values() const {
  return "`" + base::spell_duration(least) + "` to `" + base::spell_duration(most) + "`" +
         (none ? ", 0" : "");
}

bool Truth::read(const Written& written, bool& to) const {
  if (written.text != "true" && written.text != "false")
    return written.wrong_text("is neither true nor false", std::string(remedy));
  to = written.text == "true";
  return true;
}

std::string Text::text(const std::string& value) const {
  return in_quotes(value);
}

bool Path::read(const Written& written, std::string& to) const {
  if (written.text.empty())
    return written.wrong("names no path", "write one, as in `/var/lib/sluice`");
  to = written.reader == nullptr ? written.text : written.reader->beside_file(written.text);
  return true;
}

std::string Path::text(const std::string& value) const {
  if (value.empty()) return "";
  std::error_code unknown;  // then the path stays as it is
  const auto path = std::filesystem::absolute(value, unknown).lexically_normal();
  return in_quotes(unknown ? value : path.string());
}

bool HostPort::read(const Written& written, Address& to) const {
  auto address = address_of(written.text, port_default, written.place, written.diagnostics);
  if (address) to = *std::move(address);
  return address.has_value();
}

std::string HostPort::text(const Address& value) const {
  return in_quotes(format_address(value.host, value.port));
}

std::string list_words(const std::vector<std::string_view>& words, bool quoted) {
  const std::string mark = quoted ? "`" : "";
  std::string list;
  for (const std::string_view word : words)
    list += (list.empty() ? "" : ", ") + mark + std::string(word) + mark;
  return list;
}

bool read_word(const Written& written, const std::vector<std::string_view>& words,
               std::string_view what, std::string_view remedy, size_t& to) {
  const auto at = std::find(words.begin(), words.end(), written.text);
  to = static_cast<size_t>(at - words.begin());
  if (at != words.end()) return true;
  // A number is not a slip of another.
  const bool is_number = !written.text.empty() && written.text[0] >= '0' && written.text[0] <= '9';
  const auto near = is_number ? "" : base::nearest_word(written.text, words);
  return written.wrong_text(
      what.empty() ? "is not one of " + list_words(words, false) : "is not " + std::string(what),
      !near.empty()     ? "did you mean `" + std::string(near) + "`?"
      : !remedy.empty() ? std::string(remedy)
      : what.empty()    ? "write one of these"
                        : "write " + one_of(words));
}

std::vector<Written> items_of(const Written& written, std::string_view example, bool& sound) {
  std::vector<Written> items;
  sound = true;
  if (written.reader == nullptr) {
    for (std::string_view rest = written.text;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      Written item = written;
      item.text = rest.substr(0, comma);
      items.push_back(std::move(item));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
    return items;
  }
  sound = written.reader->sequence(written.key, written.node, std::string(example));
  if (!sound) return items;
  for (auto node = written.node.first_child(); node; node = node.next()) {
    auto text = written.reader->text(written.key, node);
    if (!text) {
      sound = false;
      continue;
    }
    Written item = written.reader->written(written.key, node);
    item.text = *std::move(text);
    items.push_back(std::move(item));
  }
  return items;
}

std::string list_text(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
  return "[" + list + "]";
}

}  // namespace sluice::config
