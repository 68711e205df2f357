#include "server/worker.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/bounds.h"

namespace sluice::server {

namespace asio = boost::asio;

namespace {

// Buffers kept for the next one who needs them; more are given back to the system.
constexpr size_t idle_buffers_max = 64;
constexpr size_t idle_texts_max = 1024;

}  // namespace

Worker::Worker(store::Store& store, base::Clock& clock, const Live& live, Lister& lister,
               const Watch& watch, const policy::Overrides* overrides,
               std::shared_ptr<spdlog::logger> log)
    : store_(store),
      work_(io_.get_executor()),
      deadline_(io_),
      due_(io_),
      poller_(io_),
      tally_(watch.tally),
      top_keys_(watch.keys_hash == nullptr ? nullptr : std::make_unique<TopKeys>(*watch.keys_hash)),
      engine_({.store = store,
               .clock = clock,
               .live = live,
               .lister = &lister,
               .tally = &tally_,
               .overrides = overrides,
               .top_keys = top_keys_.get(),
               .denials = &watch.denials,
               .wake = [this] { asio::post(io_, [this] { advance(); }); },
               .run = [this](std::function<void()> what) { asio::post(io_, std::move(what)); }},
              std::move(log)) {
  store_.attach(engine_.port(), poller_);
}

Worker::~Worker() {
  join();
}

void Worker::start(std::function<void()> ended) {
  thread_ = std::thread([this, ended = std::move(ended)] {
    io_.run();
    ended();
  });
}

void Worker::adopt(int fd, Protocol protocol, std::string_view why) {
  auto& count = why.empty() ? connections_ : turned_away_;
  count.fetch_add(1, std::memory_order_relaxed);
  asio::post(io_, [this, fd, protocol, why, &count] {
    if (stopping_) {
      ::close(fd);
      count.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    auto connection = std::make_shared<Connection>(*this, fd, protocol);
    all_.insert(connection);
    if (why.empty()) tally_.connected(protocol);
    if (!(why.empty() ? connection->start() : connection->turn_away(why))) connection->abort();
  });
}

void Worker::on_new_policy() {
  asio::post(io_, [this] {
    engine_.take_policy();
    engine_.match_again();
  });
}

void Worker::inquire(std::shared_ptr<Inquiry> inquiry) {
  asio::post(io_, [this, inquiry = std::move(inquiry)] {
    if (!detached_) engine_.inquire(inquiry);
  });
}

// What is due, and a timer for what is due next.
void Worker::advance() {
  const auto next = engine_.advance();
  open_gates();
  if (!next || (stopping_ && all_.empty())) return;
  due_.expires_after(std::chrono::microseconds(std::max<int64_t>(next->us - engine_.now().us, 0)));
  due_.async_wait([this](boost::system::error_code ec) {
    if (!ec) advance();
  });
}

void Worker::hold_back(std::shared_ptr<Connection> connection, uint64_t gate) {
  held_.push_back({engine_.now(), gate, std::move(connection)});
  if (engine_.await_commit()) return;
  // It came about meanwhile; but the connection is in the middle of something.
  asio::post(io_, [this] { open_gates(); });
}

void Worker::open_gates() {
  do {
    const uint64_t committed = engine_.committed();
    const uint64_t done = std::max(committed, engine_.given_up());
    const bool opens = !held_.empty() && held_.front().gate <= done;
    const base::Time now = opens ? engine_.now() : base::Time{};
    // What is opened may be held back again, behind a later gate.
    while (!held_.empty() && held_.front().gate <= done) {
      const Held first = std::move(held_.front());
      held_.pop_front();
      tally_.held_back(now, first.since);
      first.connection->pass_gate(first.gate, first.gate <= committed);
    }
    // A commit wakes once, and this one may have been an earlier one than the next waits for.
  } while (!held_.empty() && !engine_.await_commit());
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
  asio::post(io_, [this, limit] {
    stopping_ = true;
    const std::vector<std::shared_ptr<Connection>> all(all_.begin(), all_.end());
    for (const auto& connection : all) connection->finish();
    deadline_.expires_after(limit);
    deadline_.async_wait([this](boost::system::error_code ec) {
      if (ec) return;
      const std::vector<std::shared_ptr<Connection>> late(all_.begin(), all_.end());
      for (const auto& connection : late) connection->abort();
    });
    end_if_idle();
  });
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::visit_top_keys(std::function<void(const TopKeys&)> visit) {
  asio::post(io_, [this, visit = std::move(visit)] { visit(*top_keys_); });
}

std::optional<Worker::Lent> Worker::lend(size_t bytes) {
  const bool small = bytes == small_buffer_bytes;
  if (!small) {
    if (lent_bytes_ + bytes > base::bounds::unfinished_bytes_max) return std::nullopt;
    lent_bytes_ += bytes;
  }
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

bool Worker::hold(size_t before, size_t now) {
  const size_t total = lent_bytes_ - before + now;
  if (now > before && total > base::bounds::unfinished_bytes_max) return false;
  lent_bytes_ = total;
  return true;
}

void Worker::leave(const std::shared_ptr<Connection>& connection) {
  all_.erase(connection);
  auto& count = connection->is_turned_away() ? turned_away_ : connections_;
  if (!connection->is_turned_away()) tally_.disconnected(connection->protocol());
  count.fetch_sub(1, std::memory_order_relaxed);
  end_if_idle();
}

void Worker::end_if_idle() {
  if (!stopping_ || !all_.empty()) return;
  deadline_.cancel();
  due_.cancel();
  store_.detach(engine_.port());
  detached_ = true;
  poller_.stop();
  work_.reset();
}

}  // namespace sluice::server
