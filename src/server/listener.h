// One listening socket: it accepts and hands each connection on, and pauses when the process has no
// descriptor left. Belongs to the thread that runs its event loop.
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

#include "server/options.h"

namespace sluice::server {

class Listener {
 public:
  // `take` gets each accepted descriptor, non-blocking and close-on-exec, and owns it.
  Listener(boost::asio::io_context& io, ListenerOptions options,
           std::function<void(int, Protocol)> take, std::shared_ptr<spdlog::logger> log);

  // Binds and listens; says what went wrong ("listen EADDRINUSE: address already in use
  // [::]:8321").
  std::optional<std::string> bind();
  // "[::]:8321"
  std::string address() const;
  uint16_t port() const;
  Protocol protocol() const { return options_.protocol; }

  void start();
  // Takes what is queued already, then closes.
  void stop();

 private:
  bool open(const boost::asio::ip::tcp::endpoint& endpoint, boost::system::error_code& ec);
  void await();
  // Accepts until nobody waits. False: out of descriptors or memory.
  bool accept_all();
  void tell_pause(int error);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point tell_again_{};  // that accepting pauses
  const ListenerOptions options_;
  const std::function<void(int, Protocol)> take_;
  const std::shared_ptr<spdlog::logger> log_;
};

}  // namespace sluice::server
