#include "base/signals.h"

#include <pthread.h>

#include <csignal>
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

}  // namespace

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
