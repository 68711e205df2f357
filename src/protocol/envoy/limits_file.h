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
#include <optional>
#include <span>
#include <string_view>

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

}  // namespace sluice::envoy
