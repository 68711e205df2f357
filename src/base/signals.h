// What signals do to a server, beside those that it listens for. Main thread.
#pragma once

#include <array>
#include <csignal>

namespace sluice::base {

// From the start of the process on: those that a server listens for later, but not to end, wait
// until then (SIGHUP, SIGUSR1). Before any other thread is made, which inherits it.
void hold_signals();
// They come now. The server listens for them.
void release_signals();

// As long as it exists SIGTERM, SIGINT and SIGQUIT end the process at once, with exit status 0 and
// that line on standard error: for a part of the start that may take long and leaves nothing to be
// closed. One at a time.
class EndsAtOnce {
 public:
  explicit EndsAtOnce(const char* line);  // a literal
  ~EndsAtOnce();
  EndsAtOnce(const EndsAtOnce&) = delete;
  EndsAtOnce& operator=(const EndsAtOnce&) = delete;

 private:
  std::array<struct sigaction, 3> before_;
};

// Signals that end a process which has not asked for them, and mean nothing to a server: SIGUSR2,
// SIGALRM, SIGPIPE and alike. Where a library has a handler for one it stays.
void ignore_signals();

}  // namespace sluice::base
