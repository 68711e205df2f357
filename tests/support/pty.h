// The real binary on a pseudo-terminal with a size, and what it prints there. Output is read only
// by functions that wait. The destructor kills the program if it still runs. Failures of the
// harness itself are thrown.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace sluice::tests {

class Pty {
 public:
  struct Size {
    unsigned short columns, rows;
  };
  Pty(std::vector<std::string> arguments, std::map<std::string, std::string> environment, Size size,
      const std::string& program = binary_path());
  ~Pty();
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  // Waits for the end. The exit status, 128 + N for signal N; nothing if the process still runs at
  // the deadline.
  std::optional<int> wait(Deadline deadline = soon());

  // All bytes that the program wrote.
  const std::string& output() const { return output_; }

 private:
  bool read_some();
  bool has_ended();

  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::string output_;
};

}  // namespace sluice::tests
