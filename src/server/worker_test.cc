// A worker over socket pairs: who has a turn when. What is counted is requests that are decided
// before another one is, not time.
#include "server/worker.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/machine.h"
#include "limit/space.h"
#include "policy/divvy.h"
#include "server/lister.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"
#include "tests/support/patience.h"

namespace sluice::server {
namespace {

// Counts what is decided; at the `at`th has somebody ask for `single`.
class Counting final : public store::tests::Forwarding {
 public:
  explicit Counting(store::Store& inner) : Forwarding(inner) {}

  store::Applied apply(const limit::Batch& batch, base::Time now, store::Port* port,
                       const store::Pin& pin, limit::Ticket ticket) override {
    for (const limit::Charge& charge : batch.charges) {
      if (charge.key == "single") between.set_value(decided_ - asked_at_);
      if (++decided_ != at) continue;
      asked_at_ = decided_;
      ask();
    }
    return inner_.apply(batch, now, port, pin, ticket);
  }

  size_t at = 0;
  std::function<void()> ask;
  std::promise<size_t> between;

 private:
  size_t decided_ = 0, asked_at_ = 0;
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_divvy("[default]\ncreditLimit = 100000000\nresetSeconds = 600\nactorField = ip\n",
                       policy::DivvyFormat::ini, policy::DivvyMatching::code, "test.ini", spaces,
                       *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live = std::make_unique<Live>(LivePolicy{std::move(rules)});
    worker =
        std::make_unique<Worker>(store, clock, *live, lister,
                                 Worker::Watch{.tally = tally, .denials = denials}, nullptr, log);
  }
  ~World() {
    if (started) worker->stop(std::chrono::milliseconds(0));
    worker->join();
    for (const int fd : clients) ::close(fd);
  }
  // The client's end.
  int client(const Timeouts& timeouts = {}) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    worker->adopt(ends[0], {Protocol::divvy, timeouts}, "");
    clients.push_back(ends[1]);
    return ends[1];
  }
  void start() {
    started = true;
    worker->start([] {});
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  limit::Spaces spaces;
  base::Clock clock;
  store::EmbeddedStore table{size_t{64} << 20, base::Hash(1), spaces};
  Counting store{table};
  std::unique_ptr<Live> live;
  std::atomic<uint64_t> order{0};
  Tally tally{order, {}};
  Denials denials;
  std::vector<int> clients;
  bool started = false;
  std::unique_ptr<Worker> worker;
  Lister lister{store};
};

void send(int fd, std::string_view text) {
  EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Whatever comes, until something does that ends with `end`; or the end of the connection.
std::string read_until(int fd, std::string_view end) {
  std::string all;
  const auto deadline = tests::soon();
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0) return all + "(end)";
    if (n > 0) all.append(buffer, static_cast<size_t>(n));
    if (n > 0 && all.ends_with(end)) return all;
    pollfd wanted{fd, POLLIN, 0};
    if (std::chrono::steady_clock::now() > deadline) return all + "(late)";
    if (n < 0) ::poll(&wanted, 1, 100);
  }
}

// Each client pipelines, behind one request that needs a buffer of that size.
class Turns : public testing::TestWithParam<size_t> {};

TEST_P(Turns, OneRequestWaitsForOneTurnAndNotForEverybodys) {
  constexpr size_t many = 300, each = 2'000;
  base::raise_open_files();
  World w;
  const std::string first = GetParam() == 0 ? "" : "HIT ip=" + std::string(GetParam(), 'x') + "\n";
  std::string requests = first;
  for (size_t i = 0; i < each; ++i) requests += "HIT ip=1\n";
  for (size_t i = 0; i < many; ++i) send(w.client(), requests);
  const int single = w.client();
  w.store.at = 20'000;
  w.store.ask = [single] { send(single, "HIT ip=single\n"); };
  auto between = w.store.between.get_future();
  w.start();
  ASSERT_EQ(between.wait_until(tests::soon()), std::future_status::ready);
  EXPECT_LE(between.get(), 2 * base::bounds::turn_requests_max);
  EXPECT_EQ(read_until(single, "\n").substr(0, 8), "OK true ");
  // And each of the others is served to the end, in order.
  for (size_t i = 0; i < many; i += 50) {
    send(w.clients[i], "HIT ip=last" + std::to_string(i) + "\n");
    const std::string all = read_until(w.clients[i], "OK true 99999999 600\n");
    size_t lines = 0;
    for (const char c : all) lines += c == '\n';
    EXPECT_GE(lines, 1u);
    EXPECT_EQ(all.find("(late)"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, Turns, testing::Values(0, 5'000));

// Its half is in the way of nobody, and it hears why.
TEST(Worker, ARequestThatDoesNotArriveWholeInTimeIsEnded) {
  World w;
  const Timeouts brief{.request = base::milliseconds(100)};
  const int idle = w.client(brief), half = w.client(brief), patient = w.client();
  w.start();
  send(idle, "HIT ip=2\n");
  EXPECT_EQ(read_until(idle, "\n").substr(0, 8), "OK true ");
  send(patient, "HIT ip=");
  send(half, "HIT ip=3\nHIT ip=");
  const std::string all = read_until(half, "never");
  EXPECT_EQ(all.substr(0, 8), "OK true ");
  EXPECT_NE(all.find("\nERR Internal Error: the request did not arrive whole in time"),
            std::string::npos)
      << all;
  EXPECT_TRUE(all.ends_with("\n(end)")) << all;
  // Neither an idle connection nor one with a longer timeout is closed.
  send(idle, "HIT ip=2\n");
  EXPECT_EQ(read_until(idle, "\n").substr(0, 8), "OK true ");
  send(patient, "4\n");
  EXPECT_EQ(read_until(patient, "\n").substr(0, 8), "OK true ");
  const auto& of = w.tally.at(Protocol::divvy);
  EXPECT_EQ(of.closed_for[static_cast<size_t>(Closed::request_timeout)].read(), 1u);
}

TEST(Worker, AClientThatTakesNothingIsClosed) {
  World w;
  const Timeouts brief{.send = base::milliseconds(100)};
  const int silent = w.client(brief), other = w.client(brief);
  w.start();
  // Replies of which the socket takes a part only.
  std::string requests;
  for (int i = 0; i < 1'000; ++i) requests += "HIT ip=1\n";
  const auto deadline = tests::soon();
  const auto closed = [&] {
    return w.tally.at(Protocol::divvy).closed_for[static_cast<size_t>(Closed::send_timeout)].read();
  };
  size_t at = 0;
  while (closed() == 0 && std::chrono::steady_clock::now() < deadline) {
    const ssize_t n = ::send(silent, requests.data() + at, requests.size() - at, MSG_NOSIGNAL);
    if (n > 0) at = (at + static_cast<size_t>(n)) % requests.size();
    pollfd wanted{silent, POLLOUT, 0};
    if (n < 0) ::poll(&wanted, 1, 20);
  }
  EXPECT_EQ(closed(), 1u);
  while (w.worker->connections() != 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(w.worker->connections(), 1u);
  send(other, "HIT ip=2\n");
  EXPECT_EQ(read_until(other, "\n").substr(0, 8), "OK true ");
}

}  // namespace
}  // namespace sluice::server
