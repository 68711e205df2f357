#include "protocol/envoy/limits_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/units.h"
#include "config/read_file.h"

namespace sluice::envoy {
namespace {

namespace fs = std::filesystem;

base::Diagnostic about(std::string file, std::string message, std::string remedy) {
  base::Diagnostic d;
  d.file = std::move(file);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  return d;
}

class FolderReader {
 public:
  FolderReader(bool ignore_dot_files, size_t files_max, base::Diagnostics& diagnostics)
      : ignore_dot_files_(ignore_dot_files), files_max_(files_max), diagnostics_(diagnostics) {}

  LimitsFolder read(const std::string& path) {
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
      find(path.ends_with('/') ? path : path + '/');
      std::sort(names_.begin(), names_.end());
    } else if (config::is_missing(path)) {
      folder_.paths.push_back(path);
      folder_.missing.push_back(path);
      fail(path, "there is no such folder of limits",
           "check the path; `sluice envoy` without one takes it from RUNTIME_ROOT, "
           "RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY");
      return std::move(folder_);
    } else {
      names_.push_back(path);
    }
    if (names_.size() > files_max_)
      fail(path, "there are more than " + base::grouped(files_max_) + " files",
           "put several descriptors into one file");
    else
      for (const std::string& name : names_) read_file(name);
    return std::move(folder_);
  }

 private:
  // `folder` ends with a slash.
  void find(const std::string& folder) {
    std::error_code problem;
    std::string all;
    std::vector<std::string> folders;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      const std::string name = at->path().filename().string();
      if (ignore_dot_files_ && name.starts_with('.')) continue;
      (all += name) += '\0';
      std::error_code unknown;
      const bool is_folder = at->is_directory(unknown);
      if (is_folder && at->is_symlink(unknown))
        pass_over_link(folder + name);
      else if (is_folder)
        folders.push_back(folder + name + '/');
      else if (at->is_regular_file(unknown) || !at->exists(unknown))
        names_.push_back(folder + name);
      else
        fail(folder + name, "is not a regular file", "take it out of the folder of limits");
      if (names_.size() > files_max_) return;
    }
    if (problem) fail(folder, "cannot be read: " + problem.message(), "let this user read it");
    folder_.paths.push_back(folder);
    folder_.digests.push_back(base::digest(sorted(all)));
    std::sort(folders.begin(), folders.end());
    for (const std::string& below : folders) find(below);
  }

  // Sorts names, each of which is followed by a zero byte.
  static std::string sorted(const std::string& all) {
    std::vector<std::string> names;
    for (size_t at = 0; at < all.size(); at = all.find('\0', at) + 1)
      names.push_back(all.substr(at, all.find('\0', at) + 1 - at));
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += name;
    return text;
  }

  void pass_over_link(const std::string& path) {
    auto d = about(path, "is a link to a folder, which is not followed",
                   "put the folder itself there, or have names that begin with a dot ignored: "
                   "RUNTIME_IGNOREDOTFILES=true, `ignore_dot_files: true` or --ignore-dot-files");
    d.severity = base::Diagnostic::Severity::warning;
    diagnostics_.push_back(std::move(d));
  }

  void read_file(const std::string& name) {
    folder_.paths.push_back(name);
    auto text = config::read_file(name, diagnostics_);
    if (!text) {
      folder_.complete = false;
      if (config::is_missing(name)) folder_.missing.push_back(name);
      return;
    }
    bytes_ += text->size();
    if (bytes_ > base::bounds::config_bytes_max) {
      const bool first = bytes_ - text->size() <= base::bounds::config_bytes_max;
      folder_.complete = false;
      if (first)
        fail(name,
             "with this file those of the folder have more than " +
                 base::format_size(base::bounds::config_bytes_max) + " together",
             "use patterns with `*`, or several servers");
      return;
    }
    folder_.digests.push_back(base::digest(*text));
    folder_.files.emplace_back(name, *std::move(text));
  }

  void fail(const std::string& path, std::string message, std::string remedy) {
    diagnostics_.push_back(about(path, std::move(message), std::move(remedy)));
    folder_.complete = false;
  }

  bool ignore_dot_files_;
  size_t files_max_;
  base::Diagnostics& diagnostics_;
  std::vector<std::string> names_;
  size_t bytes_ = 0;
  LimitsFolder folder_;
};

}  // namespace

LimitsFolder read_limits_folder(const std::string& path, bool ignore_dot_files,
                                base::Diagnostics& diagnostics, size_t files_max) {
  return FolderReader(ignore_dot_files, files_max, diagnostics).read(path);
}

}  // namespace sluice::envoy
