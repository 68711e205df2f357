// Functions that every reader of a YAML configuration needs and that YAML libraries lack: a check
// of keys against the known ones, duplicate keys as errors, merge keys (`<<`), and a bound on the
// walk. Each error becomes a diagnostic with its place. One reader for each file and pass.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "policy/read/yaml_tree.h"

namespace sluice::policy {

class YamlReader {
 public:
  YamlReader(std::string_view file, const YamlDocument& document, base::Diagnostics& diagnostics);

  // Sets the subject of the diagnostics from here on: "rule api". Empty: none.
  void set_context(std::string context) { context_ = std::move(context); }

  // A diagnostic at the node, without text; its subject is `subject` within the context.
  base::Diagnostic place(std::string_view subject, YamlNode node) const;
  void error(std::string_view subject, YamlNode node, std::string message, std::string remedy);
  void warning(std::string_view subject, YamlNode node, std::string message, std::string remedy);

  struct Entry {
    YamlNode key, value;
  };
  // The entries of a map in its order, followed by those that it merges; each key once. A merged
  // entry is overridden by the map's own keys and by entries that were merged before.
  std::vector<Entry> entries(std::string_view subject, YamlNode map);

  // A key that was once known, and what to do in its place.
  struct GoneKey {
    std::string_view key, remedy;
  };

  // The same, of known keys only. Another key is an error, which names the most similar known key,
  // or the remedy of a key that is gone.
  std::vector<Entry> entries(std::string_view subject, YamlNode map,
                             std::span<const std::string_view> known,
                             std::span<const GoneKey> gone = {});

  // Is the node a scalar that is not empty? If not, that is reported.
  bool has_text(std::string_view subject, YamlNode node);

  // Must the pass end, because the walk has reached its bound, or there are too many errors to
  // read?
  bool is_over() const { return over_; }

 private:
  // The entries gathered so far. Few are searched one by one, many by an index.
  struct Gathered {
    std::vector<Entry> all;
    std::unordered_map<std::string_view, size_t> by_text;

    size_t find(std::string_view text) const;  // all.size(): none
    void add(const Entry& entry);
  };
  void append(std::string_view subject, YamlNode map, size_t depth, Gathered& into);
  void merge(std::string_view subject, YamlNode value, size_t depth, Gathered& into);
  bool visit(YamlNode node);
  void add(base::Diagnostic::Severity severity, std::string_view subject, YamlNode node,
           std::string message, std::string remedy);

  static constexpr size_t errors_max = 1000;

  std::string_view file_;
  base::Diagnostics& diagnostics_;
  std::string context_;
  size_t visits_left_;
  size_t errors_ = 0;
  bool over_ = false;
};

// A hint: "did you mean `x`?", or the list of the known words.
std::string known_words(std::string_view word, std::span<const std::string_view> known);

}  // namespace sluice::policy
