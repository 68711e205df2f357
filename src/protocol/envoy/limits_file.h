// Envoy's files of limits: texts to a LimitSet, with everything wrong or doubtful told with file,
// line and column, of all files in one go. YAML as Go's yaml.v2 has it, since such files are in
// use. Main thread, and the thread that reloads.
//
// Bounds, each refused with its place: a file's bytes (base::bounds::config_bytes_max), lists and
// maps within each other (policy::yaml_depth_max), descriptors below each other (levels_max) and in
// all (descriptors_max), values of metadata in all (metadata_values_max), and what aliases and
// merge keys make of a file (16 times what is written and a million entries more).
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
  // Several files may have one domain, whose descriptors are put together (MERGE_DOMAIN_CONFIG).
  bool merge_domains = false;
  // What the original passes over in silence is an error: keys in a place where they mean nothing,
  // keys that are there twice, further documents.
  bool strict = false;
  // Of all files together; past either: refused.
  size_t descriptors_max = envoy::descriptors_max;
  size_t metadata_values_max = envoy::metadata_values_max;
};

// The files in their order. Nothing, and why in `diagnostics`, where any of them is wrong; warnings
// come with a set as well. No files at all are an empty set.
std::optional<LimitSet> read_limits(std::span<const LimitsText> files, const LimitsReading& reading,
                                    base::Diagnostics& diagnostics);

// Is it a file of limits? By the keys of the text, which need not be right.
bool is_limits_file(std::string_view text);

// Does the name end as those of notes and of editors' backups do? Such a file is skipped, with
// a warning, where it does not hold a map.
bool may_be_passed_over(std::string_view name);

}  // namespace sluice::envoy
