// Reads the files of a folder of limits, in their order. Main thread, and the thread that reloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::envoy {

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
