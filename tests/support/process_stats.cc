#include "tests/support/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace sluice::tests {
namespace {

std::ifstream open(pid_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + '/' + name);
  if (!file) throw std::runtime_error("there is no process " + std::to_string(pid));
  return file;
}

}  // namespace

int64_t resident_bytes(pid_t pid) {
  auto file = open(pid, "status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  throw std::runtime_error("no VmRSS of process " + std::to_string(pid));
}

std::chrono::milliseconds processor_time(pid_t pid) {
  auto file = open(pid, "stat");
  std::string text;
  std::getline(file, text);
  // After the name, which may contain any character: the state and ten numbers, then the two times.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  int64_t user = 0, kernel = 0;
  fields >> user >> kernel;
  return std::chrono::milliseconds((user + kernel) * 1000 / ::sysconf(_SC_CLK_TCK));
}

bool allow_open_files(size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count) return false;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace sluice::tests
