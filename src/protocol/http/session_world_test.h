// For tests: the HTTP protocol without sockets, made of sessions, engine, rules and the table in
// memory. The test sets the clock, and can make the store answer late or fail. A test has one world
// at a time, on its own thread.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/hash.h"
#include "config/config.h"
#include "engine/engine.h"
#include "policy/overrides.h"
#include "policy/read/native.h"
#include "protocol/http/dialect.h"
#include "protocol/http/options.h"
#include "protocol/http/session.h"
#include "protocol/http/wait_count.h"
#include "protocol/http/worker_state.h"
#include "protocol/protocol.h"
#include "request/charge_ids.h"
#include "request/space.h"
#include "server/options.h"
#include "store/embedded_store.h"
#include "store/fallback.h"
#include "store/forwarding_test.h"
#include "store/holds.h"
#include "tests/support/patience.h"

namespace sluice::http::session_world {

inline constexpr int64_t second = 1'000'000;
inline int64_t now_us;    // the clock of the world
inline int64_t ahead_us;  // how far its wall clock is ahead of that

inline protocol::Protocol self() {
  return protocol::find("http").value();
}

// A store that can answer late: of a batch's groups it decides as many at once as `settles`
// returns, and the others after name() has resumed the batch.
class LateStore final : public store::tests::Forwarding {
 public:
  explicit LateStore(store::Store& inner) : Forwarding(inner) {}

  std::function<size_t(size_t)> settles = [](size_t all) { return all; };
  // The store fails: it reaches no counter.
  bool fails = false;
  size_t settled = 0;  // the groups that the table has settled
  // What the store knows of the ids of charges, as one that several servers share.
  std::function<request::Known(const request::ChargeId&)> knows{};

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    const size_t all = batch.groups.size();
    const bool may_be_late = ticket != request::no_ticket;
    const size_t count = may_be_late ? std::min(settles(all), all) : all;
    auto first = batch;
    first.groups = batch.groups.first(count);
    if (fails) return fail(first, now, completions, ticket, all);
    store::Applied applied;
    if (count > 0) applied = inner_.apply(first, now, completions, pin, ticket);
    settled += applied.settled;
    for (request::Group& group : first.groups.first(applied.settled))
      if (knows && group.id != nullptr) group.known = knows(*group.id);
    if (applied.later || applied.settled < count || count == all) return applied;
    asks_.emplace_back(completions, ticket);
    return {.settled = count, .later = true};
  }
  void abandon(store::CompletionQueue& completions, request::Ticket ticket) override {
    std::erase_if(asks_, [&](const auto& ask) { return ask.second == ticket; });
    inner_.abandon(completions, ticket);
  }
  // The number of batches that were put off.
  size_t asked() const { return asks_.size(); }
  // Resumes the n-th of them.
  void name(size_t n) {
    const auto [completions, ticket] = asks_.at(n);
    asks_.erase(asks_.begin() + static_cast<std::ptrdiff_t>(n));
    completions->resume_batch(ticket);
  }

 private:
  store::Applied fail(const request::Batch& batch, base::Time now,
                      store::CompletionQueue* completions, request::Ticket ticket, size_t all) {
    for (size_t i = 0; i < batch.groups.size(); ++i) {
      request::Group& group = batch.groups[i];
      // A parked group that is matched again has its place in the table, so it goes there.
      if (group.arrival == 0 && limit::is_counted(batch.charges[group.charge_first].limits)) {
        store::fall_back(group, batch, request::Error::store, now);
      } else {
        auto one = batch;
        one.groups = batch.groups.subspan(i, 1);
        inner_.apply(one, now, completions, {}, ticket);
      }
      if (group.error != request::Error::none && !group.may_fail)
        return {.settled = i + 1, .later = false};
    }
    if (batch.groups.size() == all) return {.settled = all, .later = false};
    asks_.emplace_back(completions, ticket);
    return {.settled = batch.groups.size(), .later = true};
  }

  std::vector<std::pair<store::CompletionQueue*, request::Ticket>> asks_;
};

// A server of which the session sees the version, and which keeps warnings for the log.
struct Log final : request::ServerView {
  std::string_view version() const override { return "1.2.3"; }
  request::ServerFigures figures() const override { return {}; }
  void warn(std::string_view line) const override { warned.emplace_back(line); }

  mutable std::vector<std::string> warned;
};

// A listener that keeps what is reported to it.
struct Listening final : request::ListenerView {
  Listening() : request::ListenerView(true) {}
  bool is_loopback() const override { return loopback; }
  void refused(std::string_view code, std::string_view example) const override {
    codes.emplace_back(code);
    examples.emplace_back(example);
  }
  void log_unmatched(std::string_view example) const override { unmatched_.emplace_back(example); }

  bool loopback = true;
  mutable std::vector<std::string> codes, examples, unmatched_;
};

struct Setup {
  std::string rules =
      "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 3, window: "
      "1m, algorithm: fixed_window } }\n";
  std::string http = "{}";  // the `http` section of a sluice.yaml
  std::shared_ptr<const access::Users> users{};
};

class Connection;

class World {
 public:
  explicit World(const Setup& setup = {}) {
    access.set(setup.users);
    base::Diagnostics diagnostics;
    config::read_config(
        "listen: [{ protocol: http, address: '127.0.0.1:1' }]\nhttp: " + setup.http + "\n",
        "sluice.yaml", config_, diagnostics);
    for (const auto& one : diagnostics) ADD_FAILURE() << base::to_string(one);
    const auto number = static_cast<size_t>(self());
    options_ = config_.options().session_options[number];
    live_ = std::make_unique<live::Live>(
        live::LivePolicy{std::make_shared<policy::RuleSet>(protocol::dialects())});
    load(setup.rules);
    engine_ = std::make_unique<engine::Engine>(
        engine::Engine::Deps{
            .store = store,
            .clock = clock_,
            .live = *live_,
            .overrides = &overrides_,
            .spaces = &spaces_,
            .holds = &holds,
            .wake = [this] { woken_ = true; },
            .run = [this](std::function<void()> what) { hand_over(std::move(what)); }},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Loads a policy as a reload does. `rules`: native rules, as the items of a list in YAML.
  void load(const std::string& rules) {
    auto set = std::make_shared<policy::RuleSet>(protocol::dialects());
    base::Diagnostics diagnostics;
    if (!rules.empty())
      policy::read_native("rules:\n" + rules, "test.yaml", spaces_, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics)) << rules;
    protocol::describe(self()).add_rules(&config_.settings_of(self()), spaces_, *set);
    old_.push_back(live_->exchange(std::make_shared<live::LivePolicy>(
        live::LivePolicy{.rules = std::move(set), .hash = 0, .generation = ++generation_})));
    if (engine_ == nullptr) return;
    engine_->take_policy();
    engine_->match_again();
    settle();
  }
  uint64_t generation() const { return generation_; }

  // Sets an override of the limits that come with requests for `key`; nothing removes it.
  void override_inline(const std::string& key, std::optional<limit::Algorithm> algorithm) {
    const policy::Rule& rule = live_->current()->rules->rules(&dialect).front();
    if (!algorithm) {
      overrides_.remove(rule.id, std::array{key});
    } else {
      const bool is_free = *algorithm == limit::Algorithm::unlimited;
      const std::vector<limit::Limit> limits = {
          {*algorithm, is_free ? base::bounds::quota_max : 0, {}, 0}};
      policy::Override one;
      one.rule = rule.id;
      one.actor = {key};
      one.terms.id = ++override_id_;
      one.terms.until = {INT64_MAX};
      one.terms.limits_id = spaces_.intern_limits(limits);
      one.terms.limits = spaces_.limits(one.terms.limits_id);
      EXPECT_TRUE(overrides_.set(one));
    }
    engine_->match_again();
    settle();
  }

  // Sets an override of the only native rule for one actor; no limits: removes it.
  void override_native(const std::string& actor, std::span<const limit::Limit> limits) {
    const policy::Rule& rule = live_->current()->rules->native_rules().front();
    if (limits.empty()) {
      overrides_.remove(rule.id, std::array{actor});
    } else {
      policy::Override one;
      one.rule = rule.id;
      one.actor = {actor};
      one.terms.id = ++override_id_;
      one.terms.limits_id = spaces_.intern_limits(limits);
      one.terms.limits = spaces_.limits(one.terms.limits_id);
      EXPECT_TRUE(overrides_.set(one));
    }
    engine_->match_again();
    settle();
  }

  // Advances the clock in one step.
  void pass(int64_t us) {
    now_us += us;
    settle();
  }
  // Runs everything that can run at this time.
  void settle();
  // Waits for a task that another thread hands over to this one, and runs it. settle() does not.
  void run_posted() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_until(lock, sluice::tests::soon(), [this] { return !posted_.empty(); }));
    const auto what = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    what();
    settle();
  }

  request::Peer peer(const std::string& address, const std::string& certificate = {}) {
    return {.server = &log,
            .listener = &listener,
            .options = options_.get(),
            .access = &access,
            .worker = &worker,
            .clock = &clock_,
            .charge_ids = ids.get(),
            .address = address,
            .certificate = certificate};
  }
  engine::Engine& engine() { return *engine_; }
  const HttpOptions& options() const { return static_cast<const HttpOptions&>(*options_); }
  size_t waiting() const { return options().waits->waiting(); }

 private:
  friend class Connection;
  void hand_over(std::function<void()> what) {
    if (std::this_thread::get_id() == thread_) {
      own_.push_back(std::move(what));
      return;
    }
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(what));
    changed_.notify_one();
  }

  config::Config config_;
  std::shared_ptr<const request::SessionOptions> options_;
  request::Spaces spaces_;
  // Each world begins at the same time, whatever the world before has left.
  base::Clock clock_{[]() -> base::Clock::Source {
    now_us = 1'795'334'123 * second;
    ahead_us = 0;
    return {[] { return now_us; }, [] { return now_us + ahead_us; }};
  }()};
  store::EmbeddedStore table_{0, base::Hash(1), spaces_};
  uint64_t generation_ = 0, override_id_ = 0;
  // Earlier policies, so that the engine is never the last that holds one.
  std::vector<std::shared_ptr<const live::LivePolicy>> old_;
  std::unique_ptr<live::Live> live_;
  policy::Overrides overrides_;
  std::vector<Connection*> connections_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::deque<std::function<void()>> own_;  // tasks that this thread has for itself
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;  // tasks of other threads; guarded by mutex_
  bool woken_ = false;
  std::unique_ptr<engine::Engine> engine_;

 public:
  std::unique_ptr<request::ChargeIds> ids = std::make_unique<request::ChargeIds>();
  HttpWorker worker;
  LateStore store{table_};
  store::Holds holds{store, spaces_, {}};
  access::Access access;
  Log log;
  Listening listener;
};

// Stands in for server::Connection: hands the bytes of a client to a session and its requests to
// the engine. Its socket accepts all output.
class Connection final : public engine::ReplySink {
 public:
  // `certificate`: the name in that of the client; empty: it shows none.
  explicit Connection(World& world, const std::string& address = "127.0.0.1:41000",
                      const std::string& certificate = {})
      : world_(world), session_(std::make_unique<HttpSession>(world.peer(address, certificate))) {
    world.connections_.push_back(this);
    set_listener(&world.listener);
  }
  // The client has disconnected.
  ~Connection() override {
    close();
    std::erase(world_.connections_, this);
  }

  void send(std::string_view bytes) {
    in_ += bytes;
    process();
    world_.settle();
  }
  // The client closes its sending side.
  void end() {
    end_ = ending_ = true;
    if (session_ != nullptr && session_->state().waits_for_units) world_.engine().interrupt(*this);
    process();
    world_.settle();
  }
  // The server stops, after it has read everything that arrived.
  void finish() {
    if (is_closed()) return;
    if (!session_->state().holds_back) process();
    if (is_closed() || !under_way_.empty()) return;
    if (world_.engine().has_late(*this)) {
      world_.engine().stop_waits(*this);
      world_.settle();
      if (is_closed()) return;
    }
    world_.engine().forget(*this);
    base::Buffer out;
    session_->end(request::Ending::stopping, {}, out);
    out_ += out.view();
    close();
  }

  // What was sent to the client since the last call.
  std::string take() { return std::exchange(out_, {}); }
  std::string ask(std::string_view bytes) {
    send(bytes);
    return take();
  }
  bool is_closed() const { return session_ == nullptr; }
  const std::string& fault() const { return fault_; }
  HttpSession& session() { return *session_; }

  void resume(engine::Batch& batch) override {
    resumable_.push_back(&batch);
    process();
  }
  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time now) override {
    base::Buffer out;
    session_->reply(request, verdict, now, out);
    late_ += out.view();
  }
  void flush_late(bool) override {
    out_ += std::exchange(late_, {});
    undecided_ |= can_receive() && (!in_.empty() || session_->state().has_more || end_);
  }
  bool has_unsent() const override { return !late_.empty(); }
  bool is_leaving() const override { return ending_; }

 private:
  friend class World;
  struct UnderWay {
    engine::Batch* batch;
    std::unique_ptr<const std::string> input;
  };

  // Returns true if there was something to do.
  bool turn() {
    if (is_closed() || !std::exchange(undecided_, false)) return false;
    process();
    return true;
  }
  bool can_receive() const {
    return !is_closed() && !leaving_ && !session_->state().holds_back &&
           under_way_.size() < base::bounds::batches_per_connection_max &&
           (under_way_.empty() || session_->state().takes_several_batches);
  }
  void process() {
    while (!is_closed()) {
      if (resumable_.empty() && !can_receive()) return;
      base::Buffer out;
      bool progressed = true;
      const engine::Served served = resumable_.empty() ? receive(progressed, out) : resume_one(out);
      if (session_->state().has_ended_waits) world_.engine().interrupt(*this, session_.get());
      bool closing = served == engine::Served::ended;
      if (leaving_ && !closing && under_way_.empty()) {
        fault_ = session_->fault().code;
        session_->end(request::Ending::announced, {}, out);
        closing = true;
      }
      out_ += out.view();
      if (closing) return close();
      if (resumable_.empty() && !can_receive()) {
        if (ending_ && session_->state().waits_for_units) world_.engine().interrupt(*this);
        return;
      }
      // As in the server, which does not call a session again that has consumed all bytes.
      if (!progressed || (in_.empty() && !end_ && resumable_.empty())) break;
    }
    if (end_ && !is_closed() && under_way_.empty()) close();
  }
  engine::Served receive(bool& progressed, base::Buffer& out) {
    engine::Engine& engine = world_.engine();
    engine::Batch& batch = engine.next_batch();
    // The bytes are in memory of their own, so that a sanitizer finds views that are kept too long.
    auto input = std::make_unique<const std::string>(in_);
    const request::Received received = session_->receive(*input, end_, batch.requests, out);
    EXPECT_LE(received.consumed, in_.size());
    in_.erase(0, received.consumed);
    leaving_ = received.closing;
    const size_t count = batch.requests.size();
    progressed = received.consumed > 0 || count > 0;
    if (count == 0) return engine::Served::all;
    const engine::Served served = engine.serve(batch, self(), *session_, out, this);
    if (served == engine::Served::later) under_way_.push_back({&batch, std::move(input)});
    return served;
  }
  engine::Served resume_one(base::Buffer& out) {
    engine::Batch* const batch = resumable_.front();
    resumable_.erase(resumable_.begin());
    const engine::Served served = world_.engine().resume(*batch, out);
    if (served != engine::Served::later)
      std::erase_if(under_way_, [&](const UnderWay& one) { return one.batch == batch; });
    return served;
  }
  void close() {
    if (is_closed()) return;
    world_.engine().forget(*this);
    under_way_.clear();
    resumable_.clear();
    session_.reset();
  }

  World& world_;
  std::unique_ptr<HttpSession> session_;
  std::string in_, out_, late_, fault_;
  std::vector<UnderWay> under_way_;
  std::vector<engine::Batch*> resumable_;
  bool leaving_ = false, ending_ = false, end_ = false, undecided_ = false;
};

inline void World::settle() {
  for (bool more = true; more;) {
    more = false;
    for (; !own_.empty(); more = true) {
      const auto what = std::move(own_.front());
      own_.pop_front();
      what();
    }
    woken_ = false;
    engine_->advance();
    more |= woken_;
    for (size_t i = 0; i < connections_.size(); ++i) more |= connections_[i]->turn();
  }
}

}  // namespace sluice::http::session_world
