#include "base/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/bounds.h"

namespace sluice::base {

namespace {

unsigned quota_of(double quota, double period) {
  if (quota <= 0 || period <= 0) return ~0u;
  const double processors = quota / period;
  return static_cast<unsigned>(processors) +
         (processors > static_cast<unsigned>(processors) ? 1 : 0);
}

// The smallest quota between this process's cgroup (v2) and the root; v1 as a container sees it.
unsigned cgroup_processors() {
  unsigned least = ~0u;
  std::string line, path;
  for (std::ifstream in("/proc/self/cgroup"); std::getline(in, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  while (true) {
    std::ifstream in("/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    double period = 0;
    if (in >> quota >> period && quota != "max") {
      double value = 0;
      std::istringstream(quota) >> value;
      least = std::min(least, quota_of(value, period));
    }
    if (path.empty()) break;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  double quota = 0, period = 0;
  if (std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota &&
      std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period) {
    least = std::min(least, quota_of(quota, period));
  }
  return least;
}

}  // namespace

unsigned processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1u, std::min(static_cast<unsigned>(std::max(affinity, 1)), cgroup_processors()));
}

size_t raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

size_t open_files_max() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

namespace {

// Without /proc: descriptors are given from the lowest on, so behind a long gap there are none.
size_t open_files_by_number() {
  constexpr size_t gap_max = 1024;
  size_t count = 0;
  for (size_t fd = 0, last = 0; fd < open_files_max() && fd - last <= gap_max; ++fd) {
    if (::fcntl(static_cast<int>(fd), F_GETFD) < 0) continue;
    ++count;
    last = fd;
  }
  return count;
}

}  // namespace

size_t open_files() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return open_files_by_number();
  size_t count = 0;
  while (const dirent* const entry = ::readdir(folder)) count += entry->d_name[0] == '.' ? 0 : 1;
  ::closedir(folder);
  return count - 1;  // without the folder itself
}

}  // namespace sluice::base
