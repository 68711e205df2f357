#include "config/table.h"

#include <algorithm>
#include <filesystem>

#include "base/units.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

bool is_shown(const Entry& entry, const std::map<std::string, std::string>& usual) {
  if (entry.key.empty() || entry.about.shown == Shown::never) return false;
  if (entry.parts || entry.print) return true;
  const std::string text = entry.text ? entry.text() : "";
  if (text.empty() || (entry.about.secret && text == "\"\"")) return false;
  if (entry.about.shown == Shown::always && !entry.about.secret) return true;
  const auto at = usual.find(std::string(entry.key));
  return at == usual.end() || at->second != text;
}

}  // namespace

bool Written::wrong(std::string what, std::string remedy) const {
  complain(place, std::move(what), std::move(remedy), diagnostics);
  return false;
}

bool Written::wrong_text(const std::string& what, std::string remedy) const {
  return wrong("`" + text + "` " + what, std::move(remedy));
}

GivenKeys read_table(FileReader& reader, const policy::YamlNode& map, const std::string& name,
                     const Table& table) {
  GivenKeys given;
  std::vector<FileReader::Known> known;
  for (const Entry& entry : table) {
    if (entry.key.empty()) continue;
    known.push_back({entry.key, [&](const std::string& key, const policy::YamlNode& value) {
                       given[key] = value;
                       Written written{.key = key,
                                       .text = {},
                                       .origin = reader.origin(value),
                                       .place = reader.place(key, value),
                                       .diagnostics = reader.diagnostics(),
                                       .reader = &reader,
                                       .node = value};
                       if (entry.is_single) {
                         auto text = reader.text(key, value);
                         if (!text) return;
                         written.text = *std::move(text);
                       }
                       entry.read(written);
                     }});
  }
  reader.map(map, name, known);
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

std::string line_with_origin(std::string text, std::string origin) {
  constexpr size_t column = 56;
  // The comment must not contain a line end, which a file's name may have.
  std::replace_if(
      origin.begin(), origin.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
      '?');
  if (text.size() < column) text.resize(column, ' ');
  return text + " # " + origin + "\n";
}

std::string text_of(const Table& table, const std::map<std::string, std::string>& usual) {
  std::string out;
  for (const Entry& entry : table) {
    if (!is_shown(entry, usual)) continue;
    std::string text = entry.about.secret ? "(hidden)"
                       : entry.parts      ? text_of(entry.parts(), entry.usual())
                                          : entry.text();
    if (text.empty()) continue;
    out.append(out.empty() ? "" : ", ").append(entry.key).append(": ").append(text);
  }
  return out.empty() ? out : "{ " + out + " }";
}

std::string print_table(const Table& table, const std::map<std::string, std::string>& usual,
                        const std::string& indent) {
  std::string out;
  const auto add = [&](const std::string& text, const Entry& entry) {
    const std::string line = indent + text;
    out += entry.origin == nullptr ? line + "\n" : line_with_origin(line, *entry.origin);
  };
  for (const Entry& entry : table) {
    if (!is_shown(entry, usual)) continue;
    const std::string key(entry.key);
    if (entry.about.secret) {
      out += indent + "# " + key + ": not shown\n";
    } else if (entry.parts) {
      const Table parts = entry.parts();
      const auto usual_parts = entry.usual();
      const auto shown = std::count_if(parts.begin(), parts.end(), [&](const Entry& part) {
        return is_shown(part, usual_parts);
      });
      if (entry.on_one_line || shown == 1) {
        const auto only = std::find_if(parts.begin(), parts.end(), [&](const Entry& part) {
          return is_shown(part, usual_parts);
        });
        Entry line{.key = key};
        line.origin = entry.origin != nullptr ? entry.origin : only->origin;
        if (const std::string text = text_of(parts, usual_parts); !text.empty())
          add(key + ": " + text, line);
      } else if (shown > 0) {
        add(key + ":", entry);
        out += print_table(parts, usual_parts, indent + "  ");
      }
    } else if (entry.print) {
      out += entry.print();
    } else {
      add(key + ": " + entry.text(), entry);
    }
  }
  return out;
}

std::map<std::string, std::string> values_of(const Table& table) {
  std::map<std::string, std::string> all;
  for (const Entry& entry : table) {
    const std::string key(entry.key);
    if (entry.key.empty() || entry.about.reloaded) continue;
    if (entry.parts) {
      for (auto& [path, text] : values_of(entry.parts())) all[key + "." + path] = std::move(text);
    } else if (entry.text) {
      all[key] = entry.text();
    }
  }
  return all;
}

void each_outside(const Table& table, const std::function<void(const Entry&)>& visit) {
  for (const Entry& entry : table) {
    if (!entry.about.flag.empty() || !entry.about.variable.empty()) visit(entry);
    if (entry.parts) each_outside(entry.parts(), visit);
  }
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

bool Size::read_size(const Written& written, uint64_t& to) const {
  const auto bytes = base::parse_size(written.text);
  if (bytes && *bytes >= least && *bytes <= most) {
    to = *bytes;
    return true;
  }
  return written.wrong_text(
      "is not a size" +
          (bytes ? " from " + base::format_size(least) + " to " + base::format_size(most) : ""),
      "write a number and a unit, as in `64MiB` or `2GiB`");
}

std::string Size::text(uint64_t value) const {
  return base::format_size(value);
}

bool Length::read(const Written& written, base::Duration& to) const {
  const auto length = written.text == "0" ? base::Duration{} : base::parse_duration(written.text);
  if (length && ((or_none && length->us == 0) || (*length >= least && *length <= most))) {
    to = *length;
    return true;
  }
  return written.wrong_text("is not a length of time it may be",
                            "write one from `" + in_one_unit(least) + "` to `" + in_one_unit(most) +
                                "`" + (or_none ? ", or 0 for none" : "") + ", as in `" +
                                std::string(example) + "`");
}

std::string Length::text(base::Duration value) const {
  return or_none && value.us == 0 ? "0" : in_one_unit(value);
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
  to = written.reader == nullptr ? written.text : written.reader->beside_file(written.text);
  return true;
}

std::string Path::text(const std::string& value) const {
  if (value.empty()) return "";
  std::error_code unknown;  // then the path stays as it is
  const auto path = std::filesystem::absolute(value, unknown);
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

bool read_word(const Written& written, const std::vector<std::string_view>& words,
               std::string_view remedy, size_t& to) {
  const auto at = std::find(words.begin(), words.end(), written.text);
  to = static_cast<size_t>(at - words.begin());
  if (at != words.end()) return true;
  std::string list;
  for (const std::string_view word : words) list.append(list.empty() ? "" : ", ").append(word);
  const auto near = base::nearest_word(written.text, words);
  return written.wrong_text("is not one of " + list,
                            !near.empty()     ? "did you mean `" + std::string(near) + "`?"
                            : !remedy.empty() ? std::string(remedy)
                                              : "write one of these");
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
    items.push_back({.key = written.key,
                     .text = *std::move(text),
                     .origin = written.reader->origin(node),
                     .place = written.reader->place(written.key, node),
                     .diagnostics = written.diagnostics,
                     .reader = written.reader,
                     .node = node});
  }
  return items;
}

std::string list_text(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
  return "[" + list + "]";
}

}  // namespace sluice::config
