#include "config/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"

namespace sluice::config {
namespace {

base::Diagnostic about(const std::string& path, std::string message, std::string remedy) {
  base::Diagnostic d;
  d.file = path;
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  return d;
}

base::Diagnostic unreadable(const std::string& path, int problem) {
  const std::string remedy = problem == ENOENT
                                 ? "check the path: on the command line it counts from the current "
                                   "folder, in a sluice.yaml from that file"
                             : problem == EACCES ? "let this user read it"
                                                 : "";
  return about(path, "cannot be read: " + std::generic_category().message(problem), remedy);
}

template <class IsWanted>
std::vector<std::string> sorted_names(const std::string& folder, IsWanted&& is_wanted) {
  std::vector<std::string> names;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (is_wanted(*at)) names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

thread_local ReadScope* innermost = nullptr;

std::FILE* open_without_waiting(const std::string& path, const char* mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return fd < 0 ? nullptr : ::fdopen(fd, mode);
}

}  // namespace

ReadScope::ReadScope(std::function<bool(const std::string& path)> may_read)
    : outer_(innermost), may_read_(std::move(may_read)) {
  innermost = this;
}

ReadScope::~ReadScope() {
  innermost = outer_;
}

std::optional<std::string> read_file(const std::string& path, base::Diagnostics& diagnostics) {
  constexpr size_t bound = base::bounds::config_bytes_max;
  bool is_limited = false, is_allowed = true;
  for (ReadScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    scope->asked_.push_back(path);
    if (!scope->may_read_) continue;
    is_limited = true;
    is_allowed = is_allowed && scope->may_read_(path);
  }
  // A pipe without a writer would hold up the open itself.
  const char* const mode = innermost == nullptr ? "rbe" : "rb";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(!is_allowed ? nullptr
                                                             : innermost == nullptr
                                                                 ? std::fopen(path.c_str(), mode)
                                                                 : open_without_waiting(path, mode),
                                                             &std::fclose);
  struct stat status {};
  const bool is_known = file && ::fstat(::fileno(file.get()), &status) == 0;
  if (is_limited && !(is_known && S_ISREG(status.st_mode))) {
    diagnostics.push_back(about(path, "cannot be read here", "name a regular file that may be"));
    return std::nullopt;
  }
  if (!file) {
    diagnostics.push_back(unreadable(path, errno));
    return std::nullopt;
  }
  if (is_known && S_ISDIR(status.st_mode)) {
    diagnostics.push_back(about(path, "is a directory", "name a file in it"));
    return std::nullopt;
  }
  if (innermost != nullptr && !S_ISREG(status.st_mode)) {
    diagnostics.push_back(about(path, "is not a regular file", "name one that can be read again"));
    return std::nullopt;
  }
  // The bound applies to the bytes read, because the size of a pipe is not known.
  std::string text;
  char chunk[16384];
  while (const size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    if (n > bound - text.size()) {
      diagnostics.push_back(about(path,
                                  "is longer than " + std::to_string(bound >> 20) +
                                      " MiB, the bound of a configuration file",
                                  "split it or drop what no request meets"));
      return std::nullopt;
    }
    text.append(chunk, n);
  }
  if (const size_t at = text.find('\0'); at != text.npos) {
    diagnostics.push_back(about(path,
                                "is not a text file: byte " + std::to_string(at + 1) + " is 0",
                                "name a text file in UTF-8"));
    return std::nullopt;
  }
  if (std::ferror(file.get())) {
    diagnostics.push_back(unreadable(path, errno));
    return std::nullopt;
  }
  return text;
}

bool is_missing(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) != 0 && errno == ENOENT;
}

std::vector<std::string> names_in(const std::string& folder) {
  return sorted_names(folder, [](const std::filesystem::directory_entry& entry) {
    std::error_code unknown;
    return !entry.path().filename().string().starts_with('.') && !entry.is_directory(unknown);
  });
}

uint64_t digest_of_names(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) (all += name) += '\0';
  return base::digest(all);
}

std::optional<uint64_t> digest_of_path(const std::string& path) {
  if (path.ends_with('/'))
    return digest_of_names(
        sorted_names(path, [](const std::filesystem::directory_entry&) { return true; }));
  base::Diagnostics told_later;
  const auto text = read_file(path, told_later);
  if (!text) return std::nullopt;
  return base::digest(*text);
}

}  // namespace sluice::config
