// What a store may have of a worker's event loop: to be notified when a socket is ready, and when a
// turn ends, so that all of a turn's output leaves in one write. Each call belongs to the loop's
// thread.
#pragma once

namespace sluice::net {

// Who has a socket. It stays where it is from `watch` to `unwatch`.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // The socket has become readable (bytes, the peer's end, an error) or writable since the last
  // time. `ended`: the peer will send no more, so that reading goes on to the end.
  virtual void on_ready(bool readable, bool writable, bool ended) = 0;
  virtual void on_turn_end() {}
};

class Loop {
 public:
  virtual ~Loop() = default;
  // Tells of the socket, edge by edge. False: the system refuses it (errno).
  virtual bool watch(int fd, Watcher& watcher) = 0;
  // It is not called any more. Its socket leaves by being closed.
  virtual void unwatch(Watcher& watcher) = 0;
  // Calls on_turn_end once, before the loop waits again.
  virtual void at_turn_end(Watcher& watcher) = 0;
};

}  // namespace sluice::net
