// The whole of a terminal for a live picture: another screen without a cursor, keys one by one, and
// signals as events; all as it was before when it is left or destroyed. One for the process, on its
// only thread: while it lives, signals that end or stop the process are held back and come as
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
  // `out` is a terminal. `in` is one as well, or there are no keys. Nothing is changed before
  // `enter`.
  Terminal(int in, int out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void enter();
  void leave();

  struct Size {
    size_t columns, rows;
  };
  // Of the window; 80 by 24 where the system does not know.
  Size size() const { return size_of(out_); }
  static Size size_of(int file);

  // Puts the lines onto the screen in place of what is there. False: there is no terminal any more.
  bool draw(std::span<const std::string> lines);

  struct Event {
    enum class Kind {
      none,    // the time is over
      key,     // `key` was pressed; one that sends several bytes is none
      redraw,  // the window has another size, or the process was stopped meanwhile
      end,     // its user wants it to end, or the terminal is gone
    };
    Kind kind = Kind::none;
    char key = 0;
  };
  // The next event, waited for until then.
  Event next(std::chrono::steady_clock::time_point until);
  // Can be read when there is an event.
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
