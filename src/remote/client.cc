#include <sluice/client.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/core.h"
#include "client/dialect.h"
#include "client/sockets.h"
#include "net/tls.h"

namespace sluice::calls {

// Addresses of servers as users of the client write them:
// SCHEME://[USER:TOKEN@]HOST[:PORT][,HOST[:PORT]...]. Pure functions.

struct Address {
  const Dialect* dialect = nullptr;
  bool is_secure = false;  // TLS
  std::vector<Target> hosts;
  std::string problem;  // empty: it was read
};

// A port that is missing is the dialect's. A host in brackets is IPv6. A path that is not "/" or
// empty is a problem, as are more than 1,024 hosts.
Address read_address(std::string_view text);

namespace {

constexpr size_t hosts_max = 1024;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool read_port(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0;
}

bool is_host_character(char c) {
  return c > ' ' && c < 0x7F && std::string_view("/?#@[]\\").find(c) == std::string_view::npos;
}

// "", or what is wrong.
std::string read_host(std::string_view text, Target& target) {
  const std::string whole(text);
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return "`" + whole + "` lacks its `]`";
    target.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    const size_t end = std::min(text.find(':'), text.size());
    target.host = text.substr(0, end);
    text.remove_prefix(end);
  }
  if (target.host.empty() ||
      !std::all_of(target.host.begin(), target.host.end(), is_host_character))
    return "`" + whole + "` is not a host";
  if (!text.empty() && (text[0] != ':' || !read_port(text.substr(1), target.port)))
    return "`" + whole + "` does not end with a port from 1 to 65535";
  const bool is_ipv6 = target.host.find(':') != std::string::npos;
  target.name =
      (is_ipv6 ? "[" + target.host + "]" : target.host) + ":" + std::to_string(target.port);
  return "";
}

std::string read_user(std::string_view text, const Dialect& dialect, Target& target) {
  if (!dialect.has_users) return "the protocol has no users";
  const size_t colon = std::min(text.find(':'), text.size());
  const auto user = decoded(text.substr(0, colon));
  const auto token = decoded(text.substr(std::min(colon + 1, text.size())));
  if (!user || !token) return "a `%` of the user or token is not followed by two hex digits";
  target.user = *user;
  target.token = *token;
  return "";
}

std::string read_hosts(std::string_view text, Address& address) {
  Target model;
  model.port = address.dialect->port;
  if (const size_t at = text.rfind('@'); at != text.npos) {
    if (std::string problem = read_user(text.substr(0, at), *address.dialect, model);
        !problem.empty())
      return problem;
    text.remove_prefix(at + 1);
  }
  for (;;) {
    const size_t end = std::min(text.find(','), text.size());
    Target& target = address.hosts.emplace_back(model);
    if (std::string problem = read_host(text.substr(0, end), target); !problem.empty())
      return problem;
    if (end == text.size()) return "";
    if (address.hosts.size() == hosts_max) return "it has more than 1024 hosts";
    text.remove_prefix(end + 1);
  }
}

// The dialect of a scheme, or of the one that an `s` at its end makes secure.
const Dialect* find_either(std::string_view scheme, bool& is_secure) {
  const Dialect* const plain = find_dialect(scheme);
  is_secure = plain == nullptr && scheme.ends_with('s');
  return is_secure ? find_dialect(scheme.substr(0, scheme.size() - 1)) : plain;
}

// The address for messages: without the user and the token.
std::string shown(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == text.npos) return std::string(text);
  const std::string_view scheme = text.substr(0, std::min(text.find("://"), text.size()));
  bool is_secure = false;
  const bool is_known = find_either(scheme, is_secure) != nullptr;
  return (is_known ? std::string(scheme) + "://" : "") + std::string(text.substr(at + 1));
}

}  // namespace

Address read_address(std::string_view text) {
  Address address;
  const std::string whole = shown(text);
  const size_t scheme_end = text.find("://");
  if (scheme_end == text.npos) {
    address.problem = "`" + whole + "` is not an address: it must begin as `resp://`";
    return address;
  }
  address.dialect = find_either(text.substr(0, scheme_end), address.is_secure);
  if (address.dialect == nullptr) {
    address.problem = "`" + whole + "`: the scheme must be one of";
    for (const Dialect* dialect : all_dialects())
      for (const std::string_view scheme : dialect->schemes)
        address.problem.append(" ").append(scheme);
    address.problem += ", with an `s` at its end for TLS";
    return address;
  }
  text.remove_prefix(scheme_end + 3);
  if (text.ends_with('/')) text.remove_suffix(1);
  if (std::string problem = read_hosts(text, address); !problem.empty())
    address.problem = "`" + whole + "`: " + problem;
  return address;
}

// Which thread polls. One has the turn; others wait for it in the order in which they came, and go
// on without it when what they wait for has happened meanwhile: the thread that has the turn
// notifies them after each round in which handlers were called.

class PollTurn {
 public:
  using Clock = std::chrono::steady_clock;
  using Future = std::future<client_result>;
  static constexpr Clock::time_point for_ever = Clock::time_point::max();

  // Waits for the turn. False: the future is ready; the caller has no turn.
  bool take_unless_ready(const Future& future) { return take(for_ever, Until::ready, &future); }
  // False: `until` has passed, or another thread has called handlers.
  bool take_unless_delivered(Clock::time_point until) {
    return take(until, Until::delivered, nullptr);
  }
  void take() { take(for_ever, Until::turn, nullptr); }
  // False: another thread has it.
  bool try_take() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(taken_, true);
  }

  // By the thread that has the turn, after it has called handlers.
  void notify_delivered() {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiters_, [](Waiter* waiter) {
      if (!waiter->is_satisfied()) return false;
      waiter->fate = Fate::satisfied;
      waiter->changed.notify_one();
      return true;
    });
  }
  // Ends the caller's turn. It passes to the thread that has waited longest.
  void give() {
    const std::lock_guard lock(mutex_);
    if (waiters_.empty()) {
      taken_ = false;
      return;
    }
    Waiter& next = *waiters_.front();
    waiters_.pop_front();
    next.fate = Fate::has_turn;
    next.changed.notify_one();
  }

 private:
  enum class Until : unsigned char { turn, ready, delivered };
  enum class Fate : unsigned char { waits, has_turn, satisfied };
  struct Waiter {
    Until until;
    const Future* future;
    Fate fate = Fate::waits;
    std::condition_variable changed{};

    bool is_satisfied() const {
      return until == Until::delivered || (until == Until::ready && is_ready(*future));
    }
  };

  static bool is_ready(const Future& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  bool take(Clock::time_point time, Until until, const Future* future) {
    std::unique_lock lock(mutex_);
    // Under the lock, so that no later delivery is missed.
    if (future != nullptr && is_ready(*future)) return false;
    if (!taken_) return taken_ = true;
    Waiter self{until, future};
    waiters_.push_back(&self);
    const auto has_ended = [&self] { return self.fate != Fate::waits; };
    if (time == for_ever)
      self.changed.wait(lock, has_ended);
    else if (!self.changed.wait_until(lock, time, has_ended))
      std::erase(waiters_, &self);
    return self.fate == Fate::has_turn;
  }

  std::mutex mutex_;
  bool taken_ = false;
  std::deque<Waiter*> waiters_;
};

}  // namespace sluice::calls

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

// What the address and the options say of TLS; empty: it is plain. The files can be used.
std::optional<net::TlsClient> checked_tls(const calls::Address& address,
                                          const client_tls_files& files) {
  const bool has_files = !files.ca.empty() || !files.certificate.empty() || !files.key.empty();
  if (!address.is_secure && has_files)
    throw std::invalid_argument("sluice::client: files for TLS go with an address of TLS, as `" +
                                std::string(address.dialect->schemes.front()) + "s://`");
  if (!address.is_secure) return std::nullopt;
  if (files.certificate.empty() != files.key.empty())
    throw std::invalid_argument("sluice::client: a certificate and its key go together");
  net::TlsClient tls{.authority = files.ca, .certificate = files.certificate, .key = files.key};
  if (const auto opened = net::TlsContext::open(tls); !opened)
    throw std::invalid_argument("sluice::client: " + opened.problem().text);
  return tls;
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
        sockets(checked_tls(address, options.tls)),
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

// Does what the core wants done. Names are looked up, and files are read, without the lock.
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
        auto tls = sockets.read_tls();
        lock.lock();
        if (core.phase(action.link) != calls::Link::Phase::connecting) continue;
        if (addresses && tls)
          sockets.connect(action.link, *std::move(addresses), *std::move(tls), core,
                          monotonic_now());
        else
          core.on_failed(action.link, addresses ? tls.problem().text : addresses.problem().text,
                         monotonic_now());
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
