// Reads the files of a configuration, with a bound, and computes their digests. Errors become
// diagnostics. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {

// The whole text of a file of at most base::bounds::config_bytes_max bytes. Empty: it cannot be
// read, or is longer, as `diagnostics` say.
std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics);

// Is there no file at that path?
bool is_missing(const std::string& path);

// The names of the files of a folder, in their order. Names that begin with a dot are left out:
// such files belong to editors, or to the mechanism that replaces a Kubernetes volume.
std::vector<std::string> names_in(const std::string& folder);
uint64_t digest_of_names(const std::vector<std::string>& names);

// The digest of a file's text or, if `path` ends with `/`, of all names in a folder, including
// folders and names that begin with a dot. Empty: it cannot be read.
std::optional<uint64_t> digest_of_path(const std::string& path);

}  // namespace sluice::config
