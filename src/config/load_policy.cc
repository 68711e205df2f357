#include "config/load_policy.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/bounds.h"
#include "base/hash.h"
#include "config/built_in.h"
#include "policy/read/native.h"
#include "protocol/droplet/rules.h"
#include "protocol/protocol.h"

namespace sluice::config {
namespace {

base::Diagnostic about(const std::string& path, std::string message, std::string remedy) {
  base::Diagnostic d;
  d.file = path;
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  return d;
}

base::Diagnostic unreadable(const std::string& path, int problem) {
  const std::string remedy = problem == ENOENT
                                 ? "check the path: on the command line it counts from the current "
                                   "folder, in a sluice.yaml from that file"
                             : problem == EACCES ? "let this user read it"
                                                 : "";
  return about(path, "cannot be read: " + std::generic_category().message(problem), remedy);
}

// Appends the rules of one file. `text`: where it has one of its own.
void add_policy(const PolicyFile& file, const std::optional<std::string>& text,
                request::Spaces& spaces, policy::RuleSet& rules, base::Diagnostics& diagnostics) {
  if (file.native) {
    policy::read_native(*file.native, file.path, spaces, rules, diagnostics);
    return;
  }
  if (file.path.empty()) {
    divvy::read_divvy(example_ini, divvy::DivvyFormat::ini, file.matching, divvy_example_name,
                      spaces, rules, diagnostics);
    return;
  }
  const auto format = file.format ? file.format : divvy::divvy_format(file.path);
  if (!format) {
    diagnostics.push_back(about(file.path, "Unrecognized format for config file: " + file.path,
                                "name it .ini or .json, in small letters, after what it holds"));
    return;
  }
  if (text) divvy::read_divvy(*text, *format, file.matching, file.path, spaces, rules, diagnostics);
}

}  // namespace

std::optional<FileKind> kind_of(std::string_view file_name) {
  if (const auto format = divvy::divvy_format(file_name))
    return *format == divvy::DivvyFormat::ini ? FileKind::divvy_ini : FileKind::divvy_json;
  if (file_name.ends_with(".yaml") || file_name.ends_with(".yml")) return FileKind::sluice;
  return std::nullopt;
}

std::optional<FileKind> kind_named(std::string_view name) {
  if (name == "divvy-ini") return FileKind::divvy_ini;
  if (name == "divvy-json") return FileKind::divvy_json;
  if (name == "limitd") return FileKind::limitd;
  if (name == "sluice") return FileKind::sluice;
  return std::nullopt;
}

bool is_limitd(std::string_view yaml) {
  policy::YamlDocument document;
  if (policy::parse_yaml(yaml, document)) return false;
  const policy::YamlNode root = document.root();
  if (!root.is_map()) return false;
  bool buckets = false;
  for (policy::YamlNode key = root.first_child(), value; key; key = value.next()) {
    value = key.next();
    if (key.text() == "buckets") buckets = true;
    if (key.text() == "listen" || key.text() == "policy" || key.text() == "rules") return false;
  }
  return buckets;
}

std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics) {
  constexpr size_t bound = base::bounds::config_bytes_max;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (!file) {
    diagnostics.push_back(unreadable(path, errno));
    return std::nullopt;
  }
  struct stat status {};
  if (::fstat(::fileno(file.get()), &status) == 0 && S_ISDIR(status.st_mode)) {
    diagnostics.push_back(about(path, "is a directory", "name a file in it"));
    return std::nullopt;
  }
  // By what comes, not by the size that is told: it may be a pipe.
  std::string text;
  char chunk[16384];
  while (const size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    if (n > bound - text.size()) {
      diagnostics.push_back(about(path,
                                  "is longer than " + std::to_string(bound >> 20) +
                                      " MiB, the bound of a configuration file",
                                  "split it or drop what no request meets"));
      return std::nullopt;
    }
    text.append(chunk, n);
  }
  if (std::ferror(file.get())) {
    diagnostics.push_back(unreadable(path, errno));
    return std::nullopt;
  }
  return text;
}

bool is_missing(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) != 0 && errno == ENOENT;
}

PolicyTexts read_texts(const std::vector<PolicyFile>& files, limitd::Unusable configured,
                       base::Diagnostics& diagnostics) {
  PolicyTexts read;
  for (const PolicyFile& file : files) {
    auto& text = read.texts.emplace_back();
    limitd::LimitdTexts& limitd = read.limitd.emplace_back();
    if (file.native) continue;
    if (file.limitd) {
      limitd = limitd::read_limitd_texts(file.path, *file.limitd, configured, diagnostics);
      read.paths.insert(read.paths.end(), limitd.paths.begin(), limitd.paths.end());
      read.digests.insert(read.digests.end(), limitd.digests.begin(), limitd.digests.end());
      read.missing.insert(read.missing.end(), limitd.missing.begin(), limitd.missing.end());
      read.interval = std::max(read.interval, limitd.interval);
      read.complete = read.complete && limitd.complete;
      continue;
    }
    if (file.path.empty()) {
      read.digests.push_back(base::digest(example_ini));
      continue;
    }
    read.paths.push_back(file.path);
    if (!file.format && !divvy::divvy_format(file.path)) continue;  // told with the rules
    text = read_file(file.path, diagnostics);
    if (text) {
      read.digests.push_back(base::digest(*text));
      continue;
    }
    read.complete = false;
    if (is_missing(file.path)) read.missing.push_back(file.path);
  }
  return read;
}

std::shared_ptr<const policy::RuleSet> load_policy(const std::vector<PolicyFile>& files,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics) {
  return load_policy(files, read_texts(files, limitd::Unusable::error, diagnostics),
                     limitd::Unusable::error, spaces, diagnostics);
}

std::shared_ptr<const policy::RuleSet> load_policy(const std::vector<PolicyFile>& files,
                                                   const PolicyTexts& texts,
                                                   limitd::Unusable configured,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics) {
  const size_t told_before = diagnostics.size();
  auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
  droplet::add_droplet_rule(spaces, *rules);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].limitd)
      limitd::add_limitd(texts.limitd[i], *files[i].limitd, configured, spaces, *rules,
                         diagnostics);
    else
      add_policy(files[i], texts.texts[i], spaces, *rules, diagnostics);
  }
  const base::Diagnostics fresh(diagnostics.begin() + static_cast<ptrdiff_t>(told_before),
                                diagnostics.end());
  if (!texts.complete || base::has_errors(fresh)) return nullptr;
  return rules;
}

}  // namespace sluice::config
