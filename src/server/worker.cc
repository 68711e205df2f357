#include "server/worker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "server/connection.h"

namespace sluice::server {

void GatheredOutput::add(Connection& connection, std::string_view text) {
  if (!runs_.empty() && runs_.back().connection == &connection && runs_.back().size > 0)
    runs_.back().size += text.size();
  else
    runs_.push_back({&connection, texts_.size(), text.size()});
  texts_.append(text);
}

void GatheredOutput::send(Run& run) {
  const size_t size = std::exchange(run.size, 0);
  if (run.connection != nullptr && size > 0)
    run.connection->send_gathered(texts_.view().substr(run.at, size));
}

void GatheredOutput::send(Connection& connection) {
  for (Run& run : runs_) {
    if (run.connection == &connection) send(run);
  }
}

void GatheredOutput::send_all() {
  for (Run& run : runs_) send(run);
  for (const Run& run : runs_) {
    if (run.connection != nullptr) run.connection->end_gathered();
  }
  runs_.clear();
  texts_.clear();
}

void GatheredOutput::send_if_full() {
  if (runs_.size() >= connections_max || texts_.size() >= bytes_max) send_all();
}

void GatheredOutput::forget(const Connection& connection) {
  for (Run& run : runs_) {
    if (run.connection == &connection) run.connection = nullptr;
  }
}

namespace {

// So many buffers are kept for later use; more are given back to the system.
constexpr size_t idle_buffers_max = 64;
constexpr size_t idle_texts_max = 1024;
// A timer measures a span, but the engine's times are times of the clock, which may be set forward
// meanwhile, as may happen while the machine sleeps. So the clock is read this often.
constexpr std::chrono::seconds look_at_clock_every{1};
// How long a stop waits for requests that may be under way, and how often it looks.
constexpr std::chrono::milliseconds grace{300}, grace_step{10};

}  // namespace

Worker::Worker(store::Store& store, base::Clock& clock, const live::Live& live,
               engine::TableScanner& scanner, const Watch& watch, const Matching& matching,
               std::shared_ptr<spdlog::logger> log)
    : clock_(clock),
      store_(store),
      committer_(store.committer()),
      loop_([this] { gathered_.send_all(); }),
      deadline_(loop_, [this] { close_late(); }),
      grace_timer_(loop_, [this] { finish_owing(); }),
      due_(loop_, [this] { advance(); }),
      waits_timer_(loop_, [this] { end_waits(); }),
      stats_(watch.stats),
      spans_(watch.spans),
      top_keys_(watch.keys_hash == nullptr ? nullptr
                                           : std::make_unique<engine::TopKeys>(*watch.keys_hash)),
      engine_({.store = store,
               .clock = clock,
               .live = live,
               .scanner = &scanner,
               .stats = &stats_,
               .overrides = matching.overrides,
               .spaces = matching.spaces,
               .holds = matching.holds,
               .top_keys = top_keys_.get(),
               .denials = &watch.denials,
               .wake = [this] { loop_.post([this] { advance(); }); },
               .run = [this](std::function<void()> what) { loop_.post(std::move(what)); }},
              std::move(log)) {
  store_.attach(engine_.completions(), &loop_);
}

Worker::~Worker() {
  join();
}

request::WorkerState* Worker::state_of(protocol::Protocol protocol) {
  auto& state = states_[static_cast<size_t>(protocol)];
  const auto make = protocol::describe(protocol).make_worker_state;
  if (state == nullptr && make != nullptr) state = make();
  return state.get();
}

void Worker::start(std::function<void()> ended) {
  thread_ = std::thread([this, ended = std::move(ended)] {
    loop_.run();
    ended();
  });
}

void Worker::adopt(int fd, const Accepted& accepted, std::string_view why) {
  auto& count = why.empty() ? connections_ : turned_away_;
  count.fetch_add(1, std::memory_order_relaxed);
  loop_.post([this, fd, accepted, why, &count] {
    if (phase_ != Phase::serving) {
      ::close(fd);
      count.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    auto connection = std::make_shared<Connection>(*this, fd, accepted);
    all_.insert(connection);
    if (why.empty()) stats_.connected(accepted.protocol);
    if (!(why.empty() ? connection->start() : connection->turn_away(why))) connection->abort();
  });
}

void Worker::on_new_policy() {
  loop_.post([this] {
    engine_.take_policy();
    engine_.match_again();
  });
}

void Worker::begin_handshake(Handshake& handshake) {
  // Rather one that waits for its client than one that waits for its turn here.
  const auto close_oldest_of = [this](uint64_t client) {
    std::shared_ptr<Connection> late;
    for (auto* one = handshake_ages_.oldest(); one != nullptr; one = one->younger()) {
      Connection& its = one->owner();
      if (client != 0 && its.handshaking_client() != client) continue;
      if (late == nullptr || !its.awaits_turn()) late = its.shared_from_this();
      if (!late->awaits_turn()) break;
    }
    if (late != nullptr) late->end_handshake();
  };
  if (handshakes_of_[handshake.client] >= base::bounds::handshakes_of_client_max)
    close_oldest_of(handshake.client);
  else if (handshake_ages_.size() >= base::bounds::handshakes_max)
    close_oldest_of(0);
  ++handshakes_of_[handshake.client];
  handshake.member.join(handshake_ages_, std::chrono::steady_clock::now());
}

void Worker::end_handshake(Handshake& handshake) {
  handshake.member.leave();
  const auto at = handshakes_of_.find(handshake.client);
  if (--at->second == 0) handshakes_of_.erase(at);
}

void Worker::run_query(std::shared_ptr<engine::AdminQuery> query) {
  loop_.post([this, query = std::move(query)] {
    if (phase_ != Phase::ended) engine_.run_query(query);
  });
}

// Runs what is due, and sets a timer for what is due next.
void Worker::advance() {
  const auto next = engine_.advance();
  release_durable();
  if (!next || phase_ == Phase::ended) return;
  const std::chrono::microseconds rest(std::max<int64_t>(next->us - engine_.now().us, 0));
  due_.set_after(std::min<std::chrono::microseconds>(rest, look_at_clock_every));
}

void Worker::wait_for_commit(std::shared_ptr<Connection> connection, uint64_t commit_seq) {
  held_.push_back({engine_.now(), commit_seq, std::move(connection)});
  if (committer_->await_commit(engine_.completions())) return;
  // The commit was made meanwhile; but the connection is in the middle of a call, so it is released
  // from the loop.
  loop_.post([this] { release_durable(); });
}

void Worker::release_durable() {
  if (committer_ == nullptr) return;
  do {
    const uint64_t committed = committer_->durable_seq();
    const uint64_t done = std::max(committed, committer_->failed_seq());
    const bool opens = !held_.empty() && held_.front().commit_seq <= done;
    const base::Time now = opens ? engine_.now() : base::Time{};
    // A connection that is released may wait again, for a later commit_seq.
    while (!held_.empty() && held_.front().commit_seq <= done) {
      const Held first = std::move(held_.front());
      held_.pop_front();
      stats_.held_back(now, first.since);
      first.connection->on_durable(first.commit_seq, first.commit_seq <= committed);
    }
    // A commit wakes once, and the last one may have been too early for the next that waits.
  } while (!held_.empty() && !committer_->await_commit(engine_.completions()));
}

std::string Worker::lend_text() {
  if (idle_texts_.empty()) return {};
  std::string text = std::move(idle_texts_.back());
  idle_texts_.pop_back();
  return text;
}

void Worker::give_back_text(std::string text) {
  if (text.capacity() > base::bounds::read_bytes_max || idle_texts_.size() == idle_texts_max)
    return;
  text.clear();
  idle_texts_.push_back(std::move(text));
}

void Worker::stop(std::chrono::milliseconds limit) {
  loop_.post([this, limit] {
    phase_ = Phase::stopping;
    grace_ends_ = std::chrono::steady_clock::now() + std::min(limit, grace);
    owing_.assign(all_.begin(), all_.end());
    deadline_.set_after(limit);
    finish_owing();
    end_if_idle();
  });
}

// Those that are not done when the time of the stop is over.
void Worker::close_late() {
  const std::vector<std::shared_ptr<Connection>> late(all_.begin(), all_.end());
  for (const auto& connection : late) connection->abort();
}

// Ends the connections of `owing_`, each as soon as no request can be on its way to it any more,
// all of them at `grace_ends_`. A client that asks without a pause may have a request on its way at
// every look, so its connection ends behind an answer.
void Worker::finish_owing() {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_over = begin >= grace_ends_;
  // The last one that ends clears `owing_`.
  for (const std::shared_ptr<Connection>& connection : std::exchange(owing_, {})) {
    if (is_over || !connection->may_owe()) {
      connection->finish();
    } else {
      connection->finish_behind_answer();
      owing_.push_back(connection);
    }
  }
  if (owing_.empty()) return;
  // To look at many takes time that those need which ask.
  const auto now = std::chrono::steady_clock::now();
  grace_timer_.set(
      std::min(now + std::max<std::chrono::steady_clock::duration>(grace_step, 4 * (now - begin)),
               std::max(grace_ends_, now)));
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::visit_top_keys(std::function<void(engine::TopKeys&)> visit) {
  loop_.post([this, visit = std::move(visit)] { visit(*top_keys_); });
}

Worker::Ages& Worker::request_ages(const net::Timeouts& timeouts) {
  const std::chrono::microseconds length(timeouts.request.us);
  return request_ages_.try_emplace(timeouts.request.us, length).first->second;
}

Worker::Ages& Worker::send_ages(const net::Timeouts& timeouts) {
  const std::chrono::microseconds length(timeouts.send.us);
  return send_ages_.try_emplace(timeouts.send.us, length).first->second;
}

Worker::Ages& Worker::withheld_ages(const net::Timeouts& timeouts) {
  const std::chrono::microseconds length(timeouts.send.us);
  return withheld_ages_.try_emplace(timeouts.send.us, length).first->second;
}

Worker::Ages* Worker::idle_ages(const net::Timeouts& timeouts) {
  if (timeouts.idle.us == 0) return nullptr;
  const std::chrono::microseconds length(timeouts.idle.us);
  return &idle_ages_.try_emplace(timeouts.idle.us, length).first->second;
}

Worker::Ages& Worker::wake_ages(std::chrono::seconds length) {
  return wake_ages_.try_emplace(std::chrono::microseconds(length).count(), length).first->second;
}

void Worker::begin_wait(Ages::Member& member, Ages& ages) {
  const auto now = std::chrono::steady_clock::now();
  member.join(ages, now);
  wake_at(now + ages.limit());
}

void Worker::begin_lent(Ages::Member& member) {
  member.join(lent_ages_, std::chrono::steady_clock::now());
}

void Worker::begin_keeping(Ages::Member& member) {
  member.join(keeping_ages_, std::chrono::steady_clock::now());
}

// A timer that is set for an earlier time stays: when it fires all lists are looked at again.
void Worker::wake_at(net::Timer::Time when) {
  if (!waits_timer_.is_set() || when < waits_timer_.due()) waits_timer_.set(when);
}

void Worker::end_waits() {
  const auto now = std::chrono::steady_clock::now();
  const auto end = [&](Ages& ages, void (Connection::*timeout)()) {
    while (ages.due() && *ages.due() <= now) {
      const auto late = ages.oldest()->owner().shared_from_this();
      ages.oldest()->leave();
      ((*late).*timeout)();
    }
    if (const auto next = ages.due()) wake_at(*next);
  };
  for (auto& [length, ages] : request_ages_) end(ages, &Connection::on_request_timeout);
  for (auto& [length, ages] : send_ages_) end(ages, &Connection::on_send_timeout);
  for (auto& [length, ages] : withheld_ages_) end(ages, &Connection::on_withheld_timeout);
  for (auto& [length, ages] : idle_ages_) end(ages, &Connection::on_idle_timeout);
  for (auto& [length, ages] : wake_ages_) end(ages, &Connection::on_wake);
}

bool Worker::make_room_for(const Connection& by, size_t bytes) {
  while (lent_bytes_ + bytes > base::bounds::unfinished_bytes_max) {
    const size_t share =
        base::bounds::unfinished_bytes_max / std::max<size_t>(lent_ages_.size(), 1);
    // The oldest of those that hold their share; if there is none, the oldest.
    Ages::Member* chosen = nullptr;
    for (auto* one = lent_ages_.oldest(); one != nullptr; one = one->younger()) {
      if (!one->owner().can_give_way()) continue;
      const bool has_share = one->owner().unfinished_bytes() >= share;
      if (chosen == nullptr || has_share) chosen = one;
      if (has_share) break;
    }
    if (chosen == nullptr || &chosen->owner() == &by) return false;
    chosen->owner().give_way();
  }
  return true;
}

void Worker::add_unsent(const Connection& by, size_t bytes) {
  unsent_bytes_ += bytes;
  // To close a connection may add output of others.
  if (unsent_bytes_ <= base::bounds::unsent_bytes_max || makes_room_) return;
  makes_room_ = true;
  make_room_for_unsent(by);
  makes_room_ = false;
}

// It goes through all connections that have unsent bytes, and makes the more room the more there
// are, so that it is not called for each reply.
void Worker::make_room_for_unsent(const Connection& by) {
  constexpr size_t most = base::bounds::unsent_bytes_max, spare_of_each = 64;
  struct Holder {
    Ages::Time since;
    std::shared_ptr<Connection> connection;
  };
  std::vector<Holder> holders;
  const auto add = [&](const Ages::Member& member) {
    if (&member.owner() != &by)
      holders.push_back({member.since(), member.owner().shared_from_this()});
  };
  for (const auto& [length, ages] : send_ages_)
    for (auto* one = ages.oldest(); one != nullptr; one = one->younger()) add(*one);
  // One that is sending is in a list above, or waits for its commit.
  for (auto* one = keeping_ages_.oldest(); one != nullptr; one = one->younger())
    if (!one->owner().is_sending()) add(*one);
  std::ranges::stable_sort(holders, {}, &Holder::since);
  const auto close = [this](Holder& holder) {
    stats_.closed(holder.connection->protocol(), engine::Closed::send_memory);
    holder.connection->abort();
    holder.connection.reset();
  };
  const size_t share = most / (holders.size() + 1);
  const size_t spare = std::min(holders.size() * spare_of_each, most / 2);
  for (Holder& one : holders)
    if (unsent_bytes_ > most - spare && one.connection->unsent_bytes() >= share) close(one);
  for (Holder& one : holders)
    if (unsent_bytes_ > most && one.connection != nullptr) close(one);
}

std::optional<Worker::Lent> Worker::lend(size_t bytes, const Connection& by) {
  const bool small = bytes == small_buffer_bytes;
  if (!small) {
    if (!make_room_for(by, bytes)) return std::nullopt;
    lent_bytes_ += bytes;
  }
  return take_buffer(bytes);
}

std::optional<Worker::Lent> Worker::lend_aside(size_t bytes, size_t beside) {
  const size_t more = beside + (bytes == small_buffer_bytes ? 0 : bytes);
  if (lent_bytes_ + more > base::bounds::unfinished_bytes_max / 2) return std::nullopt;
  lent_bytes_ += more;
  return take_buffer(bytes);
}

// Returns an idle buffer of that size, or a new one.
Worker::Lent Worker::take_buffer(size_t bytes) {
  const bool small = bytes == small_buffer_bytes;
  auto& idle = small ? idle_small_ : idle_large_;
  if ((small || bytes == base::bounds::read_bytes_max) && !idle.empty()) {
    Lent lent{std::move(idle.back()), bytes};
    idle.pop_back();
    return lent;
  }
  return Lent{std::unique_ptr<char[]>(new char[bytes]), bytes};
}

void Worker::give_back(Lent buffer) {
  const bool small = buffer.capacity == small_buffer_bytes;
  if (!small) lent_bytes_ -= buffer.capacity;
  auto& idle = small ? idle_small_ : idle_large_;
  if ((small || buffer.capacity == base::bounds::read_bytes_max) &&
      idle.size() < idle_buffers_max) {
    idle.push_back(std::move(buffer.bytes));
  }
}

bool Worker::account(const Connection& by, size_t before, size_t now) {
  if (now > before && !make_room_for(by, now - before)) return false;
  lent_bytes_ = lent_bytes_ - before + now;
  return true;
}

void Worker::leave(const std::shared_ptr<Connection>& connection) {
  all_.erase(connection);
  auto& count = connection->is_turned_away() ? turned_away_ : connections_;
  if (!connection->is_turned_away()) stats_.disconnected(connection->protocol());
  count.fetch_sub(1, std::memory_order_relaxed);
  end_if_idle();
}

void Worker::end_if_idle() {
  if (phase_ != Phase::stopping || !all_.empty()) return;
  deadline_.cancel();
  grace_timer_.cancel();
  owing_.clear();
  due_.cancel();
  waits_timer_.cancel();
  store_.attach(engine_.completions(), nullptr);
  phase_ = Phase::ended;
  loop_.stop();
}

}  // namespace sluice::server
