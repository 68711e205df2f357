#include "metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/machine.h"

namespace sluice::metrics {
namespace {

// The fields of /proc/self/stat behind the program's name, which may hold blanks; the first is
// field 3 of proc(5).
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end = text.rfind(')');
  std::vector<std::string> fields;
  if (end == text.npos) return fields;
  std::istringstream words(text.substr(end + 1));
  for (std::string word; words >> word;) fields.push_back(word);
  return fields;
}

double number(const std::vector<std::string>& fields, size_t field) {
  return field - 3 < fields.size() ? std::strtod(fields[field - 3].c_str(), nullptr) : 0;
}

// Seconds since 1970.
double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

void ProcessSource::collect(Page& page) const {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  page.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
               seconds(used.ru_utime) + seconds(used.ru_stime));
  page.gauge("process_open_fds", "Number of open file descriptors.",
             static_cast<double>(base::open_files()));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  page.gauge("process_max_fds", "Maximum number of open file descriptors.",
             static_cast<double>(files.rlim_cur));
  // Without /proc the figures that come from it are left out.
  const auto fields = stat_fields();
  if (fields.empty()) return;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  page.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", number(fields, 23));
  page.gauge("process_resident_memory_bytes", "Resident memory size in bytes.",
             number(fields, 24) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  page.gauge("process_threads", "Number of operating system threads.", number(fields, 20));
  page.gauge("process_start_time_seconds",
             "Start time of the process since the Unix epoch in seconds.",
             boot_time() + number(fields, 22) / ticks);
}

}  // namespace sluice::metrics
