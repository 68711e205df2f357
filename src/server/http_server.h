// Serves HTTP for people and for what watches the server, on a thread and a loop of its own at low
// cost to the workers: a bounded number of connections, each with deadlines, one request at a time.
// What takes long is answered by a second thread, one after the other. Made and stopped by the
// server; `adopt` from any thread.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <optional>

#include "wire/http_session.h"

namespace sluice::server {

// What answers requests. Its functions are called on the HTTP server's two threads, and must not
// throw: `answer` of what is slow on the second alone, all else on the first alone. So handlers of
// one of the two kinds share what they like without a lock.
class Site {
 public:
  virtual ~Site() = default;
  // A request is refused before its body is read; `request` has all but that.
  virtual std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const = 0;
  // May the answer take longer than a few milliseconds?
  virtual bool is_slow(const wire::HttpRequest& request) const = 0;
  virtual wire::HttpResponse answer(const wire::HttpRequest& request) = 0;
  // The answer to what is no request, or is too much.
  virtual wire::HttpResponse problem(unsigned status, const std::string& why) const = 0;
};

class HttpServer {
 public:
  explicit HttpServer(std::shared_ptr<spdlog::logger> log);
  ~HttpServer();

  void start();
  // Serves the socket, which it owns from here on, as `site` says, which outlives this.
  void adopt(int fd, Site& site);
  // Ends all connections, at once but for an answer that is being made.
  void stop();

 private:
  class Connection;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
