// One listening socket: it accepts and hands each connection on, a bounded number before others get
// a turn, and pauses while its owner has no room for more or the process has no descriptor left.
// Belongs to the thread that runs its event loop.
#pragma once

#include <spdlog/logger.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/listener_options.h"

namespace sluice::net {

class Listener {
 public:
  // Who gets each accepted descriptor, non-blocking and close-on-exec, and owns it.
  using Take = std::function<void(int)>;

  // What the owner says of the connections that it has. Either may be missing.
  struct Owner {
    // Has it room for one more? Without it accepting pauses, and the kernel's queue waits.
    std::function<bool()> has_room;
    // The process has no descriptor left: closes a connection, now or soon. A listener with this
    // keeps one descriptor, for a connection that comes then.
    std::function<void()> make_room;
    // Clients wait, and accepting pauses: each time that it looks, some ten times a second.
    std::function<void()> paused;
  };

  // The most connections that the kernel holds for a listener, and so the most that are accepted
  // before other events get a turn, and at its end.
  static constexpr int queue_max = 4096;

  Listener(boost::asio::io_context& io, Endpoint options, Take take,
           std::shared_ptr<spdlog::logger> log, Owner owner = {});
  ~Listener();

  // One for every address that the host of `options` has on this machine, appended to `all`; a name
  // may have several, and a listener has one. Otherwise says what went wrong. An address that
  // cannot be used is left to `bind` to tell, unless the name has others.
  static std::optional<std::string> resolve(const Endpoint& options, std::vector<Endpoint>& all);

  // Binds and listens, of a name on its first address; says what went wrong ("listen EADDRINUSE:
  // address already in use [::]:8321").
  std::optional<std::string> bind();
  // "[::]:8321"
  std::string address() const;
  uint16_t port() const;

  // Has it the descriptor that it keeps, if it keeps one? Takes one that has become free, so
  // this is asked before others are opened.
  bool has_spare();

  void start();
  // Takes what is queued already, then closes.
  void stop();

 private:
  // Where accepting ended: no client waits, other events get a turn, no room, no descriptors or
  // memory left.
  enum class Accepted { all, some, no_room, out_of_resources };

  bool open(const boost::asio::ip::tcp::endpoint& endpoint, boost::system::error_code& ec);
  void bound_kernel_memory();
  void await();
  Accepted accept_some();
  int accept_one();
  void keep_spare();
  void log_pause(int error);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point next_log_{};  // that accepting pauses
  const Endpoint options_;
  const Take take_;
  const std::shared_ptr<spdlog::logger> log_;
  const Owner owner_;
  int spare_ = -1;  // the descriptor that is kept
};

}  // namespace sluice::net
