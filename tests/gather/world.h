// A worker with a store that answers when the test says so, and clients over socket pairs. The
// test's thread makes and uses it.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/lists.h"
#include "policy/overrides.h"
#include "policy/read/native.h"
#include "request/space.h"
#include "server/worker.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"
#include "tests/support/patience.h"

namespace sluice::tests {

// Suspends every batch at its first call, and resumes it when the test says so (`answer`).
class SlowStore final : public store::tests::Forwarding {
 public:
  explicit SlowStore(store::Store& inner) : Forwarding(inner) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    {
      const std::lock_guard lock(mutex_);
      if (!answered_.erase(key(ticket))) {
        names_[key(ticket)] = batch.charges.front().key;
        if (at_first) at_first();
        wait(completions, ticket);
        return {0, true};
      }
      changed_.notify_all();
    }
    if (!in_steps || batch.groups.size() == 1)
      return inner_.apply(batch, now, completions, pin, ticket);
    request::Batch one = batch;
    one.groups = one.groups.first(1);
    const store::Applied applied = inner_.apply(one, now, completions, pin, ticket);
    const std::lock_guard lock(mutex_);
    wait(completions, ticket);
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

  std::atomic<bool> in_steps{false};  // each answer settles one group only
  std::function<void()> at_first;     // called at each batch's first call

  // Resumes the batch whose first charge has that key.
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
  // Waits until `count` batches wait, or have been abandoned so far. False: not in time.
  bool await_waiting(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return waiting_.size() == count; });
  }
  // Waits until the worker has taken up every batch that was answered: one whose client is gone
  // before that is abandoned.
  bool await_resumed() {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return answered_.empty(); });
  }
  bool await_abandoned(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return abandoned_ == count; });
  }

 private:
  void wait(store::CompletionQueue* completions, request::Ticket ticket) {
    waiting_.emplace(names_.at(key(ticket)), std::pair(completions, ticket));
    changed_.notify_all();
  }
  static std::pair<uint32_t, uint32_t> key(request::Ticket t) { return {t.slot, t.generation}; }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::string, std::pair<store::CompletionQueue*, request::Ticket>> waiting_;
  std::map<std::pair<uint32_t, uint32_t>, std::string> names_;  // by ticket: the batch's first key
  std::set<std::pair<uint32_t, uint32_t>> answered_;
  size_t abandoned_ = 0;
};

struct World {
  static constexpr int64_t now_us = 1'800'000'000'000'000;

  World() {
    live = std::make_unique<live::Live>(policy(2));
    worker = std::make_unique<server::Worker>(
        store, clock, *live, scanner, server::Worker::Watch{.stats = stats, .denials = denials},
        server::Worker::Matching{.overrides = &overrides, .spaces = &spaces}, log);
    worker->start([] {});
  }
  ~World() {
    worker->stop(std::chrono::milliseconds(0));
    worker->join();
    for (const int fd : clients) ::close(fd);
  }
  // `send_bytes`: how many bytes of replies its socket takes unread; 0: the system's default.
  int client(const char* protocol, const net::Timeouts& timeouts = {}, int send_bytes = 0) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    if (send_bytes > 0) {
      EXPECT_EQ(::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes), 0);
    }
    worker->adopt(ends[0], {protocol::find(protocol).value(), timeouts}, "");
    clients.push_back(ends[1]);
    return ends[1];
  }

  // Closes a client.
  void close(int fd) {
    std::erase(clients, fd);
    ::close(fd);
  }
  // A policy in which every key has `quota` units an hour.
  live::LivePolicy policy(int64_t quota) {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native("rules:\n- { name: all, match: { key: '*' }, actor: key, limit: { quota: " +
                            std::to_string(quota) + ", window: 1h, algorithm: fixed_window } }\n",
                        "test.yaml", spaces, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    return live::LivePolicy{std::move(rules)};
  }
  // What is matched from now on has this quota.
  void reload(int64_t quota) {
    live->exchange(std::make_shared<const live::LivePolicy>(policy(quota)));
    worker->on_new_policy();
  }
  // `quota` 0: removes the key's override.
  void set_override(const std::string& key, int64_t quota) {
    const uint64_t rule = live->current()->rules->native_rules().front().id;
    const std::vector<std::string> actor{key};
    if (quota == 0) {
      EXPECT_TRUE(overrides.remove(rule, actor));
    } else {
      const limit::Limit limit{limit::Algorithm::fixed_window, quota, base::seconds(3600), quota};
      policy::Override one;
      one.rule = rule;
      one.actor = actor;
      one.terms.limits_id = spaces.intern_limits({&limit, 1});
      one.terms.limits = spaces.limits(one.terms.limits_id);
      one.terms.id = 1;
      EXPECT_TRUE(overrides.set(one));
    }
    worker->on_new_overrides();
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  policy::Overrides overrides;
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

inline void send(int fd, std::string_view text) {
  ASSERT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Reads until the text ends with `end`. Adds "(end)" at the end of the connection, "(late)" at the
// deadline.
inline std::string read_until(int fd, std::string_view end) {
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

}  // namespace sluice::tests
