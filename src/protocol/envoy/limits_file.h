// Reads the texts of Envoy's files of limits into a LimitSet. Errors and warnings of all files are
// reported with file, line and column. The YAML is that of Go's yaml.v2, because existing files
// rely on it. Main thread, and the thread that reloads.
//
// Bounds; beyond each a file is refused with the place: its bytes (base::bounds::config_bytes_max),
// the depth of lists and maps (policy::yaml_depth_max), the depth of descriptors (levels_max) and
// their number in all files (descriptors_max), the number of values of metadata
// (metadata_values_max), and the size to which aliases and merge keys expand a file (16 times the
// text and a million entries).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "protocol/envoy/limits.h"

namespace sluice::envoy {

inline constexpr size_t descriptors_max = base::bounds::rules_max;
inline constexpr size_t metadata_values_max = 1'000'000;

struct LimitsText {
  std::string_view name;  // in messages
  std::string_view text;
};

struct LimitsReading {
  // Files may have the same domain; their descriptors are merged (MERGE_DOMAIN_CONFIG).
  bool merge_domains = false;
  // Things that the original ignores silently are errors: keys in a place where they have no
  // meaning, repeated keys, further documents.
  bool strict = false;
  // Bounds for all files together; beyond either they are refused.
  size_t descriptors_max = envoy::descriptors_max;
  size_t metadata_values_max = envoy::metadata_values_max;
};

// Reads the files in their order. Empty: a file has an error, in `diagnostics`. Warnings are
// appended in any case. Without files the set is empty.
std::optional<LimitSet> read_limits(std::span<const LimitsText> files, const LimitsReading& reading,
                                    base::Diagnostics& diagnostics);

// Is it a file of limits? Decided by the keys of the text, which may have errors.
bool is_limits_file(std::string_view text);

// Does the name end like those of notes and of editors' backups? Such a file is skipped with a
// warning if it does not contain a map.
bool may_be_passed_over(std::string_view name);

// Reads the files of a folder of limits, in their order. Main thread, and the thread that reloads.

// The most files of a folder; their bytes are bounded by base::bounds::config_bytes_max in all.
// Beyond either the folder is refused.
inline constexpr size_t limits_files_max = 10'000;

struct LimitsFolder {
  // Paths and texts, in the order of the paths' bytes.
  std::vector<std::pair<std::string, std::string>> files;
  // Paths to be watched for changes; folders end with a slash. The digests of what was read, for a
  // folder of its names. Paths that do not exist.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  bool complete = true;  // all files could be read; otherwise diagnostics name the others
};

// Reads every file in the folder and below it, whatever its name, as the original does. If
// `ignore_dot_files` is true, files and folders whose names begin with a dot are skipped. Links to
// files are followed; links to folders below it are not, which is reported. `path` may be a single
// file.
LimitsFolder read_limits_folder(const std::string& path, bool ignore_dot_files,
                                base::Diagnostics& diagnostics,
                                size_t files_max = limits_files_max);

}  // namespace sluice::envoy
