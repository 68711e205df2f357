#include "protocol/envoy/limits_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/units.h"
#include "config/read_file.h"
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

namespace {

namespace fs = std::filesystem;

base::Diagnostic about(std::string file, std::string message, std::string remedy) {
  base::Diagnostic d;
  d.file = std::move(file);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  return d;
}

class FolderReader {
 public:
  FolderReader(bool ignore_dot_files, size_t files_max, base::Diagnostics& diagnostics)
      : ignore_dot_files_(ignore_dot_files), files_max_(files_max), diagnostics_(diagnostics) {}

  LimitsFolder read(const std::string& path) {
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
      find(path.ends_with('/') ? path : path + '/');
      std::sort(names_.begin(), names_.end());
    } else if (config::is_missing(path)) {
      folder_.paths.push_back(path);
      folder_.missing.push_back(path);
      fail(path, "there is no such folder of limits",
           "check the path; `sluice envoy` without one takes it from RUNTIME_ROOT, "
           "RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY");
      return std::move(folder_);
    } else {
      names_.push_back(path);
    }
    if (names_.size() > files_max_)
      fail(path, "there are more than " + base::grouped(files_max_) + " files",
           "put several descriptors into one file");
    else
      for (const std::string& name : names_) read_file(name);
    return std::move(folder_);
  }

 private:
  // `folder` ends with a slash.
  void find(const std::string& folder) {
    std::error_code problem;
    std::string all;
    std::vector<std::string> folders;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      const std::string name = at->path().filename().string();
      if (ignore_dot_files_ && name.starts_with('.')) continue;
      (all += name) += '\0';
      std::error_code unknown;
      const bool is_folder = at->is_directory(unknown);
      if (is_folder && at->is_symlink(unknown))
        pass_over_link(folder + name);
      else if (is_folder)
        folders.push_back(folder + name + '/');
      else if (at->is_regular_file(unknown) || !at->exists(unknown))
        names_.push_back(folder + name);
      else
        fail(folder + name, "is not a regular file", "take it out of the folder of limits");
      if (names_.size() > files_max_) return;
    }
    if (problem) fail(folder, "cannot be read: " + problem.message(), "let this user read it");
    folder_.paths.push_back(folder);
    folder_.digests.push_back(base::digest(sorted(all)));
    std::sort(folders.begin(), folders.end());
    for (const std::string& below : folders) find(below);
  }

  // Sorts names, each of which is followed by a zero byte.
  static std::string sorted(const std::string& all) {
    std::vector<std::string> names;
    for (size_t at = 0; at < all.size(); at = all.find('\0', at) + 1)
      names.push_back(all.substr(at, all.find('\0', at) + 1 - at));
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += name;
    return text;
  }

  void pass_over_link(const std::string& path) {
    auto d = about(path, "is a link to a folder, which is not followed",
                   "put the folder itself there, or have names that begin with a dot ignored: "
                   "RUNTIME_IGNOREDOTFILES=true, `ignore_dot_files: true` or --ignore-dot-files");
    d.severity = base::Diagnostic::Severity::warning;
    diagnostics_.push_back(std::move(d));
  }

  void read_file(const std::string& name) {
    folder_.paths.push_back(name);
    auto text = config::read_file(name, diagnostics_);
    if (!text) {
      folder_.complete = false;
      if (config::is_missing(name)) folder_.missing.push_back(name);
      return;
    }
    bytes_ += text->size();
    if (bytes_ > base::bounds::config_bytes_max) {
      const bool first = bytes_ - text->size() <= base::bounds::config_bytes_max;
      folder_.complete = false;
      if (first)
        fail(name,
             "with this file those of the folder have more than " +
                 base::format_size(base::bounds::config_bytes_max) + " together",
             "use patterns with `*`, or several servers");
      return;
    }
    folder_.digests.push_back(base::digest(*text));
    folder_.files.emplace_back(name, *std::move(text));
  }

  void fail(const std::string& path, std::string message, std::string remedy) {
    diagnostics_.push_back(about(path, std::move(message), std::move(remedy)));
    folder_.complete = false;
  }

  bool ignore_dot_files_;
  size_t files_max_;
  base::Diagnostics& diagnostics_;
  std::vector<std::string> names_;
  size_t bytes_ = 0;
  LimitsFolder folder_;
};

}  // namespace

LimitsFolder read_limits_folder(const std::string& path, bool ignore_dot_files,
                                base::Diagnostics& diagnostics, size_t files_max) {
  return FolderReader(ignore_dot_files, files_max, diagnostics).read(path);
}

}  // namespace sluice::envoy
