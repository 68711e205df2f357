#include "redis/line.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/printable.h"
#include "redis/asking.h"

namespace sluice::redis {

namespace {

// How long a stop may have to wait.
constexpr std::chrono::milliseconds look_up_every{50};
constexpr size_t told_bytes_max = 256;
// Of a thousand keys, some of which are long.
constexpr size_t reply_bytes_max = size_t{256} << 20;

}  // namespace

void FreeReply::operator()(redisReply* reply) const {
  freeReplyObject(reply);
}

void Line::FreeReader::operator()(redisReader* reader) const {
  redisReaderFree(reader);
}

bool is_error(const Answer& answer) {
  return !answer || answer->type == REDIS_REPLY_ERROR;
}

std::string_view text_of(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_ERROR &&
      reply.type != REDIS_REPLY_STATUS)
    return {};
  return {reply.str, static_cast<size_t>(reply.len)};
}

Line::Line(const std::atomic<bool>* stop) : stop_(stop), reader_(redisReaderCreate()) {}

Line::~Line() {
  tls_.reset();
  if (fd_ >= 0) ::close(fd_);
}

Answer Line::lost(const std::string& why) {
  const std::string tls = tls_ && !tls_->problem().empty() ? tls_->problem() : why;
  problem_ = "Redis at " + name_ + ": " + tls;
  return nullptr;
}

bool Line::await(bool writable) {
  for (;;) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - Clock::now());
    if (left.count() <= 0) return false;
    pollfd poll{.fd = fd_, .events = static_cast<short>(writable ? POLLOUT : POLLIN), .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::min(left, look_up_every).count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

template <class Call>
ssize_t Line::repeat(bool writes, Call&& call) {
  for (;;) {
    const ssize_t done = call();
    if (done > 0) return done;
    if (done < 0 && errno == EINTR) continue;
    if (done == 0 || errno != EAGAIN || !await(tls_ ? tls_->wants_write() : writes)) return -1;
  }
}

bool Line::open(const Options& options, net::TlsContext* tls, const net::Address& address) {
  const Node& node = options.nodes[address.node];
  name_ = name_of(node);
  const auto failed = [this](int error) {
    lost(error == 0 ? "it does not answer"
                    : std::string("cannot connect: ") + std::strerror(error));
    return false;
  };
  patience_ = std::chrono::microseconds(options.patience.us);
  due_ = Clock::now() + patience_;
  fd_ = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return failed(errno);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
      errno != EINPROGRESS)
    return failed(errno);
  int error = 0;
  socklen_t size = sizeof error;
  if (!await(true)) return failed(0);
  if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return failed(error);
  if (tls != nullptr) tls_ = std::make_unique<net::Tls>(*tls, fd_, node.host);
  if (!options.username.empty()) {
    if (!greet({"AUTH", options.username, options.password})) return false;
  } else if (!options.password.empty()) {
    if (!greet({"AUTH", options.password})) return false;
  }
  return options.database == 0 || greet({"SELECT", std::to_string(options.database)});
}

bool Line::greet(std::initializer_list<std::string_view> words) {
  const Answer answer = ask(words);
  if (answer && is_error(answer))
    lost("it does not let us in: " + base::printable(text_of(*answer), told_bytes_max));
  return !is_error(answer);
}

Answer Line::ask(std::span<const std::string_view> words) {
  due_ = Clock::now() + patience_;
  std::string out;
  append_array(out, words.size());
  for (const std::string_view word : words) append_bulk(out, word);
  for (size_t at = 0; at < out.size();) {
    const char* const from = out.data() + at;
    const size_t size = out.size() - at;
    const ssize_t done = repeat(true, [&] {
      return tls_ ? tls_->write(from, size) : ::send(fd_, from, size, MSG_NOSIGNAL);
    });
    if (done <= 0) return lost("the connection is lost, or it does not answer");
    at += static_cast<size_t>(done);
  }
  for (;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
      return lost("it does not speak Redis' protocol");
    if (reply != nullptr) return Answer(static_cast<redisReply*>(reply));
    char room[16 << 10];
    const ssize_t got = repeat(false, [&] {
      return tls_ ? tls_->read(room, sizeof room) : ::recv(fd_, room, sizeof room, 0);
    });
    if (got <= 0) return lost("the connection is lost, or it does not answer");
    if (reader_->len > reply_bytes_max) return lost("its answer is too long");
    redisReaderFeed(reader_.get(), room, static_cast<size_t>(got));
  }
}

}  // namespace sluice::redis
