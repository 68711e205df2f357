// Files of a configuration: their texts, bounded, and digests of them. Everything wrong is a
// diagnostic. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {

// The whole text of a file, at most base::bounds::config_bytes_max of it; nothing, and why in
// `diagnostics`, when it cannot be had.
std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics);

// Does nothing stand there?
bool is_missing(const std::string& path);

// The files of a folder in the order of their names. What begins with a dot is not among them: it
// is an editor's, or of the machinery that swaps a Kubernetes volume.
std::vector<std::string> names_in(const std::string& folder);
uint64_t digest_of_names(const std::vector<std::string>& names);

// The digest of a file's text, or of all names in a folder (`path` ends with `/`), folders and
// those that begin with a dot among them; nothing: it cannot be read.
std::optional<uint64_t> digest_of_path(const std::string& path);

}  // namespace sluice::config
