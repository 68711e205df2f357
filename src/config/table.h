// The table of settings. A setting is declared once, as an entry that is bound to its value: its
// key in a sluice.yaml, its flag and its variable, how a text becomes the value and the value a
// text, and a line of help. From the entries come the reader of the file, of flags and of the
// environment, `--print-config` and `/v1/config`, the comparison at a reload, `--help`,
// completions, the manual, and docs/settings.md. An entry is valid as long as the object whose
// values it is bound to. Main thread, and the thread that reloads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/setting.h"
#include "base/time.h"
#include "config/address.h"
#include "config/command_io.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::protocol {
struct SettingsFormat;
}

namespace sluice::config {

// A sluice.yaml: its single values, and the place of each.
class FileReader {
 public:
  using YamlNode = policy::YamlNode;

  // `file`, the name as the user gave it, the document and `diagnostics` outlive this object.
  FileReader(const std::string& file, const policy::YamlDocument& document,
             base::Diagnostics& diagnostics)
      : file_(file), yaml_(file, document, diagnostics), diagnostics_(diagnostics) {}

  // Is the node a list with at least one entry? If not, that is reported with the example.
  bool sequence(const std::string& key, const YamlNode& node, std::string example);
  // The text of a scalar; empty: the node is not a scalar, which is reported.
  std::optional<std::string> text(const std::string& key, const YamlNode& node);
  // The value of `key`; its text is empty.
  struct Written written(const std::string& key, const YamlNode& node);

  // The place of a node, for Setting::origin and for diagnostics.
  std::string origin(const YamlNode& node) const {
    return file_ + ":" + std::to_string(node.line());
  }
  base::Diagnostic place(std::string_view subject, const YamlNode& node) const {
    return yaml_.place(subject, node);
  }
  // The path, made relative to the file's folder.
  std::string beside_file(const std::string& path) const;

  policy::YamlReader& yaml() { return yaml_; }
  base::Diagnostics& diagnostics() { return diagnostics_; }

 private:
  const std::string& file_;
  policy::YamlReader yaml_;
  base::Diagnostics& diagnostics_;
};

// A value as an operator wrote it: in a file, or as the text of a flag or a variable.
struct Written {
  std::string key;         // "memory", "--memory" or "SLUICE_MEMORY"
  std::string text;        // of a single value
  std::string origin;      // as base::Setting::origin
  base::Diagnostic place;  // for messages
  base::Diagnostics& diagnostics;
  FileReader* reader = nullptr;  // null: it is not from a file
  policy::YamlNode node{};       // of the file

  // Reports what is wrong with the value, and what to do. Returns false.
  bool wrong(std::string what, std::string remedy) const;
  // The same, of "`text` ...".
  bool wrong_text(const std::string& what, std::string remedy) const;
};

// Where a setting is printed.
enum class Shown : uint8_t {
  always,
  changed,  // where it differs from its default
  never,
};

// What an entry says besides its value. Texts are literals.
struct About {
  std::string_view flag = {}, variable = {};
  std::string_view type = {};  // of the flag's value, as "FILE"; empty: the flag takes none
  std::string_view help = {};
  Shown shown = Shown::always;
  bool secret = false;    // never printed
  bool reloaded = false;  // a reload applies it
  bool required = false;  // it has no default, or one that has no text
};

struct Entry;
using Table = std::vector<Entry>;
using Texts = std::map<std::string, std::string>;  // of values, by their paths
// The values of the file's map by their keys.
using GivenKeys = std::map<std::string, policy::YamlNode, std::less<>>;

struct Entry {
  std::string_view key;  // empty: it is not in the file
  About about = {};
  std::string values = {};  // which values it may have, in words
  bool is_single = true;    // it is read from one text, not from a list or a map
  // Sets the value. False: it was wrong, which was reported.
  std::function<bool(const Written&)> read = {};
  std::function<std::string()> text = {};   // the value as YAML on one line; empty: there is none
  std::function<std::string()> print = {};  // lines of its own, in place of the text
  std::string* origin = nullptr;            // null: that of the map it is in
  const protocol::SettingsFormat* owner = nullptr;  // the protocol's whose own setting it is
  // Of a map with further settings: their entries, and the visit of a map's by default.
  std::function<Table()> parts = {};
  std::function<void(const std::function<void(const Table&)>&)> visit_usual = {};
  std::string_view each = {};  // "[]", ".NAME": it is a list of such maps, or has names for them
  bool all_shown = false;      // values by default too
  bool on_one_line = false;    // `{ a: 1, b: 2 }`, else a line for each
  bool is_name = false;        // the key is a name that people chose: it is printed in quotes
  std::string_view gone = {};  // it was a setting once: what to do
};

// Reads the map; each known key sets its entry. Returns what was given.
GivenKeys read_table(const Written& map, const Table& table);
// Sets an entry from the text of the flag or variable `name`. False: it is wrong, as was reported.
bool set_entry(const Entry& entry, std::string_view text, const std::string& name,
               base::Diagnostics& diagnostics);

// The entries of a map below `key` as lines of a sluice.yaml, each with its origin as a comment.
std::string print_table(const Table& table, const Texts& usual = {},
                        const std::string& indent = "");
// "{ a: 1, b: 2 }": the entries that are shown; empty: none is.
std::string text_of(const Table& table, const Texts& usual);
// "a: 1   # origin", in columns.
std::string line_with_origin(std::string text, std::string origin);

// The values by their paths, as "store.redis.database", with those that are never printed.
Texts values_of(const Table& table);
// Those of a map's entries by default.
Texts usual_of(const Entry& map);

// Calls `visit` for each entry with a flag or a variable, those within maps too.
void each_outside(const Table& table, const std::function<void(const Entry&)>& visit);

// The settings of the file as a table in Markdown for docs/settings.md, a heading for each map of
// the first level.
std::string settings_page(const Table& table);

// ---- Kinds of values: `read` sets one from what was written, `text` is what `read` takes, and
// `values` tells people which there are. ----

struct Number {
  uint64_t least, most;
  std::string_view what = "an allowed number";
  std::string_view zero = {};    // a word for 0
  std::string_view remedy = {};  // in place of the bounds

  bool read_number(const Written& written, uint64_t& to) const;
  template <class T>
  bool read(const Written& written, T& to) const {
    uint64_t number = 0;
    if (!read_number(written, number)) return false;
    to = static_cast<T>(number);
    return true;
  }
  template <class T>
  std::string text(T value) const {
    return value == 0 && !zero.empty() ? std::string(zero) : std::to_string(value);
  }
  std::string values() const;
};

struct Milliseconds {
  uint64_t least, most;
  bool read(const Written& written, base::Duration& to) const;
  std::string text(base::Duration value) const { return std::to_string(value.us / 1000); }
  std::string values() const { return Number{least, most}.values(); }
};

struct Size {
  uint64_t least, most;
  std::string_view remedy = "write a number and a unit, as in `64MiB` or `2GiB`";
  bool read_size(const Written& written, uint64_t& to) const;
  template <class T>
  bool read(const Written& written, T& to) const {
    uint64_t bytes = 0;
    if (!read_size(written, bytes)) return false;
    to = static_cast<T>(bytes);
    return true;
  }
  std::string text(uint64_t value) const;
  std::string values() const { return text(least) + " to " + text(most); }
};

// A length of time with a unit. `none`: the value that means none, written as 0.
struct Length {
  base::Duration least, most;
  std::optional<base::Duration> none = {};
  std::string_view example = {};
  bool read(const Written& written, base::Duration& to) const;
  std::string text(base::Duration value) const;
  std::string values() const;
};

struct Truth {
  std::string_view remedy = "write `true` or `false`";
  bool read(const Written& written, bool& to) const;
  std::string text(bool value) const { return value ? "true" : "false"; }
  std::string values() const { return "`true`, `false`"; }
};

struct Text {
  bool read(const Written& written, std::string& to) const {
    to = written.text;
    return true;
  }
  std::string text(const std::string& value) const;
  std::string values() const { return "a text"; }
};

// The path of a file or a folder. In a file it is relative to the file's folder.
struct Path {
  bool read(const Written& written, std::string& to) const;
  std::string text(const std::string& value) const;
  std::string values() const { return "a path"; }
};

struct HostPort {
  uint16_t port_default;
  bool read(const Written& written, Address& to) const;
  std::string text(const Address& value) const;
  std::string values() const { return "HOST:PORT"; }
};

// One of some words. `what`: "a proxy"; empty: the message lists the words.
bool read_word(const Written& written, const std::vector<std::string_view>& words,
               std::string_view what, std::string_view remedy, size_t& to);
std::string list_words(const std::vector<std::string_view>& words, bool quoted);
template <class T>
struct Choice {
  std::vector<std::pair<std::string_view, T>> all;
  std::string_view what = {}, remedy = {};

  std::vector<std::string_view> words() const {
    std::vector<std::string_view> words;
    for (const auto& [word, value] : all) words.push_back(word);
    return words;
  }
  bool read(const Written& written, T& to) const {
    size_t at = 0;
    if (!read_word(written, words(), what, remedy, at)) return false;
    to = all[at].second;
    return true;
  }
  std::string text(const T& value) const {
    for (const auto& [word, its] : all)
      if (its == value) return std::string(word);
    return {};
  }
  std::string values() const { return list_words(words(), true); }
};
// The words for the values 0, 1, 2...
template <class T, size_t N>
Choice<T> choice(const std::array<std::string_view, N>& words, std::string_view what = {},
                 std::string_view remedy = {}) {
  Choice<T> made{{}, what, remedy};
  for (size_t i = 0; i < N; ++i) made.all.emplace_back(words[i], static_cast<T>(i));
  return made;
}

// A list of such values; `example` is one in YAML. As a flag they are separated by commas.
// Not `sound`: it is no list, or an item is no text, which was reported.
std::vector<Written> items_of(const Written& written, std::string_view example, bool& sound);
std::string list_text(const std::vector<std::string>& texts);
template <class Kind>
struct ListOf {
  static constexpr bool is_list = true;
  Kind kind;
  std::string_view example;
  bool may_be_empty = false;

  template <class T>
  bool read(const Written& written, std::vector<T>& to) const {
    bool sound = true;
    std::vector<Written> items;
    const bool is_empty =
        written.reader != nullptr && written.node.is_list() && written.node.size() == 0;
    if (!may_be_empty || !is_empty) items = items_of(written, example, sound);
    if (!sound) return false;
    to.clear();
    for (const Written& item : items) {
      T value{};
      if (kind.read(item, value))
        to.push_back(std::move(value));
      else
        sound = false;
    }
    return sound;
  }
  template <class T>
  std::string text(const std::vector<T>& values) const {
    std::vector<std::string> texts;
    for (const T& value : values) texts.push_back(kind.text(value));
    return list_text(texts);
  }
  std::string values() const { return "a list: " + kind.values(); }
};
template <class Kind>
ListOf(Kind, std::string_view) -> ListOf<Kind>;
template <class Kind>
ListOf(Kind, std::string_view, bool) -> ListOf<Kind>;

// Does the kind read a list or a map, not a single text?
template <class Kind>
concept ReadsList = requires {
  Kind::is_list;
};

// ---- Entries ----

template <class T, class Kind>
Entry setting(std::string_view key, T& to, Kind kind, About about = {}) {
  return {.key = key,
          .about = about,
          .values = kind.values(),
          .is_single = !ReadsList<Kind>,
          .read = [&to, kind](const Written& written) { return kind.read(written, to); },
          .text = [&to, kind] { return kind.text(to); }};
}
template <class T, class Kind>
Entry setting(std::string_view key, base::Setting<T>& to, Kind kind, const About& about = {}) {
  Entry entry = setting(key, to.value, kind, about);
  entry.read = [&to, kind](const Written& written) {
    if (!kind.read(written, to.value)) return false;
    to.origin = written.origin;
    return true;
  };
  entry.origin = &to.origin;
  return entry;
}
// One that is read and printed in a way of its own.
inline Entry own_setting(std::string_view key, std::function<bool(const Written&)> read,
                         About about = {}, std::function<std::string()> text = {}) {
  return {.key = key, .about = about, .read = std::move(read), .text = std::move(text)};
}
// A key that the file must not have any more.
inline Entry gone_setting(std::string_view key, std::string_view remedy) {
  return {.key = key, .about = {.shown = Shown::never}, .gone = remedy};
}

// A map with the settings of `record`, which `declare` lists. `check` is called after its keys were
// read, if none was wrong, with those that were given.
template <class Record>
using Check = bool (*)(const Written&, const GivenKeys&, Record&);
template <class Record>
bool read_record(const Written& written, Record& record, Table (*declare)(Record&),
                 Check<Record> check) {
  const size_t before = written.diagnostics.size();
  const GivenKeys given = read_table(written, declare(record));
  return written.diagnostics.size() > before || check == nullptr || check(written, given, record);
}
template <class Record>
Entry section(std::string_view key, Record& record, Table (*declare)(Record&), About about = {},
              std::string* origin = nullptr, Check<Record> check = nullptr) {
  return {.key = key,
          .about = about,
          .is_single = false,
          .read =
              [&record, declare, origin, check](const Written& written) {
                if (origin != nullptr) *origin = written.origin;
                return read_record(written, record, declare, check);
              },
          .origin = origin,
          .parts = [&record, declare] { return declare(record); },
          .visit_usual =
              [declare](const auto& visit) {
                Record usual{};
                visit(declare(usual));
              }};
}
// The same of a map that is there only if it is written; then all its values are shown.
template <class Record>
Entry section(std::string_view key, std::optional<Record>& record, Table (*declare)(Record&),
              About about = {}, std::string* origin = nullptr, Check<Record> check = nullptr) {
  Entry entry{.key = key, .about = about, .is_single = false};
  entry.read = [&record, declare, origin, check](const Written& written) {
    if (origin != nullptr) *origin = written.origin;
    return read_record(written, record.emplace(), declare, check);
  };
  entry.origin = origin;
  entry.parts = [&record, declare] { return record ? declare(*record) : Table(); };
  entry.visit_usual = [declare](const auto& visit) {
    Record usual{};
    visit(declare(usual));
  };
  entry.all_shown = true;
  return entry;
}

}  // namespace sluice::config
