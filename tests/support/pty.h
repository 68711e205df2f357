// The real binary on a pseudo-terminal, used as a person would: keys, a window with a size, signals
// from the keyboard, and what the screen shows. Output is read only by functions that wait. The
// destructor kills the program if it still runs. Failures of the harness itself are thrown.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace sluice::tests {

// What a terminal shows of the bytes it gets, for the control sequences that `sluice top` uses:
// every character takes one column, colours are skipped. Other control sequences are counted.
class Screen {
 public:
  void feed(std::string_view bytes);
  void resize(size_t columns) { columns_ = columns; }

  std::string text() const;  // all lines, each with a line end
  std::vector<std::string> lines() const;
  bool is_other() const { return other_; }  // the alternate screen is shown
  bool has_cursor() const { return cursor_; }
  bool wraps() const { return wraps_; }
  // Control characters and sequences that this class does not know.
  size_t unknown() const { return unknown_; }

 private:
  void put(char c);
  bool obey(std::string_view sequence);

  using Line = std::vector<std::string>;  // of characters
  std::string pending_;
  std::vector<Line> lines_{1};
  size_t columns_ = 80, row_ = 0, column_ = 0, unknown_ = 0;
  bool other_ = false, cursor_ = true, wraps_ = true;
};

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

  void type(std::string_view keys) const;
  void resize(Size size);
  void signal(int number) const;

  // Reads until `so` holds. False: it did not hold in time, or before the process ended.
  bool await(const std::function<bool(const Screen&)>& so, Deadline deadline = soon());
  bool shows(std::string_view text, Deadline deadline = soon());
  // Waits until a signal has stopped the process. False: none did in time.
  bool await_stop(Deadline deadline = soon());
  // Waits for the end. The exit status, 128 + N for signal N; nothing if the process still runs at
  // the deadline.
  std::optional<int> wait(Deadline deadline = soon());

  const Screen& screen() const { return screen_; }
  // All bytes that the program wrote.
  const std::string& output() const { return output_; }
  // The terminal's present settings.
  termios mode() const;

 private:
  bool read_some();
  bool has_ended();

  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::string output_;
  Screen screen_;
};

}  // namespace sluice::tests
