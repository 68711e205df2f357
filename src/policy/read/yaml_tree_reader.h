// What every reader of a YAML configuration needs and YAML libraries do not do: keys that are
// checked against those that are known, duplicate keys as errors, merge keys (`<<`), and a bound on
// the walk. Everything wrong becomes a diagnostic with its place. One reader per file and pass.
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

  // What all that is reported from here on is about: "rule api". Empty: nothing in particular.
  void set_context(std::string context) { context_ = std::move(context); }

  // A diagnostic to fill in, at a node; its subject is `subject` within the context.
  base::Diagnostic place(std::string_view subject, YamlNode node) const;
  void error(std::string_view subject, YamlNode node, std::string message, std::string remedy);
  void warning(std::string_view subject, YamlNode node, std::string message, std::string remedy);

  struct Entry {
    YamlNode key, value;
  };
  // The entries of a map in its order, those that it merges behind them; each key once. What is
  // merged is overridden by the map's own keys and by what is merged before it.
  std::vector<Entry> entries(std::string_view subject, YamlNode map);

  // The same, of known keys only. Others are errors that name the nearest.
  std::vector<Entry> entries(std::string_view subject, YamlNode map,
                             std::span<const std::string_view> known);

  // Is it a scalar that is not empty? Otherwise that is reported.
  bool has_text(std::string_view subject, YamlNode node);

  // Something is wrong that ends the pass: the bound of the walk, or more errors than anybody
  // reads.
  bool is_over() const { return over_; }

 private:
  // Entries that are being gathered. Few are compared with each other, many are looked up.
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

// "did you mean `x`?", or the words that are known.
std::string known_words(std::string_view word, std::span<const std::string_view> known);

}  // namespace sluice::policy
