// The part of a worker's event loop that stores use: it notifies of sockets that are ready and of
// the end of a turn, so that the output of a turn leaves in one write. Everything is called on the
// loop's thread.
#pragma once

namespace sluice::net {

// The owner of a socket. It must not be moved between `watch` and `unwatch`.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // The socket has become readable (bytes, the peer's end, an error) or writable since the last
  // call. `ended`: the peer sends no more, so the owner must read to the end.
  virtual void on_ready(bool readable, bool writable, bool ended) = 0;
  virtual void on_turn_end() {}
};

class Loop {
 public:
  virtual ~Loop() = default;
  // Watches the socket, edge-triggered. False: the system refuses it (errno).
  virtual bool watch(int fd, Watcher& watcher) = 0;
  // Ends the calls to the watcher. The socket stays registered until it is closed.
  virtual void unwatch(Watcher& watcher) = 0;
  // Has on_turn_end called once, before the loop waits again.
  virtual void at_turn_end(Watcher& watcher) = 0;
};

}  // namespace sluice::net
