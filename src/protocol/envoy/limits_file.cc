#include "protocol/envoy/limits_file.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/read/yaml_tree.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/text.h"
#include "protocol/envoy/descriptor_reader.h"
#include "protocol/envoy/map_reader.h"
#include "protocol/envoy/words.h"

namespace sluice::envoy {
namespace {

using base::Diagnostic;

constexpr policy::YamlReading as_go = {
    .first_document_only = true, .foreign_tags = true, .line_breaks_of_1_1 = true};

constexpr std::string_view passed_over_endings[] = {"~", ".swp", ".bak", ".orig", ".md", ".txt"};

// The most warnings of warn_of_collisions, for all files together.
constexpr size_t collisions_told_max = 100;

// Called after all files were read. Rules match by the joined text `KEY_VALUE`: if a key begins
// with another key of its level and `_`, an entry with one key may match a rule with the other.
void warn_of_collisions(const LimitSet& set, base::Diagnostics& diagnostics) {
  struct Key {
    uint32_t parent;
    std::string_view key;
    auto order() const { return std::tie(parent, key); }
    bool operator<(const Key& other) const { return order() < other.order(); }
    bool operator==(const Key& other) const { return order() == other.order(); }
  };
  std::vector<Key> keys;
  for (const Node& node : set.nodes())
    if (node.parent != absent) keys.push_back({node.parent, node.key()});
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<Key> told;
  size_t count = 0;
  for (const Node& node : set.nodes()) {
    const std::string_view key = node.key();
    if (node.parent == absent || key.find('_') == std::string_view::npos) continue;
    for (size_t at = key.find('_'); at != std::string_view::npos; at = key.find('_', at + 1)) {
      if (!std::binary_search(keys.begin(), keys.end(), Key{node.parent, key.substr(0, at)}))
        continue;
      if (std::find(told.begin(), told.end(), Key{node.parent, key}) != told.end()) break;
      if (++count > collisions_told_max) return;
      told.push_back({node.parent, key});
      Diagnostic d;
      d.severity = Diagnostic::Severity::warning;
      d.file = set.file(node.file);
      d.line = node.line;
      d.subject = set.path(node.parent) + '.' + std::string(key);
      d.message =
          "key " + policy::in_ticks(key) + " begins with the key " +
          policy::in_ticks(key.substr(0, at)) +
          " of the same level and `_`, so that an entry of one may meet a rule of the other";
      d.remedy = "rename one of them, here and in Envoy, if that is not meant";
      diagnostics.push_back(std::move(d));
      break;
    }
  }
}

Diagnostic passed_over(std::string_view name) {
  Diagnostic d;
  d.severity = Diagnostic::Severity::warning;
  d.file = name;
  d.message = "is skipped: by its name it is a note or a backup, and it holds no map";
  d.remedy = "move it out of the folder of limits";
  return d;
}

class FilesReader {
 public:
  FilesReader(const LimitsReading& reading, base::Diagnostics& diagnostics)
      : reading_(reading),
        diagnostics_(diagnostics),
        so_far_{reading.descriptors_max, reading.metadata_values_max} {}

  void read(const LimitsText& file) {
    policy::YamlDocument document;
    auto error = policy::parse_yaml(file.text, document, as_go);
    const YamlNode root = document.root();
    if ((error || !root.is_map()) && may_be_passed_over(file.name)) {
      diagnostics_.push_back(passed_over(file.name));
      return;
    }
    if (error) {
      diagnostics_.push_back(policy::to_diagnostic(*std::move(error), file.name));
      return;
    }
    const size_t before = diagnostics_.size();
    policy::YamlReader told(file.name, document, diagnostics_);
    if (root.is_map() || root.is_null())
      read_map(file, document, told);
    else
      told.error("", root, "must be a map, and is " + shown(root),
                 "write `domain: NAME` and `descriptors:`");
    // Sorts the problems by their places: check_words reports its own before all others.
    std::stable_sort(diagnostics_.begin() + static_cast<std::ptrdiff_t>(before), diagnostics_.end(),
                     [](const Diagnostic& a, const Diagnostic& b) {
                       return std::tie(a.line, a.column) < std::tie(b.line, b.column);
                     });
  }

  LimitSetBuilder& builder() { return builder_; }

 private:
  void read_map(const LimitsText& file, const policy::YamlDocument& document,
                policy::YamlReader& told) {
    MapReader maps(document, reading_.strict, told);
    const YamlNode root = document.root();
    if (document.passed_over_line() > 0) doubt_rest(file, document.passed_over_line());
    if (root.is_map()) check_words(root, document, told);
    const uint32_t number = builder_.add_file(std::string(file.name));
    DescriptorReader reader(number, maps, so_far_);
    const auto file_read = reader.read_file(root);
    if (!file_read) return;
    const DescriptorReader::File& read = *file_read;
    const auto line = static_cast<uint32_t>(read.domain_value ? read.domain_value.line() : 0);
    LimitSetBuilder aside;  // for a file that cannot be used, to report its other errors
    const uint32_t there = builder_.domain(read.domain);
    if (!read.domain.empty() && there == absent) {
      const uint32_t domain = builder_.add_domain(read.domain, number, line);
      reader.read_descriptors(read.descriptors, builder_, domain);
    } else if (there != absent && reading_.merge_domains) {
      reader.read_descriptors(read.descriptors, builder_, there);
    } else {
      if (there != absent) {
        const Node& first = builder_.set().nodes()[there];
        maps.error("domain", read.domain_value,
                   policy::in_ticks(read.domain) + " is the domain of " +
                       std::string(builder_.set().file(first.file)) + " already",
                   "put the descriptors into one file, or have domains merged "
                   "(MERGE_DOMAIN_CONFIG=true)");
      }
      reader.read_descriptors(read.descriptors, aside, aside.add_domain(read.domain, number, line));
    }
  }

  void doubt_rest(const LimitsText& file, size_t line) {
    Diagnostic d;
    d.severity = reading_.strict ? Diagnostic::Severity::error : Diagnostic::Severity::warning;
    d.file = file.name;
    d.line = line;
    d.message = "here the first document has ended, and what follows is skipped";
    d.remedy = "put it into a file of its own, or take it out";
    diagnostics_.push_back(std::move(d));
  }

  const LimitsReading& reading_;
  base::Diagnostics& diagnostics_;
  LimitSetBuilder builder_;
  ReadSoFar so_far_;
};

}  // namespace

std::optional<LimitSet> read_limits(std::span<const LimitsText> files, const LimitsReading& reading,
                                    base::Diagnostics& diagnostics) {
  base::Diagnostics told;
  FilesReader reader(reading, told);
  for (const LimitsText& file : files) reader.read(file);
  const bool usable = !base::has_errors(told);
  if (usable) warn_of_collisions(reader.builder().set(), told);
  std::move(told.begin(), told.end(), std::back_inserter(diagnostics));
  if (!usable) return std::nullopt;
  return reader.builder().take();
}

bool may_be_passed_over(std::string_view name) {
  return std::any_of(std::begin(passed_over_endings), std::end(passed_over_endings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_limits_file(std::string_view text) {
  policy::YamlDocument document;
  if (policy::parse_yaml(text, document, as_go)) return false;
  const YamlNode root = document.root();
  if (!root.is_map()) return false;
  bool domain = false;
  for (YamlNode key = root.first_child(), value; key; key = value.next()) {
    value = key.next();
    domain = domain || key.text() == "domain";
    if (key.text() == "listen" || key.text() == "policy" || key.text() == "rules") return false;
  }
  return domain;
}

}  // namespace sluice::envoy
