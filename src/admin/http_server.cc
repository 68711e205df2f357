#include "admin/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/bounds.h"
#include "net/stream.h"

namespace sluice::admin {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int niceness = 5;                                      // decisions come first
constexpr size_t read_bytes = 16 << 10, write_bytes = 64 << 10;  // at a time
// From a request's first byte to its last; between requests; for a response to be taken.
constexpr auto request_limit = std::chrono::seconds(15), idle_limit = std::chrono::seconds(75),
               response_limit = std::chrono::seconds(30);
// After a refusal the client's own last bytes are read and thrown away, so that the close does not
// become a reset that destroys the response.
constexpr auto linger_limit = std::chrono::seconds(1);
constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr auto log_period = std::chrono::seconds(10);
// Where descriptors are short a connection has so long to ask for something, or to ask again.
constexpr auto first_words_limit = std::chrono::milliseconds(200);
// A request or an answer above this leaves memory behind that is given back to the system.
constexpr size_t large_bytes = size_t{1} << 20;
// Texts of a connection above this are freed between requests.
constexpr size_t idle_text_bytes_max = 16 << 10;

void release(std::string& text) {
  if (text.capacity() > idle_text_bytes_max) std::string(text).swap(text);
}

// The user's name and number; the number alone if /etc/passwd does not have it. (getpwuid would
// load modules of the machine, which a static program must not.)
std::string user_words(uid_t uid) {
  std::string number = std::to_string(uid);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  std::array<char, 4096> texts{};
  passwd entry{};
  passwd* found = nullptr;
  while (file && ::fgetpwent_r(file.get(), &entry, texts.data(), texts.size(), &found) == 0)
    if (found->pw_uid == uid) return std::string(found->pw_name) + " (" + number + ")";
  return number;
}

// Of a UNIX socket the process at the other end.
std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  ucred peer{};
  if (socklen_t length = sizeof peer;
      address.ss_family == AF_UNIX &&
      ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
    return "user " + user_words(peer.uid) + ", process " + std::to_string(peer.pid);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(six.sin6_port));
  }
  if (address.ss_family != AF_INET) return {};
  const auto& four = reinterpret_cast<const sockaddr_in&>(address);
  ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  return std::string(text.data()) + ":" + std::to_string(ntohs(four.sin_port));
}

using Guard = asio::executor_work_guard<asio::io_context::executor_type>;

}  // namespace

struct HttpServer::Impl {
  void make_room(Clock::duration silent_for);
  bool make_place();
  void trim();
  std::shared_ptr<Connection> most_silent(bool of_placed) const;
  void accept(int listener, HttpServer& server, HttpHandler& handler);

  std::shared_ptr<spdlog::logger> log;
  asio::io_context io{1}, desk_io{1};
  std::optional<asio::posix::stream_descriptor> door;  // the UNIX socket, where one is served
  asio::steady_timer door_again{io};
  asio::steady_timer first{io};  // has the loop open its descriptors now, while there are some
  Guard work = asio::make_work_guard(io), desk_work = asio::make_work_guard(desk_io);
  std::thread thread, desk;
  std::promise<void> desk_ended;
  std::future<void> desk_end = desk_ended.get_future();
  std::set<std::shared_ptr<Connection>> all;
  std::atomic<size_t> accepted{0};  // that wait for the thread
  size_t places = base::bounds::admin_connections_max, placed = 0;
  size_t queued = 0;        // at the desk
  size_t bodies_bytes = 0;  // of requests that are not answered
  Clock::time_point next_log{};
  bool trimming = false;
  bool stopping = false;
};

class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, int fd, HttpHandler& handler, net::TlsContext* tls)
      : server_(server),
        site_(handler),
        socket_(server.io, fd),
        stream_(net::Stream::accepted(fd, tls)),
        timer_(server.io),
        session_(base::bounds::admin_body_bytes_max) {
    session_.set_peer(peer_of(fd));
  }

  void start() {
    set_limit(request_limit);
    resume();
  }

  void close() {
    // The stream closes the descriptor.
    socket_.release();
    stream_.close();
    timer_.cancel();
    server_.placed -= static_cast<size_t>(std::exchange(placed_, false));
    const uint64_t body_bytes = std::exchange(body_bytes_, 0);
    server_.bodies_bytes -= body_bytes;
    // Once this has gone.
    if (body_bytes > large_bytes) asio::post(server_.io, [&server = server_] { server.trim(); });
    server_.all.erase(shared_from_this());
  }

  bool is_placed() const { return placed_; }
  bool is_at_desk() const { return at_desk_; }
  // Since when no byte has moved.
  Clock::time_point silent_since() const { return silent_since_; }

 private:
  void set_limit(std::chrono::seconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([self = weak_from_this()](error_code ec) {
      if (const auto connection = self.lock(); connection && !ec) connection->close();
    });
  }

  // Calls `then` when the socket can be read, or written.
  template <class Then>
  void await(bool writable, Then then) {
    using Wait = asio::posix::descriptor_base::wait_type;
    socket_.async_wait(writable ? Wait::wait_write : Wait::wait_read,
                       [self = shared_from_this(), then](error_code ec) {
                         if (!self->stream_.is_open()) return;
                         ec ? self->close() : then(*self);
                       });
  }

  void read() {
    const ssize_t n = stream_.read(buffer_.data(), buffer_.size());
    if (n < 0 && errno == EAGAIN)
      return await(stream_.read_wants_write(), [](Connection& self) { self.read(); });
    if (n <= 0) return close();
    silent_since_ = Clock::now();
    in_.append(buffer_.data(), static_cast<size_t>(n));
    // Not from here: what a client sends without end would be a recursion without end.
    asio::post(server_.io, [self = shared_from_this()] {
      if (self->stream_.is_open()) self->resume();
    });
  }

  void resume() {
    const bool had_begun = session_.has_begun();
    const auto [consumed, found] = session_.receive(in_);
    in_.erase(0, consumed);
    if (!had_begun && session_.has_begun()) set_limit(request_limit);
    switch (found) {
      case wire::HttpSession::Found::nothing:
        return read();
      case wire::HttpSession::Found::head:
        if (auto refusal = refuse()) return respond(*refusal, true);
        if (!session_.awaits_go_ahead()) return resume();
        out_.clear();
        wire::HttpSession::append_go_ahead(out_);
        return write(true);
      case wire::HttpSession::Found::broken:
        return respond(site_.problem(session_.refusal_status(), session_.refusal()), true);
      case wire::HttpSession::Found::request:
        timer_.cancel();
        if (auto refusal = refuse()) return respond(*refusal, false);
        if (!site_.is_slow(session_.request()))
          return respond(site_.answer(session_.request()), false);
        return ask_desk();
    }
  }

  // Once its head is there, and again with its body.
  std::optional<wire::HttpResponse> refuse() {
    const wire::HttpRequest& request = session_.request();
    if (auto refusal = site_.refuse(request)) return refusal;
    if (!placed_ && !site_.is_health(request)) {
      if (!server_.make_place())
        return site_.problem(503, "too many connections are open; try later");
      placed_ = true;
      ++server_.placed;
    }
    if (body_bytes_ == request.body_bytes) return {};
    if (server_.bodies_bytes + request.body_bytes > base::bounds::admin_bodies_bytes_max)
      return site_.problem(503, "too many large requests are under way; try later");
    body_bytes_ = request.body_bytes;
    server_.bodies_bytes += body_bytes_;
    return {};
  }

  void ask_desk() {
    if (server_.queued >= base::bounds::admin_queued_max)
      return respond(site_.problem(503, "too many such requests are queued; try later"), false);
    ++server_.queued;
    at_desk_ = true;
    asio::post(server_.desk_io, [self = shared_from_this()] {
      auto response = self->site_.answer(self->session_.request());
      asio::post(self->server_.io, [self, response = std::move(response)] {
        --self->server_.queued;
        self->at_desk_ = false;
        if (self->stream_.is_open()) self->respond(response, false);
      });
    });
  }

  void respond(const wire::HttpResponse& response, bool last) {
    out_.clear();
    const bool goes_on = session_.reply(response, last || server_.stopping, out_);
    const uint64_t body_bytes = std::exchange(body_bytes_, 0);
    server_.bodies_bytes -= body_bytes;
    large_ = std::max<uint64_t>(body_bytes, out_.size()) > large_bytes;
    release(in_);
    write(goes_on);
  }

  void write(bool goes_on) {
    set_limit(response_limit);
    silent_since_ = Clock::now();
    written_ = 0;
    write_on(goes_on);
  }

  void write_on(bool goes_on) {
    while (written_ < out_.size()) {
      const ssize_t n = stream_.write(std::string_view(out_).substr(written_, write_bytes));
      if (n < 0 && errno == EAGAIN)
        return await(!stream_.write_wants_read(),
                     [goes_on](Connection& self) { self.write_on(goes_on); });
      if (n < 0) return close();
      written_ += static_cast<size_t>(n);
      silent_since_ = Clock::now();
      if (written_ < out_.size())  // others in between
        return await(true, [goes_on](Connection& self) { self.write_on(goes_on); });
    }
    out_.clear();
    release(out_);
    if (std::exchange(large_, false)) server_.trim();
    if (!goes_on) return end();
    set_limit(session_.has_begun() ? request_limit : idle_limit);
    asio::post(server_.io, [self = shared_from_this()] {
      if (self->stream_.is_open()) self->resume();
    });
  }

  void end() {
    stream_.end();
    set_limit(linger_limit);
    drain();
  }

  void drain() {
    // Once for each wait, as a client may send without a pause.
    const ssize_t n = stream_.discard(buffer_.data(), buffer_.size());
    if (n == 0 || (n < 0 && errno != EAGAIN)) return close();
    await(false, [](Connection& self) { self.drain(); });
  }

  Impl& server_;
  HttpHandler& site_;
  asio::posix::stream_descriptor socket_;  // for waits alone; the stream owns the descriptor
  net::Stream stream_;
  asio::steady_timer timer_;
  wire::HttpSession session_;
  std::array<char, read_bytes> buffer_{};
  std::string in_, out_;
  Clock::time_point silent_since_ = Clock::now();
  uint64_t body_bytes_ = 0;  // of the request that is not answered
  size_t written_ = 0;       // of out_
  bool placed_ = false, at_desk_ = false, large_ = false;
};

// Null: there is none, or all have answers made for them.
std::shared_ptr<HttpServer::Connection> HttpServer::Impl::most_silent(bool of_placed) const {
  std::shared_ptr<Connection> most;
  for (const auto& one : all) {
    if (one->is_at_desk() || (of_placed && !one->is_placed())) continue;
    if (most == nullptr || one->silent_since() < most->silent_since()) most = one;
  }
  return most;
}

void HttpServer::Impl::make_room(Clock::duration silent_for) {
  const auto most = most_silent(false);
  if (most != nullptr && Clock::now() - most->silent_since() >= silent_for) most->close();
}

// For one that has none yet.
bool HttpServer::Impl::make_place() {
  if (placed < places) return true;
  const auto most = most_silent(true);
  if (most == nullptr) return false;
  most->close();
  return true;
}

// What a large request or answer took of the allocator's memory goes back to the system. On the
// second thread, as it takes milliseconds.
void HttpServer::Impl::trim() {
  if (std::exchange(trimming, true)) return;
  asio::post(desk_io, [this] {
    ::malloc_trim(0);
    asio::post(io, [this] { trimming = false; });
  });
}

HttpServer::HttpServer(std::shared_ptr<spdlog::logger> log) : impl_(std::make_unique<Impl>()) {
  impl_->log = std::move(log);
}

HttpServer::~HttpServer() {
  if (!stop() || impl_->desk.joinable()) impl_->desk.join();
}

void HttpServer::start(size_t places) {
  impl_->places = places;
  const auto run = [](asio::io_context& io) {
    const auto self = static_cast<id_t>(gettid());
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
    io.run();
  };
  impl_->thread = std::thread([this, run] { run(impl_->io); });
  impl_->desk = std::thread([this, run] {
    run(impl_->desk_io);
    impl_->desk_ended.set_value();
  });
}

bool HttpServer::has_room() const {
  return impl_->accepted.load(std::memory_order_relaxed) < base::bounds::admin_accepted_max;
}

void HttpServer::make_room() {
  asio::post(impl_->io, [this] { impl_->make_room(first_words_limit); });
}

void HttpServer::adopt(int fd, HttpHandler& handler, std::shared_ptr<net::TlsContext> tls) {
  impl_->accepted.fetch_add(1, std::memory_order_relaxed);
  asio::post(impl_->io, [this, fd, &handler, tls = std::move(tls)] {
    auto& s = *impl_;
    s.accepted.fetch_sub(1, std::memory_order_relaxed);
    const size_t room = s.places + base::bounds::admin_health_connections_max;
    if (!s.stopping && s.all.size() >= room) {
      const auto now = Clock::now();
      if (now >= s.next_log) {
        s.next_log = now + log_period;
        s.log->warn(
            "{} connections are open; for another one that which has been silent longest is closed",
            room);
      }
      s.make_room({});
    }
    if (s.stopping || s.all.size() >= room) {
      ::close(fd);
      return;
    }
    try {
      auto connection = std::make_shared<Connection>(s, fd, handler, tls.get());
      s.all.insert(connection);
      connection->start();
    } catch (const boost::system::system_error& e) {  // no memory in the kernel to watch it
      s.log->warn("admin: a connection is lost: {}", e.what());
      ::close(fd);
    }
  });
}

// Where there is no room, or no descriptor, those that come wait in the kernel's queue.
void HttpServer::Impl::accept(int listener, HttpServer& server, HttpHandler& handler) {
  if (stopping) return;
  const auto again = [this, listener, &server, &handler](error_code ec) {
    if (!ec) accept(listener, server, handler);
  };
  for (bool there = true; there && server.has_room();) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    there = fd >= 0;
    if (there) server.adopt(fd, handler);
  }
  const bool waits = errno == EAGAIN && server.has_room();
  if (waits) return door->async_wait(asio::posix::stream_descriptor::wait_read, again);
  door_again.expires_after(accept_pause);
  door_again.async_wait(again);
}

void HttpServer::serve(int listener, HttpHandler& handler) {
  asio::post(impl_->io, [this, listener, &handler] {
    const int fd = ::fcntl(listener, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      impl_->log->warn("admin: the UNIX socket is not served: no descriptor is left");
      return;
    }
    impl_->door.emplace(impl_->io, fd);
    impl_->accept(listener, *this, handler);
  });
}

bool HttpServer::stop(std::chrono::milliseconds limit) {
  auto& s = *impl_;
  if (!s.thread.joinable()) return true;
  s.desk_work.reset();
  s.desk_io.stop();
  const bool in_time = s.desk_end.wait_for(limit) == std::future_status::ready;
  if (in_time)
    s.desk.join();
  else
    s.log->error("admin: an answer is not made within {} ms", limit.count());
  asio::post(s.io, [&s] {
    s.stopping = true;
    s.door.reset();
    s.door_again.cancel();
    while (!s.all.empty()) {
      const auto connection = *s.all.begin();
      connection->close();
    }
    s.work.reset();
  });
  s.thread.join();
  return in_time;
}

}  // namespace sluice::admin
