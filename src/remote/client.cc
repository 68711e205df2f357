#include <sluice/client.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "client/core.h"
#include "client/sockets.h"
#include "remote/address.h"
#include "remote/poll_turn.h"

namespace sluice {
namespace {

// The clock of the sockets' timer.
base::Time monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return {int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000};
}

client_options checked(client_options options) {
  if (options.connections < 1 || options.connections > 64)
    throw std::invalid_argument("sluice::client: connections must be 1 to 64");
  return options;
}

calls::Address checked_address(std::string_view text, const client_options& options) {
  calls::Address address = calls::read_address(text);
  if (!address.problem.empty()) throw std::invalid_argument("sluice::client: " + address.problem);
  if (options.shard && address.dialect->make_sharder == nullptr)
    throw std::invalid_argument("sluice::client: the protocol has no shards");
  std::set<std::string_view> names;
  for (const calls::Target& host : address.hosts)
    if (!names.insert(host.name).second)
      throw std::invalid_argument("sluice::client: the address names " + host.name + " twice");
  return address;
}

// Passes the turn on.
class TurnEnd {
 public:
  explicit TurnEnd(calls::PollTurn& turn) : turn_(turn) {}
  ~TurnEnd() { turn_.give(); }
  TurnEnd(const TurnEnd&) = delete;
  TurnEnd& operator=(const TurnEnd&) = delete;

 private:
  calls::PollTurn& turn_;
};

}  // namespace

client_stand_in::~client_stand_in() = default;
client_interface::~client_interface() = default;

std::future<client_result> client_interface::ask(const client_request& request,
                                                 const client_call_options& options) {
  auto promise = std::make_shared<std::promise<client_result>>();
  auto future = promise->get_future();
  submit(
      request, [promise](client_result&& result) { promise->set_value(std::move(result)); },
      options);
  return future;
}

client_result client_interface::call(const client_request& request,
                                     const client_call_options& options) {
  auto future = ask(request, options);
  await(future);
  return future.get();
}

void client_interface::await(std::future<client_result>& future) {
  while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    poll(std::chrono::milliseconds(100));
}

// One thread polls at a time, by `turn`; all state is guarded by `mutex`. Handlers run with the
// turn alone.
struct __attribute__((visibility("hidden"))) client::impl {
  impl(std::string_view text, client_options&& given)
      : options(checked(std::move(given))),
        address(checked_address(text, options)),
        core(*address.dialect, address.hosts, options, monotonic_now()) {}

  client_options options;
  calls::Address address;
  mutable std::mutex mutex;
  calls::PollTurn turn;
  std::atomic<std::thread::id> poller{};
  std::atomic<bool> stopping = false;
  calls::Sockets sockets;
  calls::Core core;
  std::thread thread;
  // Of the polling thread.
  std::vector<calls::Core::Completed> completed;
  std::vector<client_connection_report> reports;
  std::vector<calls::Core::Action> actions;

  void run_actions();
  size_t deliver();
  void deliver_all();
  void deliver_late();
  void deliver(calls::Core::Completed& done);
  size_t step(std::chrono::milliseconds timeout);
  int wait_time(std::chrono::milliseconds timeout);
  void run();
};

// Does what the core wants done. Names are looked up without the lock.
void client::impl::run_actions() {
  using Kind = calls::Core::Action::Kind;
  std::unique_lock lock(mutex);
  while (!core.actions().empty()) {
    actions.clear();
    actions.swap(core.actions());
    for (const calls::Core::Action& action : actions) {
      if (action.kind == Kind::close) {
        sockets.close(action.link);
      } else if (action.kind == Kind::write) {
        sockets.write(action.link, core, monotonic_now());
      } else {
        const calls::Target& target = core.target(action.link);
        lock.unlock();
        auto addresses = calls::look_up(target);
        lock.lock();
        if (core.phase(action.link) != calls::Link::Phase::connecting) continue;
        if (addresses)
          sockets.connect(action.link, *std::move(addresses), core, monotonic_now());
        else
          core.on_failed(action.link, std::move(addresses).problem().text, monotonic_now());
      }
    }
  }
  sockets.set_timer(core.next_time());
}

size_t client::impl::deliver() {
  {
    const std::lock_guard lock(mutex);
    completed.swap(core.completed());
    reports.swap(core.reports());
  }
  for (const client_connection_report& report : reports) options.on_connection(report);
  reports.clear();
  for (calls::Core::Completed& done : completed) deliver(done);
  const size_t count = completed.size();
  completed.clear();
  if (count > 0) turn.notify_delivered();
  return count;
}

// When no thread polls any more. With the turn.
void client::impl::deliver_all() {
  poller = std::this_thread::get_id();
  run_actions();
  while (deliver() > 0) {  // handlers may submit
  }
  poller = std::thread::id();
}

// What was submitted while the client closes or later. It does not wait for the turn, as a handler
// may wait for a lock of the caller's: the thread that holds it looks again after it let go, and
// close() delivers behind the client's own thread.
void client::impl::deliver_late() {
  for (;;) {
    if (!turn.try_take()) return;
    {
      const TurnEnd end(turn);
      deliver_all();
    }
    const std::lock_guard lock(mutex);
    if (core.completed().empty()) return;
  }
}

void client::impl::deliver(calls::Core::Completed& done) {
  if (done.request != nullptr) {
    done.result = options.stand_in->decide(done.request->request(), done.report.error);
    done.result.origin = client_origin::stand_in;
    done.report.origin = client_origin::stand_in;
    done.report.allowed = done.result.is_allowed();
  }
  if (options.on_call) options.on_call(done.report);
  if (done.handler) done.handler(std::move(done.result));
}

// In milliseconds until something is due, at most `timeout`; -1: for ever.
int client::impl::wait_time(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex);
  if (!core.actions().empty() || !core.completed().empty() || !core.reports().empty()) return 0;
  const base::Time next = core.next_time();
  int64_t ms = timeout.count() < 0 ? std::numeric_limits<int>::max() : timeout.count();
  if (next != calls::no_time)
    ms = std::min(ms, std::max<int64_t>(0, (next.us - monotonic_now().us + 999) / 1'000));
  else if (timeout.count() < 0)
    return -1;
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

// One round; how many handlers were called.
size_t client::impl::step(std::chrono::milliseconds timeout) {
  poller = std::this_thread::get_id();
  sockets.clear_wake();
  run_actions();
  size_t count = deliver();
  // A close that began before the wake was cleared is seen here; a later one ends the wait.
  sockets.wait(count > 0 || stopping ? 0 : wait_time(timeout));
  {
    const std::lock_guard lock(mutex);
    const base::Time now = monotonic_now();
    sockets.handle(core, now);
    core.tick(now);
  }
  run_actions();
  count += deliver();
  poller = std::thread::id();
  run_actions();  // what the handlers have submitted
  return count;
}

void client::impl::run() {
  while (!stopping) {
    turn.take();
    const TurnEnd end(turn);
    step(std::chrono::milliseconds(-1));
  }
}

client::client(std::string_view address, client_options options)
    : impl_(std::make_unique<impl>(address, std::move(options))) {
  if (impl_->options.own_thread) impl_->thread = std::thread([this] { impl_->run(); });
}

client::~client() {
  close();
}

client_call_id client::submit(const client_request& request, client_handler handler,
                              const client_call_options& options) {
  client_call_id id = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    id = impl_->core.submit(request, std::move(handler), options, monotonic_now());
  }
  if (impl_->poller.load(std::memory_order_relaxed) == std::this_thread::get_id()) return id;
  impl_->sockets.wake();
  if (impl_->options.own_thread && impl_->stopping) impl_->deliver_late();
  return id;
}

bool client::cancel(client_call_id call) {
  bool done = false;
  {
    const std::lock_guard lock(impl_->mutex);
    done = impl_->core.cancel(call, monotonic_now());
  }
  if (done) impl_->sockets.wake();
  return done;
}

size_t client::poll(std::chrono::milliseconds timeout) {
  if (impl_->options.own_thread) return 0;
  using Clock = calls::PollTurn::Clock;
  constexpr std::chrono::milliseconds year = std::chrono::hours(24 * 365);
  timeout = std::min(timeout, year);
  const auto until = Clock::now() + timeout;
  if (!impl_->turn.take_unless_delivered(timeout.count() < 0 ? calls::PollTurn::for_ever : until))
    return 0;
  const TurnEnd end(impl_->turn);
  for (;;) {
    if (const size_t count = impl_->step(timeout); count > 0) return count;
    if (impl_->stopping) return 0;
    if (timeout.count() < 0) continue;
    timeout = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (timeout.count() <= 0) return 0;
  }
}

void client::await(std::future<client_result>& future) {
  const auto is_ready = [&future] {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (impl_->options.own_thread) {
    future.wait();
    return;
  }
  if (!impl_->turn.take_unless_ready(future)) return;
  const TurnEnd end(impl_->turn);
  while (!is_ready()) impl_->step(std::chrono::milliseconds(-1));
}

int client::descriptor() const {
  return impl_->sockets.descriptor();
}

void client::close() {
  if (impl_->stopping.exchange(true)) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->core.close(monotonic_now());
  }
  impl_->sockets.wake();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->turn.take();
  {
    const TurnEnd end(impl_->turn);
    impl_->deliver_all();
  }
  impl_->deliver_late();
}

size_t client::pending() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->core.pending();
}

bool client::is_connected() const {
  return connections() > 0;
}

size_t client::connections() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->core.ready_links();
}

}  // namespace sluice
