// Uses the whole terminal for a picture that is updated: the alternate screen without a cursor,
// single keys, and signals as events. `leave` or the destructor restores the terminal. The process
// may have one, on its only thread: while it exists, signals that end or stop the process become
// events.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::cli {

class Terminal {
 public:
  // `out` must be a terminal. If `in` is not one there are no keys. Nothing changes before `enter`.
  Terminal(int in, int out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void enter();
  void leave();

  struct Size {
    size_t columns, rows;
  };
  // The size of the window; 80 by 24 if the system does not know it.
  Size size() const { return size_of(out_); }
  static Size size_of(int file);

  // Replaces the contents of the screen by the lines. False: the terminal is gone.
  bool draw(std::span<const std::string> lines);

  struct Event {
    enum class Kind {
      none,    // the time has passed
      key,     // `key` was pressed; keys that send several bytes are ignored
      redraw,  // the size of the window has changed, or the process was stopped and continued
      end,     // the user ended the program, or the terminal is gone
    };
    Kind kind = Kind::none;
    char key = 0;
  };
  // Waits for the next event, at most until that time.
  Event next(std::chrono::steady_clock::time_point until);
  // Descriptors that become readable when there is an event.
  std::span<const int> descriptors() const { return {descriptors_.data(), descriptor_count_}; }

 private:
  Event take_signal();
  Event take_keys();
  bool write(std::string_view bytes) const;

  const int in_, out_;
  bool has_keys_ = false, entered_ = false;
  termios before_{};
  sigset_t held_{}, mask_before_{};
  int signals_ = -1;
  std::array<int, 2> descriptors_{};
  size_t descriptor_count_ = 0;
};

}  // namespace sluice::cli
