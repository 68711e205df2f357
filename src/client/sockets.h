// The sockets of a client's links, in an epoll instance with an event and a timer of its own, so
// that one descriptor tells whether anything must be done. Used under the client's lock, except
// for `wait` and `wake`.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "client/core.h"
#include "net/stream.h"
#include "net/tls.h"

namespace sluice::calls {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// By the system's resolver, which may take long where the host is a name. There is at least one.
base::Result<std::vector<SocketAddress>> look_up(const Target& target);

class Sockets {
 public:
  // `tls`: of all links; empty: they are plain. Throws std::system_error where the system has no
  // descriptor left.
  explicit Sockets(std::optional<net::TlsClient> tls = {});
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  int descriptor() const { return epoll_; }

  // Reads the files of TLS, which may have changed since the last connection. Needs no lock. Null:
  // links are plain.
  base::Result<std::unique_ptr<net::TlsContext>> read_tls() const;
  // Begins to connect a link, to the first of the addresses that takes it. With TLS it is connected
  // once the handshake is over, and the server's certificate must be for the target's host.
  void connect(uint32_t link, std::vector<SocketAddress> addresses,
               std::unique_ptr<net::TlsContext> tls, Core& core, base::Time now);
  void close(uint32_t link);
  void write(uint32_t link, Core& core, base::Time now);

  // Waits for events, at most so long; below 0: without end.
  void wait(int milliseconds);
  // What `wait` found becomes calls of the core.
  void handle(Core& core, base::Time now);

  // Ends a wait that is under way or comes. Any thread.
  void wake();
  // Forgets a wake.
  void clear_wake();
  // The descriptor becomes readable then.
  void set_timer(base::Time time);

 private:
  enum class Phase : uint8_t { connecting, shaking_hands, open };
  struct Socket {
    net::Stream stream;
    Phase phase = Phase::open;
    uint32_t awaited = 0;                  // events
    std::unique_ptr<net::TlsContext> tls;  // of the stream, and of those to further addresses
    std::vector<SocketAddress> addresses;  // that were not tried
  };
  static constexpr uint64_t wake_mark = UINT64_MAX, timer_mark = UINT64_MAX - 1;

  void try_next(uint32_t link, Core& core, std::string problem, base::Time now);
  void finish_connect(uint32_t link, Core& core, base::Time now);
  void shake_hands(uint32_t link, Core& core, base::Time now);
  void read(uint32_t link, Core& core, base::Time now);
  void watch(uint32_t link, uint32_t events);

  const std::optional<net::TlsClient> tls_;
  int epoll_ = -1, event_ = -1, timer_ = -1;
  std::vector<Socket> sockets_;  // by link
  std::array<epoll_event, 64> events_{};
  int found_ = 0;
  std::atomic<bool> woken_ = false;
  base::Time timer_time_ = no_time;
};

}  // namespace sluice::calls
