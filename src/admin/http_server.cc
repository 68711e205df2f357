#include "admin/http_server.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/user_names.h"
#include "base/bounds.h"
#include "base/printable.h"
#include "net/event_loop.h"
#include "net/socket_address.h"
#include "net/stream.h"

namespace sluice::admin {

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

// Of a UNIX socket the process at the other end.
std::string peer_of(int fd) {
  static UserNames users;
  if (const auto address = net::SocketAddress::peer(fd)) return address->unmapped().text();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  return "user " + users.words(peer.uid) + ", process " + std::to_string(peer.pid);
}

}  // namespace

// Accepts clients of the UNIX socket. While the server has no room or the process no descriptor,
// new clients wait in the kernel's queue.
class HttpServer::Door final : public net::Watcher {
 public:
  Door(net::EventLoop& loop, int listener, HttpServer& server, HttpHandler& handler)
      : listener_(listener),
        server_(server),
        handler_(handler),
        again_(loop, [this] { accept(); }) {}

  void on_ready(bool /*readable*/, bool /*writable*/, bool /*ended*/) override { accept(); }

 private:
  void accept() {
    while (server_.has_room()) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && errno == EAGAIN) return;
      if (fd < 0) break;
      server_.adopt(fd, handler_);
    }
    again_.set_after(accept_pause);
  }

  const int listener_;
  HttpServer& server_;
  HttpHandler& handler_;
  net::Timer again_;
};

struct HttpServer::Impl {
  void make_room(Clock::duration silent_for);
  bool make_place();
  void trim();
  std::shared_ptr<Connection> most_silent(bool of_placed) const;

  std::shared_ptr<spdlog::logger> log;
  net::EventLoop loop, desk_loop;
  std::optional<Door> door;
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

class HttpServer::Connection final : public net::EventLoop::SocketOwner,
                                     public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, int fd, HttpHandler& handler, net::TlsContext* tls)
      : server_(server),
        site_(handler),
        stream_(net::Stream::accepted(fd, tls)),
        timer_(server.loop,
               [this] {
                 const auto self = shared_from_this();
                 close();
               }),
        session_(base::bounds::admin_body_bytes_max) {
    session_.set_peer(peer_of(fd));
  }

  // False: the system refuses to watch the socket (errno).
  bool start() {
    if (!server_.loop.watch(stream_.fd(), *this)) return false;
    timer_.set_after(request_limit);
    resume();
    return true;
  }

  void on_ready(bool /*readable*/, bool /*writable*/, bool /*ended*/) override { go_on(); }
  void on_turn() override { go_on(); }

  void close() {
    server_.loop.remove(*this);
    stream_.close();
    timer_.cancel();
    server_.placed -= static_cast<size_t>(std::exchange(placed_, false));
    const uint64_t body_bytes = std::exchange(body_bytes_, 0);
    server_.bodies_bytes -= body_bytes;
    // Once this has gone.
    if (body_bytes > large_bytes) server_.loop.post([&server = server_] { server.trim(); });
    server_.all.erase(shared_from_this());
  }

  bool is_placed() const { return placed_; }
  bool is_at_desk() const { return at_desk_; }
  // Since when no byte has moved.
  Clock::time_point silent_since() const { return silent_since_; }

 private:
  // What is done next, which may also be done too early.
  using Step = void (Connection::*)();

  void go_on() {
    const auto self = shared_from_this();
    if (const Step next = std::exchange(next_, nullptr); next != nullptr) (this->*next)();
  }

  // When the socket is ready again, which a call has found that it is not.
  void await(Step next) { next_ = next; }

  // After others had their turn. Not from here: what a client sends without end would be a
  // recursion without end.
  void later(Step next) {
    next_ = next;
    server_.loop.again(*this);
  }

  void read() {
    const ssize_t n = stream_.read(buffer_.data(), buffer_.size());
    if (n < 0 && errno == EAGAIN) return await(&Connection::read);
    if (n <= 0) return close();
    silent_since_ = Clock::now();
    note_certificate();
    in_.append(buffer_.data(), static_cast<size_t>(n));
    later(&Connection::resume);
  }

  // With the first bytes behind the handshake.
  void note_certificate() {
    if (std::exchange(has_spoken_, true)) return;
    if (const std::string name = stream_.peer_name(); !name.empty())
      session_.set_peer(peer_of(stream_.fd()) + ", certificate " + base::printable(name));
  }

  void resume() {
    const bool had_begun = session_.has_begun();
    const auto [consumed, found] = session_.receive(in_);
    in_.erase(0, consumed);
    if (!had_begun && session_.has_begun()) timer_.set_after(request_limit);
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
    server_.desk_loop.post([self = shared_from_this()] {
      auto response = self->site_.answer(self->session_.request());
      self->server_.loop.post([self, response = std::move(response)] {
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
    goes_on_ = goes_on;
    timer_.set_after(response_limit);
    silent_since_ = Clock::now();
    written_ = 0;
    write_on();
  }

  void write_on() {
    while (written_ < out_.size()) {
      const ssize_t n = stream_.write(std::string_view(out_).substr(written_, write_bytes));
      if (n < 0 && errno == EAGAIN) return await(&Connection::write_on);
      if (n < 0) return close();
      written_ += static_cast<size_t>(n);
      silent_since_ = Clock::now();
      if (written_ < out_.size()) return later(&Connection::write_on);
    }
    out_.clear();
    release(out_);
    if (std::exchange(large_, false)) server_.trim();
    if (!goes_on_) return end();
    timer_.set_after(session_.has_begun() ? request_limit : idle_limit);
    later(&Connection::resume);
  }

  void end() {
    stream_.end();
    timer_.set_after(linger_limit);
    drain();
  }

  void drain() {
    // Once a turn, as a client may send without a pause.
    const ssize_t n = stream_.discard(buffer_.data(), buffer_.size());
    if (n == 0 || (n < 0 && errno != EAGAIN)) return close();
    n < 0 ? await(&Connection::drain) : later(&Connection::drain);
  }

  Impl& server_;
  HttpHandler& site_;
  net::Stream stream_;
  net::Timer timer_;
  wire::HttpSession session_;
  std::array<char, read_bytes> buffer_{};
  std::string in_, out_;
  Clock::time_point silent_since_ = Clock::now();
  uint64_t body_bytes_ = 0;  // of the request that is not answered
  size_t written_ = 0;       // of out_
  Step next_ = nullptr;
  bool placed_ = false, at_desk_ = false, large_ = false;
  bool has_spoken_ = false;  // bytes have arrived
  bool goes_on_ = false;     // once out_ is written
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
  desk_loop.post([this] {
    ::malloc_trim(0);
    loop.post([this] { trimming = false; });
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
  const auto run = [](net::EventLoop& loop) {
    const auto self = static_cast<id_t>(gettid());
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + niceness);
    loop.run();
  };
  impl_->thread = std::thread([this, run] { run(impl_->loop); });
  impl_->desk = std::thread([this, run] {
    run(impl_->desk_loop);
    impl_->desk_ended.set_value();
  });
}

bool HttpServer::has_room() const {
  return impl_->accepted.load(std::memory_order_relaxed) < base::bounds::admin_accepted_max;
}

void HttpServer::make_room() {
  impl_->loop.post([this] { impl_->make_room(first_words_limit); });
}

void HttpServer::adopt(int fd, HttpHandler& handler, std::shared_ptr<net::TlsContext> tls) {
  impl_->accepted.fetch_add(1, std::memory_order_relaxed);
  impl_->loop.post([this, fd, &handler, tls = std::move(tls)] {
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
    const auto connection = std::make_shared<Connection>(s, fd, handler, tls.get());
    s.all.insert(connection);
    if (connection->start()) return;
    s.log->warn("admin: a connection is lost: {}", std::generic_category().message(errno));
    connection->close();
  });
}

void HttpServer::serve(int listener, HttpHandler& handler) {
  impl_->loop.post([this, listener, &handler] {
    auto& s = *impl_;
    s.door.emplace(s.loop, listener, *this, handler);
    if (!s.loop.watch(listener, *s.door))
      s.log->warn("admin: the UNIX socket is not served: {}",
                  std::generic_category().message(errno));
  });
}

bool HttpServer::stop(std::chrono::milliseconds limit) {
  auto& s = *impl_;
  if (!s.thread.joinable()) return true;
  s.desk_loop.stop();
  const bool in_time = s.desk_end.wait_for(limit) == std::future_status::ready;
  if (in_time)
    s.desk.join();
  else
    s.log->error("admin: an answer is not made within {} ms", limit.count());
  s.loop.post([&s] {
    s.stopping = true;
    while (!s.all.empty()) {
      const auto connection = *s.all.begin();
      connection->close();
    }
    s.loop.stop();
  });
  s.thread.join();
  return in_time;
}

}  // namespace sluice::admin
