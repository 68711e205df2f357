// A worker whose store answers later, and a connection with several batches under way.
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/table_scanner.h"
#include "policy/read/native.h"
#include "request/space.h"
#include "server/worker.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

// Says `later` of every batch the first time that it is asked about it, and names its ticket when
// the test says so.
class SlowStore final : public store::tests::Forwarding {
 public:
  explicit SlowStore(store::Store& inner) : Forwarding(inner) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    {
      const std::lock_guard lock(mutex_);
      if (!answered_.erase(key(ticket))) {
        waiting_.emplace(std::string(batch.charges.front().key), std::pair(completions, ticket));
        changed_.notify_all();
        return {0, true};
      }
    }
    if (!in_steps || batch.groups.size() == 1)
      return inner_.apply(batch, now, completions, pin, ticket);
    request::Batch one = batch;
    one.groups = one.groups.first(1);
    const store::Applied applied = inner_.apply(one, now, completions, pin, ticket);
    const std::lock_guard lock(mutex_);
    waiting_.emplace(std::string(batch.charges.front().key), std::pair(completions, ticket));
    changed_.notify_all();
    return {applied.settled, true};
  }
  void abandon(store::CompletionQueue& completions, request::Ticket ticket) override {
    {
      const std::lock_guard lock(mutex_);
      answered_.erase(key(ticket));
      std::erase_if(waiting_, [&](const auto& one) { return one.second.second == ticket; });
      ++abandoned_;
      changed_.notify_all();
    }
    inner_.abandon(completions, ticket);
  }

  std::atomic<bool> in_steps{false};  // it answers one group at a time

  // Lets the batch go on whose first charge is on that key.
  void answer(const std::string& first_key) {
    const std::lock_guard lock(mutex_);
    const auto at = waiting_.find(first_key);
    ASSERT_NE(at, waiting_.end());
    const auto [completions, ticket] = at->second;
    waiting_.erase(at);
    answered_.insert(key(ticket));
    completions->resume_batch(ticket);
  }
  std::vector<std::string> waiting() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [its, batch] : waiting_) keys.push_back(its);
    return keys;
  }
  // So many batches wait, or have been abandoned so far.
  bool await_waiting(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return waiting_.size() == count; });
  }
  bool await_abandoned(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return abandoned_ == count; });
  }

 private:
  static std::pair<uint32_t, uint32_t> key(request::Ticket t) { return {t.slot, t.generation}; }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::string, std::pair<store::CompletionQueue*, request::Ticket>> waiting_;
  std::set<std::pair<uint32_t, uint32_t>> answered_;
  size_t abandoned_ = 0;
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n- { name: all, match: { key: '*' }, actor: key, limit: { quota: 2, window: 1h, "
        "algorithm: fixed_window } }\n",
        "test.yaml", spaces, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    worker = std::make_unique<server::Worker>(
        store, clock, *live, scanner, server::Worker::Watch{.stats = stats, .denials = denials},
        nullptr, log);
    worker->start([] {});
  }
  ~World() {
    worker->stop(std::chrono::milliseconds(0));
    worker->join();
    for (const int fd : clients) ::close(fd);
  }
  int client(const char* protocol) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    worker->adopt(ends[0], {protocol::find(protocol).value(), {}}, "");
    clients.push_back(ends[1]);
    return ends[1];
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock;
  store::EmbeddedStore table{size_t{64} << 20, base::Hash(1), spaces};
  SlowStore store{table};
  std::unique_ptr<live::Live> live;
  std::atomic<uint64_t> order{0};
  engine::WorkerStats stats{order, {}};
  engine::DenialSampler denials;
  std::vector<int> clients;
  engine::TableScanner scanner{store};
  std::unique_ptr<server::Worker> worker;
};

void send(int fd, std::string_view text) {
  ASSERT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// What comes until it ends with `end`, or until the connection does.
std::string read_until(int fd, std::string_view end) {
  std::string all;
  const auto deadline = soon();
  while (!all.ends_with(end)) {
    pollfd wanted{fd, POLLIN, 0};
    if (std::chrono::steady_clock::now() > deadline) return all + "(late)";
    if (::poll(&wanted, 1, 100) == 0) continue;
    char buffer[4096];
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return all + "(end)";
    all.append(buffer, static_cast<size_t>(n));
  }
  return all;
}

TEST(Gather, RepliesLeaveInTheOrderOfTheStoresAnswers) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a b\n2 each c d\n3 all e\n");
  ASSERT_TRUE(world.store.await_waiting(3)) << "it is read on while the store has not answered";
  world.store.answer("c");
  EXPECT_EQ(read_until(client, "2 yes yes\n"), "hello\n2 yes yes\n");
  world.store.answer("e");
  EXPECT_EQ(read_until(client, "\n"), "3 yes\n");
  send(client, "4 each f f f\n");
  ASSERT_TRUE(world.store.await_waiting(2));
  world.store.answer("f");
  EXPECT_EQ(read_until(client, "\n"), "4 yes yes no\n");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "\n"), "1 yes\n");
}

TEST(Gather, RepliesKeepTheOrderWhereTheyMust) {
  World world;
  const int client = world.client("gather_in_order");
  send(client, "1 all a b\n2 each c d\n3 all e\n");
  for (const char* key : {"a", "c", "e"}) {
    ASSERT_TRUE(world.store.await_waiting(1));
    ASSERT_EQ(world.store.waiting(), std::vector<std::string>{key}) << "one batch at a time";
    world.store.answer(key);
  }
  EXPECT_EQ(read_until(client, "3 yes\n"), "hello\n1 yes\n2 yes yes\n3 yes\n");
}

TEST(Gather, TheFarewellComesBehindAllThatIsOwed) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n3 end\n4 all c\n");
  ASSERT_TRUE(world.store.await_waiting(2)) << "nothing behind the end is taken";
  world.store.answer("b");
  EXPECT_EQ(read_until(client, "2 yes\n"), "hello\n2 yes\n");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "1 yes\nfarewell\n(end)");
}

TEST(Gather, AClientThatSendsNoMoreHasAllItsReplies) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n");
  ASSERT_EQ(::shutdown(client, SHUT_WR), 0);
  ASSERT_TRUE(world.store.await_waiting(2));
  world.store.answer("b");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "hello\n2 yes\n1 yes\n(end)");
}

TEST(Gather, AStopAnswersWhatIsUnderWay) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n");
  ASSERT_TRUE(world.store.await_waiting(2));
  world.worker->stop(std::chrono::minutes(2));
  world.store.answer("b");
  world.store.answer("a");
  EXPECT_EQ(read_until(client, "(end)"), "hello\n2 yes\n1 yes\ngoodbye\n(end)");
}

TEST(Gather, AConnectionThatIsCutOffIsForgottenWithAllItsBatches) {
  World world;
  const int client = world.client("gather");
  send(client, "1 all a\n2 all b\n3 all c\n");
  ASSERT_TRUE(world.store.await_waiting(3));
  world.store.answer("b");
  ASSERT_EQ(read_until(client, "2 yes\n"), "hello\n2 yes\n");
  world.worker->stop(std::chrono::milliseconds(0));
  ASSERT_TRUE(world.store.await_abandoned(2));
  EXPECT_TRUE(world.store.waiting().empty());
}

// Past the bound the connection is not read, so that what waits for the store is bounded, and it
// goes on when there is room.
TEST(Gather, SoManyBatchesAreUnderWayAndNoMore) {
  constexpr size_t most = base::bounds::batches_per_connection_max;
  World world;
  const int client = world.client("gather"), other = world.client("gather");
  std::string text;
  for (size_t i = 0; i < 2 * most; ++i)
    text += std::to_string(i) + " all k" + std::to_string(i) + "\n";
  send(client, text);
  ASSERT_TRUE(world.store.await_waiting(most));
  // The worker has had another turn since: the first one has not been read on.
  send(other, "o all o\n");
  ASSERT_TRUE(world.store.await_waiting(most + 1));
  world.store.answer("o");
  EXPECT_EQ(read_until(other, "o yes\n"), "hello\no yes\n");
  EXPECT_EQ(world.store.waiting().size(), most);
  world.store.answer("k3");
  ASSERT_TRUE(world.store.await_waiting(most)) << "another one is taken in its place";
  std::set<std::string> left;
  for (size_t i = 0; i < 2 * most; ++i) left.insert("k" + std::to_string(i));
  left.erase("k3");
  while (!left.empty()) {
    ASSERT_TRUE(world.store.await_waiting(std::min(left.size(), most)));
    const std::string key = world.store.waiting().back();
    world.store.answer(key);
    left.erase(key);
  }
  std::string all;
  const auto lines = [&all] { return std::count(all.begin(), all.end(), '\n'); };
  while (lines() < ptrdiff_t{2 * most + 1} && !all.ends_with(")")) all += read_until(client, "\n");
  EXPECT_EQ(lines(), ptrdiff_t{2 * most + 1}) << all;
}

// Clients of both kinds whose lines come in pieces, and a store that answers in any order: each
// line has its reply, those of `gather_in_order` in order, and each key's two units are taken once.
TEST(Gather, NothingIsLostOrMixedUp) {
  std::mt19937 random(3);
  const auto dice = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  World world;
  world.store.in_steps = true;
  struct Client {
    int fd;
    bool in_order;
    std::string got;
    std::vector<std::string> ids, keys;
  };
  constexpr size_t lines = 40;
  std::vector<Client> clients;
  for (size_t i = 0; i < 6; ++i) {
    const bool in_order = i % 2 == 1;
    Client& client = clients.emplace_back(
        Client{world.client(in_order ? "gather_in_order" : "gather"), in_order, {}, {}, {}});
    std::string text;
    for (size_t line = 0; line < lines; ++line) {
      const std::string id = std::to_string(i) + "." + std::to_string(line);
      client.ids.push_back(id);
      // Of its own keys, each once: always yes.
      text += id + (dice(2) == 0 ? " all" : " each");
      for (size_t n = 1 + dice(3); n > 0; --n)
        text += " k" + id + "." + std::to_string(n) + std::string(dice(30) == 0 ? 3000 : 1, 'x');
      text += '\n';
    }
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t n = std::min(rest.size(), 1 + dice(2000));
      send(client.fd, rest.substr(0, n));
      rest.remove_prefix(n);
    }
  }
  const auto deadline = soon();
  const auto is_done = [](const Client& client) {
    return std::count(client.got.begin(), client.got.end(), '\n') == 1 + ptrdiff_t{lines};
  };
  while (!std::all_of(clients.begin(), clients.end(), is_done)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    const auto waiting = world.store.waiting();
    if (!waiting.empty()) world.store.answer(waiting[dice(waiting.size())]);
    for (Client& client : clients) {
      char buffer[4096];
      const ssize_t n = ::recv(client.fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) client.got.append(buffer, static_cast<size_t>(n));
    }
  }
  for (Client& client : clients) {
    EXPECT_EQ(client.got.find(" no"), std::string::npos);
    std::vector<std::string> ids;
    for (size_t at = client.got.find('\n') + 1; at < client.got.size();
         at = client.got.find('\n', at) + 1)
      ids.push_back(client.got.substr(at, client.got.find(' ', at) - at));
    if (!client.in_order) {
      std::sort(ids.begin(), ids.end());
      std::sort(client.ids.begin(), client.ids.end());
    }
    EXPECT_EQ(ids, client.ids);
  }
}

}  // namespace
}  // namespace sluice::tests
