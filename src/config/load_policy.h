// Policies from files: the text, bounded, and the rule set read from it. Everything wrong is a
// diagnostic. Main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "policy/read/yaml_tree.h"
#include "policy/rule_set.h"
#include "protocol/divvy/rules.h"
#include "protocol/limitd/source.h"
#include "request/space.h"

namespace sluice::config {

enum class FileKind { divvy_ini, divvy_json, limitd, sluice };

// The kind of a file by its name: .ini, .json, .yaml, .yml, case-sensitive; nothing for all else.
std::optional<FileKind> kind_of(std::string_view file_name);
// The kind that `--as` names: divvy-ini, divvy-json, limitd, sluice.
std::optional<FileKind> kind_named(std::string_view name);

// limitd's YAML and sluice's have the same endings: by the keys of a text, is it limitd's?
bool is_limitd(std::string_view yaml);

// A policy that a server serves: of Divvy's dialect or limitd's, or the native rules of a
// sluice.yaml.
struct PolicyFile {
  std::string path;                            // empty: the built-in example
  std::optional<divvy::DivvyFormat> format{};  // nothing: by the name
  divvy::DivvyMatching matching = divvy::DivvyMatching::code;
  std::shared_ptr<const policy::YamlDocument> native{};  // not null: these rules, of that path
  std::shared_ptr<const limitd::LimitdSource> limitd{};  // not null: limitd's bucket types
};

// The names of the built-in examples, in place of a file's.
inline constexpr std::string_view divvy_example_name = "built-in example (divvy)";
inline constexpr std::string_view limitd_example_name = "built-in example (limitd)";

// The whole text of a file, at most base::bounds::config_bytes_max of it; nothing, and why in
// `diagnostics`, when it cannot be had.
std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics);

// Does nothing stand there?
bool is_missing(const std::string& path);

// The texts of `files`, read all at once.
struct PolicyTexts {
  std::vector<std::optional<std::string>> texts;  // one for each; nothing: it could not be read
  std::vector<limitd::LimitdTexts> limitd;        // one for each, empty where it is not limitd's
  std::vector<std::string> paths;                 // whatever a change of which matters
  std::vector<uint64_t> digests;                  // of those that have a text of their own
  std::vector<std::string> missing;               // what is not there
  std::chrono::milliseconds interval{0};          // as in live::Loaded
  bool complete = true;                           // all could be read
};
PolicyTexts read_texts(const std::vector<PolicyFile>& files, limitd::Unusable configured,
                       base::Diagnostics& diagnostics);

// The rules of `files` in their order, or null; then `diagnostics` holds an error. Warnings come
// either way.
std::shared_ptr<const policy::RuleSet> load_policy(const std::vector<PolicyFile>& files,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics);
std::shared_ptr<const policy::RuleSet> load_policy(const std::vector<PolicyFile>& files,
                                                   const PolicyTexts& texts,
                                                   limitd::Unusable configured,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics);

}  // namespace sluice::config
