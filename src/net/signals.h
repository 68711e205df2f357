// Signals of the process as events of a loop. The signals of a thread that others made before stay
// as they are, which a signalfd could not have: they would end the process.
#pragma once

#include <functional>
#include <vector>

#include "net/event_loop.h"

namespace sluice::net {

// One of a process at a time; belongs to its loop's thread.
class Signals final : public Watcher {
 public:
  // From here on the signals do nothing but have `on_signal` called with their number, on the
  // loop's thread; signals that come before the loop runs wait. Past some thousands that wait,
  // further ones are lost. The destructor gives them back what they do by default. Throws
  // std::system_error if the system has no descriptor left.
  Signals(EventLoop& loop, std::vector<int> numbers, std::function<void(int)> on_signal);
  ~Signals() override;
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void on_ready(bool readable, bool writable, bool ended) override;

 private:
  EventLoop& loop_;
  const std::vector<int> numbers_;
  const std::function<void(int)> on_signal_;
  int pipe_[2] = {-1, -1};
};

}  // namespace sluice::net
