// The real binary as a child process. What it prints is collected by a thread, so that it never
// blocks on a full pipe; standard error is shown when the test has failed. Destroying a Process
// ends it: SIGTERM, and SIGKILL where that does not help. Should the test die, the kernel kills the
// child; for that reason a Process is started on a thread that outlives it. Trouble of the harness
// itself is thrown.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace sluice::tests {

class Process {
 public:
  struct Options {
    std::vector<std::string> arguments = {};
    // All that the child has, but for PATH and the sanitizers' settings.
    std::map<std::string, std::string> environment = {};
    std::string folder = {};  // to start in; empty: the test's own
    size_t open_files = 0;    // hard limit of descriptors; 0: the test's own
    // Soft limit of the bytes that a file may grow to, as a full disk; none: the test's own.
    std::optional<size_t> file_bytes = {};
    bool read_err = true;  // false: standard error is a pipe that is not read
  };

  explicit Process(const Options& options, const std::string& program = binary_path());
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // The next line on standard output without its LF; nothing when the output has ended. Throws when
  // it does not come.
  std::optional<std::string> read_line(Deadline deadline = soon());
  // Waits until standard error holds `text`. False: it ended or the deadline passed without.
  bool says(const std::string& text, Deadline deadline = soon());
  // What was printed so far; of standard output only what no read_line has taken.
  std::string out() const;
  std::string err() const;

  // The exit status, 128 + N for signal N; nothing when it still runs at the deadline.
  std::optional<int> wait(Deadline deadline = soon());

 private:
  struct Pipe {
    int fd = -1;
    std::string text;
  };
  void collect(bool read_err);

  pid_t pid_ = -1;
  std::optional<int> status_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Pipe out_, err_;  // their texts, and `ended_`, are guarded
  bool ended_ = false;
  std::thread collector_;
};

// Runs a command to its end.
struct Finished {
  int status;
  std::string out, err;
};
Finished run(const Process::Options& options);

}  // namespace sluice::tests
