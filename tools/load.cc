// load: a load generator for the protocols that sluice speaks, on this machine. One thread keeps
// `depth` requests outstanding on each of `conns` connections; every reply makes room for the next.
// Prints one line of name=value pairs.
//
//   load --port P [--protocol NAME] [--conns C] [--depth D]
//        [--secs S] [--warmup S] [--keys N] [--pid PID] [--rate R] [--tls 1]
//       for S seconds, over N keys in random order. With --pid also the processor time (of all
//       threads of that process) for each reply, which unlike the rate does not depend on how fast
//       this generator is. With --rate so many requests a second at most, spread over the
//       connections and over time; latencies then count from when a request was due, so that a
//       server that stands still is not spared the requests that it held up.
//       With --tls the connections have TLS; the server's certificate is not verified.
//   load --port P [--protocol ...] [--conns C] [--depth D] --distinct N [--from M]
//       N requests in all, each for a key of its own: the 16-digit numbers from M on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "load_protocol.h"
#include "net/stream.h"
#include "net/tls.h"

namespace {

using Clock = std::chrono::steady_clock;
using Outcome = sluice::protocol::LoadOutcome;
using sluice::protocol::LoadClient;

constexpr size_t key_digits = 16;

struct Options {
  std::string_view protocol = sluice::tools::first_load_name();
  uint64_t port = 0;
  uint64_t conns = 50;
  uint64_t depth = 1;
  uint64_t secs = 3;
  uint64_t warmup = 1;
  uint64_t keys = 100'000;
  uint64_t pid = 0;
  uint64_t distinct = 0;
  uint64_t from = 0;
  uint64_t rate = 0;
  uint64_t tls = 0;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "load: %s\n", why.c_str());
  std::exit(1);
}

[[noreturn]] void fail_errno(const std::string& what) {
  fail(what + ": " + std::strerror(errno));
}

Options parse(int argc, char** argv) {
  Options options;
  const struct {
    std::string_view name;
    uint64_t& value;
  } known[] = {{"--port", options.port},     {"--conns", options.conns},
               {"--depth", options.depth},   {"--secs", options.secs},
               {"--warmup", options.warmup}, {"--keys", options.keys},
               {"--pid", options.pid},       {"--distinct", options.distinct},
               {"--from", options.from},     {"--rate", options.rate},
               {"--tls", options.tls}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view text = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--protocol") {
      options.protocol = text;
      continue;
    }
    const auto* option = std::find_if(std::begin(known), std::end(known),
                                      [&](const auto& o) { return o.name == name; });
    if (option == std::end(known)) fail("unknown option " + std::string(name));
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), option->value);
    if (error != std::errc{} || end != text.data() + text.size())
      fail(std::string(name) + " takes a number");
  }
  if (options.port == 0 || options.port > UINT16_MAX) fail("--port is needed");
  if (options.conns == 0 || options.depth == 0 || options.keys == 0 || options.secs == 0)
    fail("nothing to do");
  return options;
}

// The requests to send, one after the other.
class Requests {
 public:
  virtual ~Requests() = default;
  // Appends the next one. False when there is none left.
  virtual bool append_next(std::string& out) = 0;
};

// Endless requests for the keys 0 to keys - 1, each once a round, in an order drawn, and as bytes
// made, before the clock starts.
class RandomRequests final : public Requests {
 public:
  RandomRequests(LoadClient& protocol, uint64_t keys) {
    std::vector<uint64_t> order(keys);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    requests_.reserve(keys);
    for (const uint64_t key : order)
      protocol.append_request(std::to_string(key), requests_.emplace_back());
  }

  bool append_next(std::string& out) override {
    out += requests_[next_];
    if (++next_ == requests_.size()) next_ = 0;
    return true;
  }

 private:
  std::vector<std::string> requests_;
  size_t next_ = 0;
};

// `count` requests, each for a key of its own.
class DistinctRequests final : public Requests {
 public:
  DistinctRequests(LoadClient& protocol, uint64_t from, uint64_t count)
      : protocol_(protocol), next_(from), end_(from + count) {}

  bool append_next(std::string& out) override {
    if (next_ == end_) return false;
    uint64_t rest = next_++;
    std::array<char, key_digits> key{};
    for (size_t i = key.size(); i-- > 0; rest /= 10) key[i] = static_cast<char>('0' + rest % 10);
    protocol_.append_request({key.data(), key.size()}, out);
    return true;
  }

 private:
  LoadClient& protocol_;
  uint64_t next_;
  uint64_t end_;
};

// Nanoseconds that all threads of a process have run so far.
uint64_t processor_ns(uint64_t pid) {
  uint64_t sum = 0;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    uint64_t ran = 0;
    if (std::ifstream(thread.path() / "schedstat") >> ran) sum += ran;
  }
  if (error || sum == 0) fail("no processor time available of process " + std::to_string(pid));
  return sum;
}

struct Counts {
  uint64_t allowed = 0;
  uint64_t denied = 0;
  uint64_t errors = 0;

  uint64_t replies() const { return allowed + denied + errors; }
};

// An unanswered request.
struct Sent {
  uint64_t number = 0;  // of its connection's
  Clock::time_point at{};
};

struct Connection {
  sluice::net::Stream stream;
  std::unique_ptr<sluice::protocol::LoadConnection> protocol;
  std::string out;      // not yet written
  std::string partial;  // the beginning of a reply whose end has not come
  uint64_t requests = 0;
  size_t unanswered = 0;
  std::vector<Sent> sent;  // a ring
  size_t oldest = 0;
  bool wants_write = false;
};

class Generator {
 public:
  Generator(const Options& options, const LoadClient& protocol, Requests& requests)
      : options_(options), protocol_(protocol), requests_(requests) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) fail_errno("epoll_create1");
    if (options.tls > 0) {
      auto tls = sluice::net::TlsContext::open({.any_name = true});
      if (!tls) fail(tls.problem().text);
      tls_ = *std::move(tls);
    }
    connections_.resize(options.conns);
    for (uint64_t i = 0; i < options.conns; ++i) open(i);
  }

  // Asks until `done()`, itself asked after every round, is true or no request is left to send.
  template <typename Done>
  void run(Done done) {
    if (!started_) {
      started_ = true;
      const auto now = Clock::now();
      paced_from_ = now;
      for (uint64_t i = 0; i < connections_.size() && options_.rate == 0; ++i) {
        fill(connections_[i], now);
        flush(i);
      }
    }
    std::array<epoll_event, 256> events{};
    while ((unanswered_ > 0 || !all_sent_) && !done()) {
      const timespec patience = patience_of();
      const int ready =
          epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &patience, nullptr);
      if (ready == 0 && options_.rate == 0 && ++silent_seconds_ == 10)
        fail("no reply for 10 seconds");
      if (ready > 0) silent_seconds_ = 0;
      for (int i = 0; i < ready; ++i) {
        const auto& event = events[static_cast<size_t>(i)];
        if (event.events != EPOLLOUT) receive(event.data.u64);
        flush(event.data.u64);
      }
      if (options_.rate > 0) send_what_is_due();
    }
  }

  const Counts& counts() const { return counts_; }

  // Forgets what was counted and measured so far.
  void reset() {
    counts_ = {};
    latencies_us_.clear();
  }

  uint64_t latency_us(double quantile) {
    if (latencies_us_.empty()) return 0;
    const auto rank = static_cast<size_t>(quantile * static_cast<double>(latencies_us_.size() - 1));
    const auto at = latencies_us_.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(latencies_us_.begin(), at, latencies_us_.end());
    return *at;
  }

 private:
  void open(uint64_t index) {
    Connection& connection = connections_[index];
    connection.sent.resize(options_.depth);
    connection.protocol = protocol_.connect();
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(options_.port));
    if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      fail_errno("connect");
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection.stream = sluice::net::Stream::connecting(socket, tls_.get(), "localhost");
    if (!protocol_.greeting().empty()) greet(connection.stream);
    watch(index, EPOLL_CTL_ADD);
  }

  // Waits for the answer if there is one: no server says anything behind it before it is asked.
  static void greet_await(const sluice::net::Stream& stream, short events) {
    pollfd wanted{stream.fd(), events, 0};
    if (poll(&wanted, 1, 10'000) != 1) fail("no answer to the greeting for 10 seconds");
  }
  void greet(sluice::net::Stream& stream) {
    for (std::string_view greeting = protocol_.greeting(); !greeting.empty();) {
      const ssize_t sent = stream.write(greeting);
      if (sent < 0 && errno != EAGAIN) fail("send: " + stream.problem(errno));
      if (sent < 0) greet_await(stream, stream.write_wants_read() ? POLLIN : POLLOUT);
      if (sent > 0) greeting.remove_prefix(static_cast<size_t>(sent));
    }
    if (protocol_.welcome().empty()) return;
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      std::array<char, 1024> bytes{};
      const ssize_t got = stream.read(bytes.data(), bytes.size());
      if (got < 0 && errno == EAGAIN) {
        greet_await(stream, POLLIN);
        continue;
      }
      if (got < 0) fail("recv: " + stream.problem(errno));
      if (got == 0) fail("the server ends the connection: " + head);
      head.append(bytes.data(), static_cast<size_t>(got));
    }
    if (!head.starts_with("HTTP/1.1 101 ") || head.find(protocol_.welcome()) == std::string::npos)
      fail("the server does not welcome us: " + head);
  }

  void watch(uint64_t index, int operation) {
    epoll_event event{};
    event.events = connections_[index].wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u64 = index;
    if (epoll_ctl(epoll_, operation, connections_[index].stream.fd(), &event) != 0)
      fail_errno("epoll_ctl");
  }

  // At a rate it sleeps until more is due: it stands for clients elsewhere, which leave the
  // server its processors.
  timespec patience_of() const {
    if (options_.rate == 0 || has_no_room_) return {1, 0};
    const auto left = std::max<Clock::duration>(next_due() - Clock::now(), {});
    return {left / std::chrono::seconds(1),
            std::chrono::nanoseconds(left % std::chrono::seconds(1)).count()};
  }

  Clock::time_point next_due() const {
    return paced_from_ +
           std::chrono::nanoseconds((issued_ + options_.depth) * 1'000'000'000 / options_.rate);
  }

  // `depth` requests at a time, on one connection after the other; where none has room they stay
  // due.
  void send_what_is_due() {
    const auto now = Clock::now();
    has_no_room_ = false;
    for (;;) {
      const auto due = next_due();
      if (due > now) return;
      size_t tried = 0;
      while (connections_[turn_].unanswered > 0 ||
             !connections_[turn_].protocol->has_room(options_.depth)) {
        turn_ = (turn_ + 1) % connections_.size();
        if (++tried == connections_.size()) {
          has_no_room_ = true;
          return;
        }
      }
      for (uint64_t d = 0; d < options_.depth; ++d) add(connections_[turn_], due);
      flush(turn_);
      issued_ += options_.depth;
      turn_ = (turn_ + 1) % connections_.size();
    }
  }

  // False: there is no request left.
  bool add(Connection& connection, Clock::time_point now) {
    request_.clear();
    if (all_sent_ || !requests_.append_next(request_)) {
      all_sent_ = true;
      return false;
    }
    connection.protocol->append(request_, connection.out);
    connection.sent[(connection.oldest + connection.unanswered) % connection.sent.size()] = {
        connection.requests++, now};
    ++connection.unanswered;
    ++unanswered_;
    return true;
  }

  void fill(Connection& connection, Clock::time_point now) {
    while (connection.unanswered < options_.depth && connection.protocol->has_room(1) &&
           add(connection, now)) {
    }
  }

  void flush(uint64_t index) {
    Connection& connection = connections_[index];
    if (connection.out.empty()) return;
    const ssize_t wrote = connection.stream.write(connection.out);
    if (wrote < 0 && errno != EAGAIN) fail("send: " + connection.stream.problem(errno));
    if (wrote > 0) connection.out.erase(0, static_cast<size_t>(wrote));
    const bool wants_write = !connection.out.empty() && !connection.stream.write_wants_read();
    if (connection.wants_write != wants_write) {
      connection.wants_write = wants_write;
      watch(index, EPOLL_CTL_MOD);
    }
  }

  void receive(uint64_t index) {
    Connection& connection = connections_[index];
    static std::array<char, 64 << 10> bytes;
    for (bool more = true; more;) {
      const ssize_t got = connection.stream.read(bytes.data(), bytes.size());
      if (got < 0 && errno == EAGAIN) return;
      if (got < 0) fail("recv: " + connection.stream.problem(errno));
      receive(connection, {bytes.data(), static_cast<size_t>(got)});
      more = tls_ != nullptr;  // a read has one record of TLS
    }
  }

  void receive(Connection& connection, std::string_view got) {
    if (got.empty()) fail("the server closed a connection");

    const auto now = Clock::now();
    std::string_view text = got;
    if (!connection.partial.empty()) text = connection.partial.append(text);
    for (;;) {
      const auto read = connection.protocol->read(text, connection.out);
      if (read.bytes == 0) break;
      if (read.is_reply) settle(connection, read.request, read.outcome, now);
      text.remove_prefix(read.bytes);
    }
    if (options_.rate == 0) fill(connection, now);
    connection.partial = std::string(text);
  }

  void settle(Connection& connection, uint64_t request, Outcome outcome, Clock::time_point now) {
    // The oldest, unless replies overtake each other; then that takes its place.
    Sent& oldest = connection.sent[connection.oldest];
    size_t passed = 0;
    const auto at = [&]() -> Sent& {
      return connection.sent[(connection.oldest + passed) % connection.sent.size()];
    };
    while (passed < connection.unanswered && at().number != request) ++passed;
    if (passed == connection.unanswered) fail("a reply too many");
    std::swap(oldest, at());
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - oldest.at);
    connection.oldest = (connection.oldest + 1) % connection.sent.size();
    --connection.unanswered;
    --unanswered_;
    if (latencies_us_.size() < latencies_max)
      latencies_us_.push_back(static_cast<uint32_t>(took.count()));
    switch (outcome) {
      case Outcome::allowed:
        ++counts_.allowed;
        break;
      case Outcome::denied:
        ++counts_.denied;
        break;
      case Outcome::error:
        ++counts_.errors;
        break;
    }
  }

  static constexpr size_t latencies_max = 1 << 24;

  Options options_;
  const LoadClient& protocol_;
  Requests& requests_;
  std::unique_ptr<sluice::net::TlsContext> tls_;  // null: plain
  int epoll_ = -1;
  bool started_ = false;
  Clock::time_point paced_from_{};  // of --rate
  uint64_t issued_ = 0;
  size_t turn_ = 0;
  bool has_no_room_ = false;  // every connection has what is due before outstanding
  int silent_seconds_ = 0;
  std::string request_;    // the one that is being added
  bool all_sent_ = false;  // there is no request left
  uint64_t unanswered_ = 0;
  std::vector<Connection> connections_;
  std::vector<uint32_t> latencies_us_;
  Counts counts_;
};

void report(Generator& generator, Clock::duration took, uint64_t cpu_ns) {
  const Counts& counts = generator.counts();
  const auto replies = static_cast<double>(std::max<uint64_t>(counts.replies(), 1));
  std::printf(
      "replies=%lu allowed=%lu denied=%lu errors=%lu rate=%.0f p50_us=%lu p99_us=%lu p999_us=%lu "
      "cpu_ns=%.1f\n",
      counts.replies(), counts.allowed, counts.denied, counts.errors,
      replies / std::chrono::duration<double>(took).count(), generator.latency_us(0.5),
      generator.latency_us(0.99), generator.latency_us(0.999),
      static_cast<double>(cpu_ns) / replies);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto* const load = sluice::tools::find_load(options.protocol);
  if (load == nullptr) fail("--protocol takes " + sluice::tools::load_names(", "));
  const auto protocol = load->make_client();
  std::unique_ptr<Requests> requests;
  if (options.distinct > 0) {
    requests = std::make_unique<DistinctRequests>(*protocol, options.from, options.distinct);
  } else {
    requests = std::make_unique<RandomRequests>(*protocol, options.keys);
  }
  Generator generator(options, *protocol, *requests);

  auto start = Clock::now();
  if (options.distinct > 0) {
    generator.run([] { return false; });
    report(generator, Clock::now() - start, 0);
    return 0;
  }

  const auto until = [&start](uint64_t seconds) {
    return [end = start + std::chrono::seconds(seconds)] { return Clock::now() >= end; };
  };
  generator.run(until(options.warmup));
  generator.reset();
  start = Clock::now();
  const uint64_t cpu_ns = options.pid > 0 ? processor_ns(options.pid) : 0;
  generator.run(until(options.secs));
  report(generator, Clock::now() - start, options.pid > 0 ? processor_ns(options.pid) - cpu_ns : 0);
  return 0;
}
