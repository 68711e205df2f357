// Serves HTTP for people and for what watches the server, on a thread and a loop of its own at low
// cost to the workers: a bounded number of connections, each with deadlines, one request at a time.
// A connection that has asked for something but health has a place, of which there is a bounded
// number; a few more may be there that have not. Where there is none left, the connection that has
// been silent longest is closed: no byte has moved on it, and no answer is being made for it. What
// takes long is answered by a second thread, one after the other. Made and stopped by the server;
// `adopt`, `has_room` and `make_room` from any thread.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/bounds.h"
#include "net/tls.h"
#include "wire/http_session.h"

namespace sluice::admin {

// What answers requests. Its functions are called on the HTTP server's two threads, and must not
// throw: `answer` of what is slow on the second alone, all else on the first alone. So handlers of
// one of the two kinds share what they like without a lock.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // A request is refused before its body is read; `request` has all but that.
  virtual std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const = 0;
  // Is it answered while all places are taken?
  virtual bool is_health(const wire::HttpRequest&) const { return false; }
  // May the answer take longer than a few milliseconds?
  virtual bool is_slow(const wire::HttpRequest& request) const = 0;
  virtual wire::HttpResponse answer(const wire::HttpRequest& request) = 0;
  // The answer to what is not a request, or is too much.
  virtual wire::HttpResponse problem(unsigned status, const std::string& why) const = 0;
};

class HttpServer {
 public:
  explicit HttpServer(std::shared_ptr<spdlog::logger> log);
  ~HttpServer();

  // With so many places.
  void start(size_t places = base::bounds::admin_connections_max);
  // Serves the socket, which it owns from here on, as the handler says, which outlives this. `tls`:
  // null: plain.
  void adopt(int fd, HttpHandler& handler, std::shared_ptr<net::TlsContext> tls = {});
  // Accepts connections of that listening UNIX socket by itself, as long as there is room for one
  // more. The socket is the caller's and stays until `stop`.
  void serve(int listener, HttpHandler& handler);
  // May it be given one more? Not while base::bounds::admin_accepted_max wait for its thread.
  bool has_room() const;
  // Closes the connection that has been silent longest, soon: descriptors are short.
  void make_room();
  // Ends all connections, at once but for an answer that is being made. False: that does not end in
  // time. The destructor waits for it.
  bool stop(std::chrono::milliseconds limit = stop_limit);
  static constexpr std::chrono::milliseconds stop_limit{5000};

 private:
  class Connection;
  class Door;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::admin
