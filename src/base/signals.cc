#include "base/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace sluice::base {

namespace {

sigset_t held() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  return set;
}

void ignore(int number) {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(number, &action, nullptr);
}

constexpr std::array stops = {SIGTERM, SIGINT, SIGQUIT};

std::atomic<const char*> last_line{nullptr};

void end_at_once(int) {
  const char* const line = last_line.load();
  // The program ends also where the line cannot be written.
  if (::write(STDERR_FILENO, line, std::strlen(line)) < 0) ::_exit(0);
  ::_exit(0);
}

}  // namespace

EndsAtOnce::EndsAtOnce(const char* line) {
  last_line.store(line);
  struct sigaction action {};
  action.sa_handler = end_at_once;
  for (size_t i = 0; i < stops.size(); ++i) ::sigaction(stops[i], &action, &before_[i]);
}

EndsAtOnce::~EndsAtOnce() {
  for (size_t i = 0; i < stops.size(); ++i) ::sigaction(stops[i], &before_[i], nullptr);
}

void hold_signals() {
  const sigset_t set = held();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void release_signals() {
  const sigset_t set = held();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void ignore_signals() {
  // A file that may not grow (SIGXFSZ) is reported as a full disk is.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR})
    ignore(number);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) ignore(number);
}

}  // namespace sluice::base
