#include "config/admin_sockets.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "net/listener.h"

namespace sluice::config {
namespace {

// The beginning and end of "sluice-4711.sock".
constexpr std::string_view socket_begins = "sluice-", socket_ends = ".sock";
constexpr size_t sockets_listed_max = 100;
// A socket that is younger may be that of a server that is about to listen.
constexpr std::chrono::minutes stale_after{1};
constexpr size_t path_bytes_max = sizeof(sockaddr_un::sun_path) - 1;
// systemd makes it for a service with RuntimeDirectory=sluice, and a server that may.
constexpr const char* system_folder = "/run/sluice";

std::string user_folder() {
  return "/tmp/sluice-" + std::to_string(::geteuid());
}

// The folders that the environment names. systemd's RuntimeDirectory= may name several, separated
// by colons.
std::vector<std::string> named_folders(const CommandIo& io) {
  std::vector<std::string> folders;
  for (const char* name : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"}) {
    std::string folder = io.environment ? io.environment(name).value_or("") : "";
    folder.resize(std::min(folder.find(':'), folder.size()));
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    if (folder.starts_with('/')) folders.push_back(std::move(folder));
  }
  return folders;
}

// Calls `visit(path)` for each socket of a server in the folder, in use or not.
template <class Visit>
void each_socket(const std::string& folder, Visit&& visit) {
  std::error_code unusable;  // if it is set the folder counts as empty
  for (const auto& entry : std::filesystem::directory_iterator(folder, unusable)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(socket_begins) && name.ends_with(socket_ends) && entry.is_socket(unusable))
      visit(entry.path().string());
  }
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

bool is_admin(const Setting<Listener>& listener) {
  return listener.value.is_admin();
}

base::Problem problem_of(const std::string& folder, const std::string& what) {
  return {"the folder `" + folder + "` for the admin socket " + what};
}

// Removes the sockets of servers that are gone.
void remove_stale(const std::string& folder) {
  const auto now = std::filesystem::file_time_type::clock::now();
  each_socket(folder, [now](const std::string& old) {
    std::error_code gone;
    const auto made = std::filesystem::last_write_time(old, gone);
    if (!gone && now - made > stale_after && !net::is_listened_on(old)) ::unlink(old.c_str());
  });
}

base::Done prepare(const std::string& folder) {
  const auto failed = [&](const char* what) {
    return problem_of(folder, std::string(what) + std::generic_category().message(errno));
  };
  const bool makes = folder == system_folder || folder == user_folder();
  if (makes && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failed("cannot be made: ");
  if (makes)
    if (base::Done done = check_private_folder(folder, ::geteuid()); !done) return done;
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return failed("cannot be written: ");
  if (makes) remove_stale(folder);
  return {};
}

}  // namespace

base::Done check_private_folder(const std::string& path, uid_t user) {
  struct stat its {};
  struct stat above {};
  if (::lstat(path.c_str(), &its) != 0)
    return problem_of(path, "cannot be used: " + std::generic_category().message(errno));
  if (!S_ISDIR(its.st_mode)) return problem_of(path, "is not a folder, but a link or a file");
  if (its.st_uid != user)
    return problem_of(path, "belongs to user " + std::to_string(its.st_uid) + ", not to user " +
                                std::to_string(user));
  if ((its.st_mode & 022) != 0) return problem_of(path, "may be written by other users");
  // In a folder that others may write, only with its sticky bit they cannot put another in place.
  const std::string parent = folder_of(path).empty() ? "/" : folder_of(path);
  if (::stat(parent.c_str(), &above) != 0 || (above.st_uid != 0 && above.st_uid != user) ||
      ((above.st_mode & 022) != 0 && (above.st_mode & S_ISVTX) == 0))
    return problem_of(path, "may be replaced by other users, who may write `" + parent + "`");
  return {};
}

std::vector<std::string> admin_socket_folders(const CommandIo& io) {
  std::vector<std::string> folders = named_folders(io);
  struct stat its {};
  const bool is_named = std::ranges::find(folders, system_folder) != folders.end();
  // For root it may be that of a service with a user of its own; only root makes folders in /run.
  if (!is_named &&
      (::geteuid() == 0 ? ::lstat(system_folder, &its) == 0 && S_ISDIR(its.st_mode)
                        : static_cast<bool>(check_private_folder(system_folder, ::geteuid()))))
    folders.emplace_back(system_folder);
  if (check_private_folder(user_folder(), ::geteuid())) folders.push_back(user_folder());
  std::string data = io.environment ? io.environment("SLUICE_DATA").value_or("") : "";
  if (!data.empty()) folders.push_back(std::move(data));
  return folders;
}

std::vector<std::string> admin_sockets(const CommandIo& io) {
  std::vector<std::string> paths;
  for (const std::string& folder : admin_socket_folders(io))
    each_socket(folder, [&](std::string path) {
      if (paths.size() < sockets_listed_max) paths.push_back(std::move(path));
    });
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

std::vector<std::string> admin_socket_paths(const Config& config, const CommandIo& io) {
  if (config.operations.admin_off || !config.operations.admin_socket.value.empty() ||
      std::any_of(config.listen.begin(), config.listen.end(), is_admin))
    return {};
  std::vector<std::string> paths = named_folders(io);
  if (std::ranges::find(paths, system_folder) == paths.end()) paths.emplace_back(system_folder);
  paths.push_back(user_folder());
  if (const std::string& data = config.store.path.value; !data.empty()) paths.push_back(data);
  for (std::string& path : paths)
    path +=
        "/" + std::string(socket_begins) + std::to_string(::getpid()) + std::string(socket_ends);
  return paths;
}

base::Result<std::string> make_admin_socket_place(const Config& config, const CommandIo& io) {
  const auto paths = admin_socket_paths(config, io);
  std::string problems;
  for (const std::string& path : paths) {
    base::Done done = prepare(folder_of(path));
    if (done && path.size() > path_bytes_max)
      done = problem_of(folder_of(path), "has too long a path");
    // Servers in containers that share the folder may have the same process id.
    if (done && net::is_listened_on(path))
      done = problem_of(folder_of(path), "has a server's `" + path + "` already");
    if (done) return path;
    problems += (problems.empty() ? "" : "; ") + done.problem().text;
  }
  if (paths.empty()) return std::string();
  return base::Problem{std::move(problems)};
}

}  // namespace sluice::config
