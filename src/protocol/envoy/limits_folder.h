// The files of a folder of limits: which they are, in which order, and what is in them. Main
// thread, and the thread that reloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::envoy {

// Files of one folder, and their bytes (base::bounds::config_bytes_max in all). Past either:
// refused.
inline constexpr size_t limits_files_max = 10'000;

struct LimitsFolder {
  // Paths and texts, in the order of the paths' bytes.
  std::vector<std::pair<std::string, std::string>> files;
  // Of which any change matters, the folders among them with a slash at the end; the digests of
  // what was read, of a folder that of its names; paths that do not exist.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  bool complete = true;  // all could be read; else diagnostics name the rest
};

// Every file of the folder and of those below it, whatever its name, as the original reads them;
// without those whose names begin with a dot, and what is in folders of such names, if
// `ignore_dot_files`. Links to files are followed; links to folders below it are not, which is
// reported. `path` may be a single file as well.
LimitsFolder read_limits_folder(const std::string& path, bool ignore_dot_files,
                                base::Diagnostics& diagnostics,
                                size_t files_max = limits_files_max);

}  // namespace sluice::envoy
