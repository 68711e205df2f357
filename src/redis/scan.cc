#include "redis/scan.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "redis/asking.h"
#include "redis/link.h"
#include "redis/tls.h"

namespace sluice::redis {

namespace {

constexpr std::chrono::milliseconds patience{1000};
// Of keys, some of which are long.
constexpr size_t reply_bytes_max = size_t{256} << 20;

struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Answer = std::unique_ptr<redisReply, FreeReply>;

bool is_good(const Answer& answer) {
  return answer && answer->type != REDIS_REPLY_ERROR;
}

std::string why_bad(const Answer& answer) {
  if (!answer) return "the connection for it is lost, or silent";
  if (is_good(answer)) return "SCAN is answered as Redis does not";
  return {answer->str, static_cast<size_t>(answer->len)};
}

// A connection that asks one thing after another, and waits a second for each.
class Line {
 public:
  ~Line() {
    tls_.reset();
    if (fd_ >= 0) ::close(fd_);
  }
  // False: it does not come about, or does not let us in.
  bool open(const Options& options, TlsContext* tls, const Address& address);
  // Null: the connection is lost.
  Answer ask(std::initializer_list<std::string_view> words);

 private:
  using Clock = std::chrono::steady_clock;
  // Calls it until it is done, or its time is up. As the calls: what was done.
  template <class Call>
  ssize_t repeat(bool writes, Call&& call);
  bool await(bool writable);

  int fd_ = -1;
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<redisReader, FreeReader> reader_{redisReaderCreate()};
  Clock::time_point due_;
};

bool Line::await(bool writable) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - Clock::now());
  pollfd poll{.fd = fd_, .events = static_cast<short>(writable ? POLLOUT : POLLIN), .revents = 0};
  return left.count() > 0 && ::poll(&poll, 1, static_cast<int>(left.count())) > 0;
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

bool Line::open(const Options& options, TlsContext* tls, const Address& address) {
  due_ = Clock::now() + patience;
  fd_ = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return false;
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
      errno != EINPROGRESS)
    return false;
  int error = 0;
  socklen_t size = sizeof error;
  if (!await(true) || ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return false;
  if (tls != nullptr) tls_ = std::make_unique<Tls>(*tls, fd_, options.nodes[address.node].host);
  if (!options.username.empty()) {
    if (!is_good(ask({"AUTH", options.username, options.password}))) return false;
  } else if (!options.password.empty()) {
    if (!is_good(ask({"AUTH", options.password}))) return false;
  }
  if (options.database != 0 && !is_good(ask({"SELECT", std::to_string(options.database)})))
    return false;
  return true;
}

Answer Line::ask(std::initializer_list<std::string_view> words) {
  due_ = Clock::now() + patience;
  std::string out;
  append_array(out, words.size());
  for (const std::string_view word : words) append_bulk(out, word);
  for (size_t at = 0; at < out.size();) {
    const char* const from = out.data() + at;
    const size_t size = out.size() - at;
    const ssize_t done = repeat(true, [&] {
      return tls_ ? tls_->write(from, size) : ::send(fd_, from, size, MSG_NOSIGNAL);
    });
    if (done <= 0) return nullptr;
    at += static_cast<size_t>(done);
  }
  for (;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) return nullptr;
    if (reply != nullptr) return Answer(static_cast<redisReply*>(reply));
    char room[16 << 10];
    const ssize_t got = repeat(false, [&] {
      return tls_ ? tls_->read(room, sizeof room) : ::recv(fd_, room, sizeof room, 0);
    });
    if (got <= 0) return nullptr;
    if (reader_->len > reply_bytes_max) return nullptr;
    redisReaderFeed(reader_.get(), room, static_cast<size_t>(got));
  }
}

// As a pattern of SCAN that fits it alone.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^') out += '\\';
    out += c;
  }
  return out;
}

// The key as a counter's stored name; what Divvy shares has no prefix of ours.
std::string_view prefix_of(const Shared& shared, limit::Form form) {
  return form == limit::Form::own ? std::string_view(shared.options.key_prefix)
                                  : std::string_view();
}

// Asks node after node until one lets us in.
std::unique_ptr<Line> connected(Shared& shared) {
  for (const Address& address : shared.resolver.addresses()) {
    auto line = std::make_unique<Line>();
    if (line->open(shared.options, shared.tls.get(), address)) return line;
  }
  shared.tell(false, "a list is empty: no connection for it comes about");
  return nullptr;
}

enum class Passed : uint8_t { all, cut, failed };

// Calls `visit(key)` for the keys that fit the pattern, some of them more than once.
template <class Visit>
Passed pass(Shared& shared, Line& line, const std::string& pattern, size_t& seen, Visit&& visit) {
  constexpr size_t step = 1000;
  std::string cursor = "0";
  do {
    if (seen >= base::bounds::redis_scanned_max || shared.ending.load(std::memory_order_relaxed))
      return Passed::cut;
    const Answer answer =
        line.ask({"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(step)});
    if (!is_good(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
        answer->element[0]->type != REDIS_REPLY_STRING ||
        answer->element[1]->type != REDIS_REPLY_ARRAY) {
      shared.tell(false, "a list is cut short: " + why_bad(answer));
      return Passed::failed;
    }
    cursor.assign(answer->element[0]->str, static_cast<size_t>(answer->element[0]->len));
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      const redisReply& key = *keys.element[i];
      if (key.type != REDIS_REPLY_STRING) continue;
      visit(std::string_view(key.str, static_cast<size_t>(key.len)));
    }
    seen += step;
  } while (cursor != "0");
  return Passed::all;
}

}  // namespace

std::vector<std::string> scan(Shared& shared, const limit::Space& space, std::string_view prefix,
                              size_t max) {
  if (max == 0) return {};
  const std::unique_ptr<Line> line = connected(shared);
  if (!line) return {};
  const std::string head = std::string(prefix_of(shared, space.form)) + space.prefix;
  std::set<std::string, std::less<>> first;
  size_t seen = 0;
  pass(shared, *line, escaped(head) + escaped(prefix) + "*" + escaped(space.suffix), seen,
       [&](std::string_view key) {
         if (key.size() < head.size() + space.suffix.size()) return;
         first.emplace(key.substr(head.size(), key.size() - head.size() - space.suffix.size()));
         if (first.size() > max) first.erase(std::prev(first.end()));
       });
  return {first.begin(), first.end()};
}

store::Stored scan_stored(Shared& shared, const limit::SpaceIndex& spaces, std::string_view prefix,
                          std::string_view after, size_t max) {
  store::Stored stored;
  const std::unique_ptr<Line> line = connected(shared);
  if (!line) stored.failed = true;
  std::set<std::string, std::less<>> first;
  size_t seen = 0;
  for (const limit::Form form : {limit::Form::own, limit::Form::divvy}) {
    const auto wanted = spaces.by_id();
    const bool any = std::any_of(wanted.begin(), wanted.end(), [&](const limit::Space* space) {
      return space != nullptr && space->form == form;
    });
    if (!any || stored.failed || max == 0) continue;
    const std::string_view head = prefix_of(shared, form);
    const Passed passed =
        pass(shared, *line, escaped(head) + escaped(prefix) + "*", seen, [&](std::string_view key) {
          key.remove_prefix(head.size());
          if (key <= after || (first.size() == max && key >= *first.rbegin())) return;
          const auto found = spaces.find(key);
          if (!found || found->space->form != form) return;
          first.emplace(key);
          if (first.size() > max) first.erase(std::prev(first.end()));
        });
    stored.cut |= passed == Passed::cut;
    stored.failed |= passed == Passed::failed;
  }
  stored.keys.assign(first.begin(), first.end());
  return stored;
}

}  // namespace sluice::redis
