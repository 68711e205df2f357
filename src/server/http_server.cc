#include "server/http_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/bounds.h"

namespace sluice::server {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr int niceness = 5;  // decisions come first
constexpr size_t read_bytes = 16 << 10;
// From a request's first byte to its last; between requests; for a response to be taken.
constexpr auto request_limit = std::chrono::seconds(15), idle_limit = std::chrono::seconds(75),
               response_limit = std::chrono::seconds(30);
// After a refusal the client's own last bytes are read and thrown away, so that the close does not
// become a reset that destroys the response.
constexpr auto linger_limit = std::chrono::seconds(1);

using Guard = asio::executor_work_guard<asio::io_context::executor_type>;

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<spdlog::logger> log;
  asio::io_context io{1}, desk_io{1};
  Guard work = asio::make_work_guard(io), desk_work = asio::make_work_guard(desk_io);
  std::thread thread, desk;
  std::set<std::shared_ptr<Connection>> all;
  size_t queued = 0;  // at the desk
  bool stopping = false;
};

class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, int fd, Site& site)
      : server_(server),
        site_(site),
        socket_(server.io, fd),
        timer_(server.io),
        session_(base::bounds::admin_body_bytes_max) {}

  void start() {
    set_limit(request_limit);
    go_on();
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    server_.all.erase(shared_from_this());
  }

 private:
  void set_limit(std::chrono::seconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([self = weak_from_this()](error_code ec) {
      if (const auto connection = self.lock(); connection && !ec) connection->close();
    });
  }

  void read() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code ec, size_t n) {
                              if (!self->socket_.is_open()) return;
                              if (ec) return self->close();
                              self->in_.append(self->buffer_.data(), n);
                              self->go_on();
                            });
  }

  void go_on() {
    const bool had_begun = session_.has_begun();
    const auto [consumed, found] = session_.receive(in_);
    in_.erase(0, consumed);
    if (!had_begun && session_.has_begun()) set_limit(request_limit);
    switch (found) {
      case wire::HttpSession::Found::nothing:
        return read();
      case wire::HttpSession::Found::head:
        if (auto refusal = site_.refuse(session_.request())) return respond(*refusal, true);
        if (!session_.awaits_go_ahead()) return go_on();
        out_.clear();
        wire::HttpSession::append_go_ahead(out_);
        return write(true);
      case wire::HttpSession::Found::broken:
        return respond(site_.problem(session_.refusal_status(), session_.refusal()), true);
      case wire::HttpSession::Found::request:
        timer_.cancel();
        if (auto refusal = site_.refuse(session_.request())) return respond(*refusal, false);
        if (!site_.is_slow(session_.request()))
          return respond(site_.answer(session_.request()), false);
        return ask_desk();
    }
  }

  void ask_desk() {
    if (server_.queued >= base::bounds::admin_queued_max)
      return respond(site_.problem(503, "too many such requests are queued; try later"), false);
    ++server_.queued;
    asio::post(server_.desk_io, [self = shared_from_this()] {
      auto response = self->site_.answer(self->session_.request());
      asio::post(self->server_.io, [self, response = std::move(response)] {
        --self->server_.queued;
        if (self->socket_.is_open()) self->respond(response, false);
      });
    });
  }

  void respond(const wire::HttpResponse& response, bool last) {
    out_.clear();
    write(session_.reply(response, last || server_.stopping, out_));
  }

  void write(bool goes_on) {
    set_limit(response_limit);
    asio::async_write(socket_, asio::buffer(out_),
                      [self = shared_from_this(), goes_on](error_code ec, size_t) {
                        if (!self->socket_.is_open()) return;
                        if (ec) return self->close();
                        if (!goes_on) return self->end();
                        self->set_limit(self->session_.has_begun() ? request_limit : idle_limit);
                        self->go_on();
                      });
  }

  void end() {
    ::shutdown(socket_.native_handle(), SHUT_WR);
    set_limit(linger_limit);
    drain();
  }

  void drain() {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code ec, size_t) {
                              if (!self->socket_.is_open()) return;
                              ec ? self->close() : self->drain();
                            });
  }

  Impl& server_;
  Site& site_;
  asio::posix::stream_descriptor socket_;
  asio::steady_timer timer_;
  wire::HttpSession session_;
  std::array<char, read_bytes> buffer_{};
  std::string in_, out_;
};

HttpServer::HttpServer(std::shared_ptr<spdlog::logger> log) : impl_(std::make_unique<Impl>()) {
  impl_->log = std::move(log);
}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::start() {
  const auto run = [](asio::io_context& io) {
    const auto self = static_cast<id_t>(gettid());
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
    io.run();
  };
  impl_->thread = std::thread([this, run] { run(impl_->io); });
  impl_->desk = std::thread([this, run] { run(impl_->desk_io); });
}

void HttpServer::adopt(int fd, Site& site) {
  asio::post(impl_->io, [this, fd, &site] {
    auto& s = *impl_;
    if (s.stopping || s.all.size() >= base::bounds::admin_connections_max) {
      ::close(fd);
      return;
    }
    try {
      auto connection = std::make_shared<Connection>(s, fd, site);
      s.all.insert(connection);
      connection->start();
    } catch (const boost::system::system_error& e) {  // no memory in the kernel to watch it
      s.log->warn("admin: a connection is lost: {}", e.what());
      ::close(fd);
    }
  });
}

void HttpServer::stop() {
  auto& s = *impl_;
  if (!s.thread.joinable()) return;
  s.desk_work.reset();
  s.desk_io.stop();
  s.desk.join();
  asio::post(s.io, [&s] {
    s.stopping = true;
    while (!s.all.empty()) {
      const auto connection = *s.all.begin();
      connection->close();
    }
    s.work.reset();
  });
  s.thread.join();
}

}  // namespace sluice::server
