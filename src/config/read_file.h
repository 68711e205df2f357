// Reads the files of a configuration, with a bound, and computes their digests. Errors become
// diagnostics. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {

// The whole text of a file of at most base::bounds::config_bytes_max bytes. Empty: it cannot be
// read, or is longer, as `diagnostics` say. At the start of a command it may also be a pipe, which
// is waited for; a ReadScope changes that.
std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics);

// While it exists, read_file of this thread reads only regular files, and is not held up by another
// one. Scopes nest: a file must satisfy all of them.
class ReadScope {
 public:
  ReadScope() : ReadScope(nullptr) {}
  // Also only files that `may_read` says are allowed. A file that is not, and one that is missing
  // or not a regular one, get the same message, which does not say which of these it is.
  explicit ReadScope(std::function<bool(const std::string& path)> may_read);
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

  // The paths that read_file was asked for.
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  friend std::optional<std::string> read_file(const std::string&, base::Diagnostics&);

  ReadScope* const outer_;
  const std::function<bool(const std::string& path)> may_read_;
  std::vector<std::string> asked_;
};

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
