// A worker over socket pairs for tests, with its rules, and the client's ends.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/lists.h"
#include "protocol/divvy/rules.h"
#include "protocol/limitd/rules.h"
#include "request/space.h"
#include "server/worker.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"
#include "tests/support/patience.h"

namespace sluice::server {

// Counts charges; before the `at`th it calls `ask`. `between`: how many were decided from then to
// the charge of `single`.
class Counting final : public store::tests::Forwarding {
 public:
  explicit Counting(store::Store& inner) : Forwarding(inner) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    for (const request::Charge& charge : batch.charges) {
      if (charge.key == "single") between.set_value(decided_ - asked_at_);
      if (++decided_ != at) continue;
      asked_at_ = decided_;
      ask();
    }
    return inner_.apply(batch, now, completions, pin, ticket);
  }

  size_t at = 0;
  std::function<void()> ask;
  std::promise<size_t> between;

 private:
  size_t decided_ = 0, asked_at_ = 0;
};

// How far the wall clock is set forward, in microseconds.
inline std::atomic<int64_t> set_forward_us{0};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    divvy::read_divvy("[default]\ncreditLimit = 100000000\nresetSeconds = 600\nactorField = ip\n",
                      divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "test.ini", spaces,
                      *rules, diagnostics);
    const limitd::NamedText hourly{
        "test.yaml", "db: { inMemory: true }\nbuckets: { hourly: { size: 1, per_hour: 1 } }\n"};
    limitd::LimitdConfig config;
    limitd::read_limitd({&hourly, 1}, {}, spaces, *rules, config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    worker = std::make_unique<Worker>(store, clock, *live, scanner,
                                      Worker::Watch{.stats = stats, .denials = denials},
                                      Worker::Matching{}, log);
  }
  ~World() {
    if (started) worker->stop(std::chrono::milliseconds(0));
    worker->join();
    for (const int fd : clients) ::close(fd);
  }
  // Connects a client; returns its end.
  int client(const net::Timeouts& timeouts = {},
             protocol::Protocol protocol = protocol::find("divvy").value(),
             std::optional<int> kernel_bytes = {}, std::shared_ptr<net::TlsContext> tls = {}) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    if (kernel_bytes)
      ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &*kernel_bytes, sizeof *kernel_bytes);
    worker->adopt(ends[0], {protocol, timeouts, std::move(tls)}, "");
    clients.push_back(ends[1]);
    return ends[1];
  }
  void start() {
    started = true;
    worker->start([] {});
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{base::Clock::system().monotonic_us,
                     [] { return base::Clock::system().wall_us() + set_forward_us; }}};
  store::EmbeddedStore table{size_t{64} << 20, base::Hash(1), spaces};
  Counting store{table};
  std::unique_ptr<live::Live> live;
  std::atomic<uint64_t> order{0};
  engine::WorkerStats stats{order, {}};
  engine::DenialSampler denials;
  std::vector<int> clients;
  bool started = false;
  std::unique_ptr<Worker> worker;
  engine::TableScanner scanner{store};
};

inline void send(int fd, std::string_view text) {
  EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Reads until `done` accepts all that was read, or to the end of the connection or the deadline.
template <class Done>
std::string read_until(int fd, Done&& done) {
  std::string all;
  const auto deadline = tests::soon();
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0) return all + "(end)";
    if (n > 0) all.append(buffer, static_cast<size_t>(n));
    if (n > 0 && done(all)) return all;
    pollfd wanted{fd, POLLIN, 0};
    if (std::chrono::steady_clock::now() > deadline) return all + "(late)";
    if (n < 0) ::poll(&wanted, 1, 100);
  }
}

inline std::string read_until(int fd, const char* end) {
  return read_until(fd, [end](const std::string& all) { return all.ends_with(end); });
}

}  // namespace sluice::server
