// The system calls that the store on disk makes on files, behind one seam, so that tests can let a
// disk fail, fill up, or lose what was not synced. Any thread. Each call says whether it succeeded;
// if not, errno says why.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::disk {

class Files {
 public:
  virtual ~Files() = default;

  // A descriptor, or -1. `flags` as open(2) takes them; a new file is for its owner alone.
  virtual int open(const std::string& path, int flags);
  virtual void close(int fd);
  // Bytes read, fewer at the end of the file or before a part that cannot be read; -1: none can.
  virtual ssize_t read(int fd, char* to, size_t bytes, uint64_t at);
  // Of the file, in bytes; -1: it failed.
  virtual int64_t size(int fd);
  // All parts, one behind the other.
  virtual bool write(int fd, std::span<const std::string_view> parts, uint64_t at);
  virtual bool cut(int fd, uint64_t bytes);
  // Extends the file by zeros, for writes to come. A file system that cannot does nothing.
  virtual void reserve(int fd, uint64_t at, uint64_t bytes);
  // The file's content reaches the medium.
  virtual bool sync(int fd);
  // Names in the folder do.
  virtual bool sync_folder(const std::string& path);
  virtual bool rename(const std::string& from, const std::string& to);
  virtual bool remove(const std::string& path);
};

// Those of the system.
Files& system_files();

// The path as a message shows it, in backticks.
std::string quoted(const std::string& path);
// "text: No such file or directory"
std::string with_errno(const std::string& text, int error);

// The whole file, up to `most` bytes.
base::Result<std::string> read_whole(Files& files, const std::string& path, size_t most);
// Leaves `path` with that text, or as it was; the text is on the medium.
base::Done write_whole(Files& files, const std::string& folder, const std::string& name,
                       std::string_view text);

}  // namespace sluice::disk
