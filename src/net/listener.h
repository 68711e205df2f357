// A listening socket. It accepts connections and passes them to its owner, a bounded number before
// other events of the loop are served. It pauses while the owner has no room, or the process has no
// descriptor left. Belongs to the thread that runs its event loop.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/event_loop.h"
#include "net/socket_address.h"

namespace sluice::net {

class InheritedSockets;

// Where a listener binds, and the time limits for its clients. Plain values.

// Time limits for a listener's clients. `request`: from the first byte of a request to its last.
// `send`: from the time at which the client stops taking output. `idle`: from the last byte of a
// client that waits for no reply.
struct Timeouts {
  base::Duration request = base::seconds(30);
  base::Duration send = base::seconds(30);
  base::Duration idle = {};  // 0: none
  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

struct Endpoint {
  std::string host =
      "::";  // an address or a hostname; "::" is IPv4 and IPv6, or IPv4 if there is no IPv6
  uint16_t port = 0;  // 0: any free port
  Timeouts timeouts = {};
};

class Listener final : public Watcher {
 public:
  // Receives each accepted descriptor, which is non-blocking and close-on-exec, and owns it.
  using Take = std::function<void(int)>;

  // Questions to the owner about its connections. Each function may be missing.
  struct Owner {
    // Has it room for another connection? If not, accepting pauses, and clients wait in the
    // kernel's queue.
    std::function<bool()> has_room;
    // Called when the process has no descriptor left: closes a connection, now or soon. A listener
    // with this function keeps a spare descriptor, for the connection that comes then.
    std::function<void()> make_room;
    // Called about ten times a second while clients wait and accepting pauses.
    std::function<void()> paused;
  };

  // The most connections that the kernel queues for a listener. So many are accepted at most before
  // other events are served, and by `stop`.
  static constexpr int queue_max = 4096;

  Listener(EventLoop& loop, Endpoint options, Take take, std::shared_ptr<spdlog::logger> log,
           Owner owner = {});
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Appends an endpoint to `all` for every address on this machine that the host of `options` has:
  // a name may have several, and a listener has one. Otherwise returns the problem. If a host has
  // only one address and that cannot be used, `bind` reports it.
  static std::optional<std::string> resolve(const Endpoint& options, std::vector<Endpoint>& all);

  // Binds and listens, for a hostname on its first address, or takes the one of `inherited` that
  // listens there. Connections are accepted as soon as the loop runs. Returns a problem ("listen
  // EADDRINUSE: address already in use [::]:8321"), if any.
  std::optional<std::string> bind(InheritedSockets* inherited = nullptr);
  // "[::]:8321"
  std::string address() const;
  uint16_t port() const;

  // Does the listener have its spare descriptor, if it needs one? It takes one that has become
  // free, so it must be asked before other descriptors are opened.
  bool has_spare();

  // Accepts the connections that are queued already, then closes. Those of an inherited socket wait
  // for the process that listens there next.
  void stop();

  void on_ready(bool readable, bool writable, bool ended) override;

 private:
  // Why accepting ended: no client waits; other events must be served; the owner has no room;
  // descriptors or memory have run out.
  enum class Accepted { all, some, no_room, out_of_resources };

  int open(const SocketAddress& address, InheritedSockets* inherited);
  void accept();
  void close();
  void bound_kernel_memory();
  Accepted accept_some();
  int accept_one();
  void keep_spare();
  void log_pause(int error);

  EventLoop& loop_;
  int fd_ = -1;
  Timer next_;  // of `accept`; while it is set nothing is accepted
  std::chrono::steady_clock::time_point next_log_{};  // of the line that accepting pauses
  const Endpoint options_;
  const Take take_;
  const std::shared_ptr<spdlog::logger> log_;
  const Owner owner_;
  int spare_ = -1;  // the spare descriptor
  bool is_inherited_ = false;
};

// A UNIX socket that listens at a path, for the process's user only (0600). The destructor removes
// it. Main thread.

class UnixListener {
 public:
  // Replaces a socket at the path on which no process listens.
  static base::Result<std::unique_ptr<UnixListener>> open(const std::string& path);
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int fd() const { return fd_; }  // it does not block

 private:
  UnixListener(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

// Does a process listen at that path?
bool is_listened_on(const std::string& path);

}  // namespace sluice::net
