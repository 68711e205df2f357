// The real binary as a child process. A thread collects its output, so that it never blocks on a
// full pipe; its standard error is shown if the test fails. The destructor ends the child with
// SIGTERM, or with SIGKILL if that does not help. The kernel kills the child when the thread that
// started it ends, so that no child is left if the test dies: that thread must outlive the Process.
// Failures of the harness itself are thrown.
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
    // The child's whole environment, except PATH and the sanitizers' settings.
    std::map<std::string, std::string> environment = {};
    std::string folder = {};  // to start in; empty: the test's own
    size_t open_files = 0;    // hard limit of descriptors; 0: the test's own
    // Soft limit of a file's bytes, to simulate a full disk; none: the test's own.
    std::optional<size_t> file_bytes = {};
    bool read_err = true;  // false: standard error is a pipe that is not read
    // Listening sockets that the child inherits, as a service manager passes them; they stay open
    // here.
    std::vector<int> sockets = {};
  };

  explicit Process(const Options& options, const std::string& program = binary_path());
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // The next line of standard output without its LF; nothing at the end of the output. Throws if no
  // line arrives in time.
  std::optional<std::string> read_line(Deadline deadline = soon());
  // Waits until standard error contains `text`. False: the output ended or the deadline passed
  // before.
  bool says(const std::string& text, Deadline deadline = soon());
  // The output so far; of standard output only what read_line has not returned.
  std::string out() const;
  std::string err() const;

  // Waits for the end. The exit status, 128 + N for signal N; nothing if the child still runs at
  // the deadline.
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
  Pipe out_, err_;  // `mutex_` guards their texts and `ended_`
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
