// The certificates of the listeners: their files are looked at again and again, by a thread of its
// own, and what became of them is logged, counted and shown. Made and stopped by the server; `of`
// and `collect` may be called from any thread.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "metrics/page.h"
#include "net/tls.h"

namespace sluice::server {

class TlsWatch final : public metrics::Source {
 public:
  static constexpr std::chrono::milliseconds period{250};

  explicit TlsWatch(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}
  ~TlsWatch() override { stop(); }
  TlsWatch(const TlsWatch&) = delete;
  TlsWatch& operator=(const TlsWatch&) = delete;

  // Before `start`. `address`: of the listener, for people.
  void add(std::string address, std::shared_ptr<net::ListenerTls> tls);
  // Does nothing if there is none to watch.
  void start();
  void stop();

  // Null: that listener has no TLS.
  const net::ListenerTls* of(const std::string& address) const;
  void collect(metrics::Page& page) const override;

 private:
  struct Watched {
    std::string address;
    std::shared_ptr<net::ListenerTls> tls;
  };
  void run();
  void look(const Watched& one);
  void tell_of_end(const Watched& one);

  const std::shared_ptr<spdlog::logger> log_;
  std::vector<Watched> all_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice::server
