#include "redis/blocking_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/printable.h"
#include "redis/errors.h"
#include "redis/script_call.h"

namespace sluice::redis {

namespace {

// How often a wait checks for a stop.
constexpr std::chrono::milliseconds look_up_every{50};
constexpr size_t told_bytes_max = 256;
// Room for a reply with a thousand keys, some of which are long.
constexpr size_t reply_bytes_max = size_t{256} << 20;

}  // namespace

void FreeReply::operator()(redisReply* reply) const {
  freeReplyObject(reply);
}

void BlockingConnection::FreeReader::operator()(redisReader* reader) const {
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

int64_t number_of(const redisReply& reply) {
  const std::string_view text = text_of(reply);
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

BlockingConnection::BlockingConnection(const std::atomic<bool>* stop)
    : stop_(stop), reader_(redisReaderCreate()) {}

BlockingConnection::~BlockingConnection() = default;

Answer BlockingConnection::lost(const std::string& why) {
  const bool by_tls = stream_.fault() != net::TlsFault::none;
  problem_ = "Redis at " + name_ + ": " + (by_tls ? problem_of(stream_, 0) : why);
  return nullptr;
}

bool BlockingConnection::await(bool writable) {
  for (;;) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - Clock::now());
    if (left.count() <= 0) return false;
    pollfd poll{.fd = stream_.fd(),
                .events = static_cast<short>(writable ? POLLOUT : POLLIN),
                .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::min(left, look_up_every).count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool BlockingConnection::write_some(std::string_view& text) {
  for (;;) {
    const ssize_t done = stream_.write(text);
    if (done > 0) {
      text.remove_prefix(static_cast<size_t>(done));
      return true;
    }
    if (done == 0 || errno != EAGAIN || !await(!stream_.write_wants_read())) return false;
  }
}

bool BlockingConnection::read_some(char* to, size_t room, size_t& got) {
  for (;;) {
    const ssize_t done = stream_.read(to, room);
    got = done > 0 ? static_cast<size_t>(done) : 0;
    if (got > 0) return true;
    if (done == 0 || errno != EAGAIN || !await(stream_.read_wants_write())) return false;
  }
}

bool BlockingConnection::open(const Options& options, net::TlsContext* tls,
                              const net::Address& address) {
  const Node& node = options.nodes[address.node];
  name_ = name_of(node);
  const auto failed = [this](int error) {
    lost(error == 0 ? "it does not answer"
                    : std::string("cannot connect: ") + std::strerror(error));
    return false;
  };
  patience_ = std::chrono::microseconds(options.patience.us);
  due_ = Clock::now() + patience_;
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed(errno);
  stream_ = net::Stream::connecting(fd, tls, node.host);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
      errno != EINPROGRESS)
    return failed(errno);
  int error = 0;
  socklen_t size = sizeof error;
  if (!await(true)) return failed(0);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return failed(error);
  if (!options.username.empty()) {
    if (!greet({"AUTH", options.username, options.password})) return false;
  } else if (!options.password.empty()) {
    if (!greet({"AUTH", options.password})) return false;
  }
  return options.database == 0 || greet({"SELECT", std::to_string(options.database)});
}

bool BlockingConnection::greet(std::initializer_list<std::string_view> words) {
  const Answer answer = ask(words);
  if (answer && is_error(answer)) {
    refusal_ = base::printable(text_of(*answer), told_bytes_max);
    lost("it does not let us in: " + refusal_);
  }
  return !is_error(answer);
}

Answer BlockingConnection::ask(std::span<const std::string_view> words) {
  due_ = Clock::now() + patience_;
  std::string out;
  append_array(out, words.size());
  for (const std::string_view word : words) append_bulk(out, word);
  for (std::string_view rest = out; !rest.empty();)
    if (!write_some(rest)) return lost("the connection is lost, or it does not answer");
  return receive();
}

Answer BlockingConnection::next(std::chrono::milliseconds patience, bool& is_lost) {
  due_ = Clock::now() + patience;
  Answer answer = receive();
  is_lost = !answer && Clock::now() < due_;
  return answer;
}

Answer BlockingConnection::receive() {
  for (;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
      return lost("it does not speak Redis' protocol");
    if (reply != nullptr) return Answer(static_cast<redisReply*>(reply));
    char room[16 << 10];
    size_t got = 0;
    if (!read_some(room, sizeof room, got))
      return lost("the connection is lost, or it does not answer");
    if (reader_->len > reply_bytes_max) return lost("its answer is too long");
    redisReaderFeed(reader_.get(), room, got);
  }
}

}  // namespace sluice::redis
