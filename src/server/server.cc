#include "server/server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/counters.h"
#include "admin/status_api.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/signals.h"
#include "engine/admin_query.h"
#include "engine/lists.h"
#include "live/live_policy.h"
#include "net/event_loop.h"
#include "net/inherited.h"
#include "net/listener.h"
#include "net/signals.h"
#include "net/socket_address.h"
#include "otlp/exporter.h"
#include "request/charge_ids.h"
#include "server/admin_plane.h"
#include "server/doors.h"
#include "server/server_view.h"
#include "server/tls_watch.h"
#include "server/worker.h"
#include "store/holds.h"

namespace sluice::server {

using log::LogModule;

namespace {

// So that a stop takes less than five seconds, whatever the clients do, and one more where what is
// traced is still to be sent.
constexpr auto stop_limit = std::chrono::milliseconds(4000);
constexpr int housekeeping_niceness = 10;
constexpr auto overrides_told_every = std::chrono::milliseconds(20);
const char* kind_name(Service::Kind kind) {
  return kind == Service::Kind::requests ? "requests"
         : kind == Service::Kind::page   ? "page"
         : kind == Service::Kind::health ? "health"
                                         : "admin";
}

constexpr std::string_view http1_alone = "\x08http/1.1";  // as ALPN has it
constexpr std::string_view too_many = "too many connections; this server has reached its bound";

// The metrics of the lists of limits that requests bring. Any thread.
class BroughtLimitsSource final : public metrics::Source {
 public:
  explicit BroughtLimitsSource(const request::Spaces& spaces) : spaces_(spaces) {}

  void collect(metrics::Page& page) const override {
    const request::Spaces::BroughtCounts counts = spaces_.brought();
    page.gauge("sluice_limit_lists", "Different lists of limits that are known.",
               static_cast<double>(spaces_.known_lists()));
    page.counter("sluice_brought_limits_given_way_total",
                 "Lists of limits that came with requests and gave way to others.",
                 static_cast<double>(counts.given_way));
    page.counter("sluice_brought_limits_refused_total",
                 "Requests with limits of their own that failed as there were too many different "
                 "ones.",
                 static_cast<double>(counts.refused));
  }

 private:
  const request::Spaces& spaces_;
};

// The metrics of the ids of charges. Any thread.
class ChargeIdsSource final : public metrics::Source {
 public:
  explicit ChargeIdsSource(const request::ChargeIds& ids) : ids_(ids) {}

  void collect(metrics::Page& page) const override {
    const request::ChargeIds::Figures figures = ids_.figures();
    page.gauge("sluice_charge_ids", "Ids of charges that are remembered.",
               static_cast<double>(figures.remembered));
    page.counter("sluice_charges_repeated_total",
                 "Charges that were sent again with their id and answered as the first time.",
                 static_cast<double>(figures.repeated));
    page.counter("sluice_charge_ids_forgotten_total",
                 "Ids of charges that were forgotten before their time, for lack of memory.",
                 static_cast<double>(figures.forgotten));
  }

 private:
  const request::ChargeIds& ids_;
};

// The metrics of holds. Any thread.
class HoldsSource final : public metrics::Source {
 public:
  explicit HoldsSource(const store::HoldBook& holds) : holds_(holds) {}

  void collect(metrics::Page& page) const override {
    const store::HoldBook::Figures figures = holds_.figures();
    const auto each_kind = [&](const char* name, const char* help, size_t all, size_t places,
                               bool is_gauge, const metrics::Labels& more) {
      for (const bool place : {false, true}) {
        metrics::Labels labels{{"kind", place ? "place" : "reservation"}};
        labels.insert(labels.end(), more.begin(), more.end());
        const auto value = static_cast<double>(place ? places : all - places);
        is_gauge ? page.gauge(name, help, value, labels) : page.counter(name, help, value, labels);
      }
    };
    each_kind("sluice_holds", "Units that are held, and not settled yet: how many such holds.",
              figures.holds, figures.places, true, {});
    page.gauge("sluice_holds_remembered", "Settled holds whose ids are remembered.",
               static_cast<double>(figures.remembered));
    for (size_t i = 0; i < figures.events.size(); ++i)
      each_kind("sluice_holds_total", "What came of holds.", figures.events[i],
                figures.of_places[i], false,
                {{"outcome", std::string(store::HoldBook::event_names[i])}});
    page.counter("sluice_reserved_units_total", "Units that committed reservations had reserved.",
                 static_cast<double>(figures.reserved_units));
    page.counter("sluice_actual_units_total", "Units that committed reservations came to.",
                 static_cast<double>(figures.used_units));
  }

 private:
  const store::HoldBook& holds_;
};

}  // namespace

struct Server::Impl {
  // Takes over the holds of the last start.
  void restore(store::Holds& its) {
    const base::Result<size_t> unreadable = its.restore(clock.now());
    if (!unreadable)
      log->error("the reservations of the last start cannot be read, and are lost: {}",
                 unreadable.problem().text);
    else if (*unreadable > 0)
      log->error(
          "{} reservations of the last start cannot be read, and are lost: what they held stays "
          "taken; were they written by a newer version?",
          *unreadable);
  }

  Impl(Options o, live::Policy policy, store::Store& s, log::Log& l)
      : options(std::move(o)),
        store(s),
        log(l.logger(LogModule::server)),
        policy_log(l.logger(LogModule::policy)),
        requests_log(l.logger(LogModule::requests)),
        changes(l.logger(LogModule::admin)),
        live(named(std::move(policy.first))) {
    const std::vector<std::string> files = policy.files;
    if (policy.load) make_reloader(std::move(policy));
    if (options.spaces != nullptr) {
      overrides.emplace(live::OverrideRegistry::Deps{*options.spaces, live, clock, options.metadata,
                                                     [this] { on_overrides(); }, policy_log,
                                                     base::bounds::override_limits_max, &changes});
      collector.emplace(*options.spaces, live, store.catalog(), [this](std::function<void()> done) {
        loop.post([this, done = std::move(done)] {
          live.renew();
          for (auto& worker : workers) worker->on_new_policy();
          done();
        });
      });
      admin_plane.add_source(brought_limits.emplace(*options.spaces));
    }
    if (options.spaces != nullptr) {
      if (options.make_holds) {
        holds = options.make_holds(options.holds);
      } else {
        auto its = std::make_unique<store::Holds>(store, *options.spaces, options.holds);
        restore(*its);
        holds = std::move(its);
      }
      admin_plane.add_source(holds_source.emplace(*holds));
    }
    admin_plane.add_source(doors);
    admin_plane.add_source(charge_ids_source);
    admin_plane.add_source(tls_watch);
    for (const auto& feed : options.feeds) admin_plane.add_source(*feed);
    admin_plane.prepare(options, live, reloader ? &*reloader : nullptr,
                        overrides ? &*overrides : nullptr, holds.get(), files, store.catalog(),
                        clock, l, changes);
    queries.set_post([this](std::shared_ptr<engine::AdminQuery> query) {
      workers[asked++ % workers.size()]->run_query(std::move(query));
    });
    counter_routes.emplace(admin::CounterRoutes::Deps{live, queries, clock, store,
                                                      overrides ? &overrides->table() : nullptr,
                                                      &changes, holds.get()});
    if (admin_plane.has_admin()) {
      counter_routes->add_to(admin_plane.admin());
      admin::add_status(admin_plane.admin(),
                        {.live = live,
                         .history = reloader ? &reloader->history() : nullptr,
                         .overrides = overrides ? &*overrides : nullptr,
                         .store = store.catalog(),
                         .server_stats = admin_plane.server_stats(),
                         .rates = admin_plane.rates(),
                         .listeners = [this] { return listeners_shown(); },
                         .connections_refused = [this] { return doors.count_turned_away(); },
                         .feeds =
                             [this] {
                               std::vector<protocol::PolicyFeed::State> all;
                               for (const auto& feed : options.feeds) all.push_back(feed->state());
                               return all;
                             },
                         .collectors =
                             [this] {
                               std::vector<admin::CollectorJson> all;
                               if (exporter == nullptr) return all;
                               for (const otlp::Exporter::State& one : exporter->states())
                                 all.push_back({one.signal, one.endpoint, one.sent, one.failed,
                                                one.dropped, one.problem});
                               return all;
                             }});
    }
    for (const protocol::Protocol protocol : protocol::numbers())
      views.emplace_back(options.admin.version, admin_plane.stopping(), admin_plane.server_stats(),
                         store.catalog(), protocol, log);
  }

  // Overrides that other servers set arrive through `loop`, which is destroyed before the registry.
  ~Impl() {
    if (overrides) overrides->end();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void make_reloader(live::Policy policy) {
    const auto publish = [this](std::shared_ptr<const live::LivePolicy> next) {
      loop.post([this, next = std::move(next)] { go_live(next); });
    };
    const auto load = [this, read = std::move(policy.load)](uint64_t hash) {
      live::Loaded loaded = read(hash);
      if (loaded.rules) loaded.names = admin_plane.server_stats().name_rules(*loaded.rules);
      return loaded;
    };
    reloader.emplace(live.current(), load, std::move(policy.files), publish, policy_log,
                     policy.interval, std::move(policy.diagnostics), &changes);
  }

  // Gives the rules their numbers in metrics, by their names.
  live::LivePolicy named(live::LivePolicy first) {
    first.names = admin_plane.server_stats().name_rules(*first.rules);
    return first;
  }

  std::vector<admin::ListenerJson> listeners_shown() const;
  request::Peer peer_of(int fd, protocol::Protocol protocol) const;
  void take(int fd, const ListenerOptions& listener, const ListenerView& view,
            const net::ListenerTls* tls);
  bool has_room();
  std::optional<std::string> plan();
  std::optional<std::string> open_admin_socket();
  void go_live(const std::shared_ptr<const live::LivePolicy>& next);
  void on_overrides();
  void notify_overrides();
  void on_signal(int number);
  void read_again(int number);
  void end(int number);
  void drain(int number);
  void end_drain();
  void start_feeds();
  std::optional<std::string> apply_sent(const std::string& by);
  void stop_feeds();
  void tell_stop();
  void stop();
  void on_ended();
  bool purges() const;
  void purge();
  void log_regexes_given_up();
  void log_too_costly();
  void log_passed_over();
  void log_forgotten_ids();
  void keep_house();
  void close_house();

  const Options options;
  store::Store& store;
  const std::shared_ptr<spdlog::logger> log, policy_log, requests_log;
  live::ChangeLog changes;
  Doors doors{log};
  TlsWatch tls_watch{log};
  const std::unique_ptr<request::ChargeIds> charge_ids = std::make_unique<request::ChargeIds>();
  ChargeIdsSource charge_ids_source{*charge_ids};
  std::unique_ptr<store::HoldBook> holds;  // none: the store keeps none
  std::optional<HoldsSource> holds_source;
  std::optional<BroughtLimitsSource> brought_limits;  // none: requests cannot bring limits
  std::deque<ListenerView> listener_views;
  AdminPlane admin_plane;
  std::deque<ServerView> views;  // by the protocols' numbers
  live::Live live;
  access::Access access{live.current()->users};
  base::Clock own_clock;
  base::Clock& clock = options.clock != nullptr ? *options.clock : own_clock;
  std::optional<live::OverrideRegistry> overrides;
  std::optional<live::LimitsCollector> collector;  // the housekeeping thread's
  std::atomic<bool> telling_overrides{false};
  std::chrono::steady_clock::time_point told_overrides_at{};
  net::EventLoop loop;
  std::optional<net::Signals> signals;
  net::Timer overrides_timer{loop, [this] { notify_overrides(); }};
  net::Timer drain_timer{loop, [this] { end_drain(); }};
  std::unique_ptr<otlp::Exporter> exporter;  // null: nothing is sent by OTLP
  std::vector<std::unique_ptr<Worker>> workers;
  engine::TableScanner scanner{store.catalog()};  // it calls workers' loops, so it ends before them
  engine::AdminQueries queries{store, scanner};
  std::optional<admin::CounterRoutes> counter_routes;
  std::atomic<size_t> asked{0};  // counts queries, which go to the workers in turn
  std::vector<std::unique_ptr<net::Listener>> listeners;
  std::unique_ptr<net::UnixListener> admin_socket;  // null: there is none
  std::vector<Bound> bound;
  net::FilesPlan files_plan;
  size_t ended = 0;  // workers
  std::thread house;
  std::mutex house_mutex;
  std::condition_variable house_closed;
  bool stopping_house = false;  // guarded by house_mutex
  std::atomic<bool> stopping_feeds{false};
  bool draining = false, stopping = false, cut_off = false;
  bool is_held_up = false;  // a thread does not end
  // Used by the housekeeping thread: how often regular expressions had given up at the last look,
  // and in which generation of the policy.
  uint64_t given_up = 0, given_up_in = 0;
  // The same for requests that took too many steps to match.
  uint64_t too_costly = 0, too_costly_in = 0, too_costly_overrides = 0;
  uint64_t forgotten_ids = 0;
  std::optional<live::Reloader> reloader;
};

Server::Server(Options options, live::Policy policy, store::Store& store, log::Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(policy), store, log)) {}

Server::~Server() = default;

bool Server::is_held_up() const {
  return impl_->is_held_up;
}

const std::vector<Bound>& Server::bound() const {
  return impl_->bound;
}

const net::FilesPlan& Server::files() const {
  return impl_->files_plan;
}

std::optional<std::string> Server::start() {
  auto& s = *impl_;
  base::ignore_signals();
  // Signals are caught from here on: a program that has read the banner may send one at once.
  s.signals.emplace(s.loop, std::vector{SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1},
                    [&s](int number) { s.on_signal(number); });
  base::release_signals();
  net::InheritedSockets* const inherited = s.options.inherited.get();
  if (inherited != nullptr && !inherited->ignored().empty())
    s.log->warn("{}", inherited->ignored());
  for (const auto& named : s.options.listeners) {
    std::shared_ptr<net::ListenerTls> tls;
    if (named.tls) {
      auto opened = net::ListenerTls::open(*named.tls, named.service.is_http()
                                                           ? http1_alone
                                                           : describe(named.service.protocol).alpn);
      if (!opened)
        return "listen " + named.host + ":" + std::to_string(named.port) + ": " +
               opened.problem().text;
      tls = *std::move(opened);
    }
    std::vector<net::Endpoint> addresses;
    if (auto wrong = net::Listener::resolve({named.host, named.port, named.timeouts}, addresses))
      return wrong;
    for (auto& address : addresses) {
      // With port 0 the first address gets a free port, and the name's other addresses the same
      // one.
      if (&address != &addresses.front()) address.port = s.bound.back().port;
      ListenerView& view = s.listener_views.emplace_back(
          named.service.name(), named.own_unmatched.value_or(named.unmatched), s.log);
      const auto take = [&s, &named, &view, tls](int fd) { s.take(fd, named, view, tls.get()); };
      net::Listener::Owner owner{[&s] { return s.has_room(); }, {}, {}};
      if (named.service.is_http()) owner = s.admin_plane.http_owner();
      owner.paused = [&s] { s.doors.paused(); };
      s.listeners.push_back(std::make_unique<net::Listener>(s.loop, address, take, s.log, owner));
      if (auto wrong = s.listeners.back()->bind(inherited))
        return inherited == nullptr || inherited->left().empty()
                   ? *wrong
                   : *wrong + "; the service manager passes sockets on " + inherited->left() +
                         ": `listen` and the socket unit have to name the same addresses";
      s.bound.push_back({named.service, s.listeners.back()->address(), s.listeners.back()->port()});
      view.set_address(s.bound.back().address);
      if (tls != nullptr) s.tls_watch.add(s.bound.back().address, tls);
      if (!named.service.is_http()) s.admin_plane.add_source(view);
    }
  }
  if (const std::string left = inherited == nullptr ? "" : inherited->left(); !left.empty())
    return "the service manager passes sockets that nothing here listens on: " + left +
           "; take them out of the socket unit, or add these addresses to `listen`";
  if (!s.options.admin_socket.empty())
    if (auto wrong = s.open_admin_socket(); wrong && s.options.is_admin_socket_wanted) return wrong;
  if (s.overrides)
    if (auto wrong = s.overrides->load()) return wrong;
  if (s.options.otlp.is_wanted()) {
    auto made = otlp::Exporter::make(s.options.otlp, s.options.admin.version,
                                     s.admin_plane.sources(), s.log);
    if (!made) return "OTLP: " + made.problem().text;
    s.exporter = *std::move(made);
    s.admin_plane.add_source(*s.exporter);
  }
  base::raise_open_files();
  const unsigned count = s.options.workers > 0 ? s.options.workers : base::processors();
  admin::TopBoard* const board = s.admin_plane.top_board();
  try {  // each worker opens descriptors
    for (unsigned i = 0; i < count; ++i) {
      s.workers.push_back(std::make_unique<Worker>(
          s.store, s.clock, s.live, s.scanner,
          Worker::Watch{.stats = s.admin_plane.server_stats().add_worker(),
                        .denials = s.admin_plane.denials(),
                        .keys_hash = board == nullptr ? nullptr : &board->hash(),
                        .spans = s.exporter == nullptr ? nullptr : s.exporter->add_worker()},
          Worker::Matching{.overrides = s.overrides ? &s.overrides->table() : nullptr,
                           .spaces = s.options.spaces,
                           .holds = s.holds.get()},
          s.requests_log));
      if (board == nullptr) continue;
      Worker& worker = *s.workers.back();
      const auto visit_worker = [&worker](admin::TopBoard::Visit visit) {
        worker.visit_top_keys(std::move(visit));
      };
      board->add(visit_worker);
      s.admin_plane.denial_board()->add(visit_worker);
    }
  } catch (const std::system_error& e) {
    return "cannot make " + std::to_string(count) + " workers: " + e.code().message() +
           "; raise the limit of open files (ulimit -n) or use fewer workers";
  }
  if (s.reloader)
    if (auto wrong = s.reloader->start()) return wrong;
  return s.plan();
}

std::optional<std::string> Server::Impl::open_admin_socket() {
  auto opened = net::UnixListener::open(options.admin_socket);
  if (!opened) {
    const std::string& problem = opened.problem().text;
    log->info("commands for the admin port will not find this server by themselves: {}", problem);
    return problem;
  }
  admin_socket = *std::move(opened);
  bound.push_back({Service::admin(), options.admin_socket, 0});
  return {};
}

// Called once all descriptors are open that are needed without a client.
std::optional<std::string> Server::Impl::plan() {
  const net::FilesNeeded needed{.store = options.store_files,
                                .redis = options.redis_files,
                                .http = admin_plane.serves_http(),
                                .statsd = options.statsd.has_value(),
                                .otlp = exporter != nullptr};
  files_plan = plan_files(base::open_files_max(), base::open_files(), needed);
  if (files_plan.connections > 0) return {};
  return "only " + std::to_string(files_plan.max) + " files may be open, and " +
         std::to_string(files_plan.kept) +
         " are needed without a single connection; raise the limit of open files (ulimit -n)";
}

bool Server::run() {
  auto& s = *impl_;
  const size_t count = s.workers.size();
  for (auto& worker : s.workers) worker->start([&s] { s.loop.post([&s] { s.on_ended(); }); });
  if (s.purges()) s.purge();  // full counters of an earlier run; clients have no bucket yet
  s.house = std::thread([&s] { s.keep_house(); });
  s.admin_plane.start(s.files_plan.admin_connections);
  if (s.admin_socket) s.admin_plane.serve(*s.admin_socket);
  s.log->info("serving with {} {}", count, count == 1 ? "worker" : "workers");
  s.policy_log->info("policy generation {}", to_text(*s.live.current()));
  s.start_feeds();
  if (s.exporter != nullptr) s.exporter->start();
  s.tls_watch.start();
  s.loop.run();
  s.stop_feeds();
  s.tls_watch.stop();
  for (auto& worker : s.workers) worker->join();
  if (s.exporter != nullptr) s.exporter->stop();
  s.queries.end();
  s.store.catalog().end_lists();
  if (s.reloader && !s.reloader->stop()) s.is_held_up = true;
  s.close_house();
  if (!s.admin_plane.stop()) s.is_held_up = true;
  s.admin_socket.reset();
  s.log->info("stopped");
  return !s.cut_off;
}

void Server::Impl::start_feeds() {
  for (const auto& feed : options.feeds)
    feed->start([this, by = feed->state().from] { return apply_sent(by); }, policy_log);
}

// Called by a feed's thread. Nothing: what was sent is live.
std::optional<std::string> Server::Impl::apply_sent(const std::string& by) {
  constexpr auto step = std::chrono::milliseconds(100);
  if (!reloader) return "the configuration comes from a pipe, and cannot be read again";
  const uint64_t request = reloader->request(by, false);
  while (!stopping_feeds) {
    const auto reading =
        reloader->history().await(request, std::chrono::steady_clock::now() + step);
    if (!reading) continue;
    if (reading->outcome != live::Reading::Outcome::refused) return std::nullopt;
    return reading->diagnostics.empty() ? "the policy was refused"
                                        : base::to_string(reading->diagnostics.front());
  }
  return "the server stops";
}

void Server::Impl::stop_feeds() {
  stopping_feeds = true;
  for (const auto& feed : options.feeds) feed->stop();
}

// A connection needs a descriptor, even one that is refused.
bool Server::Impl::has_room() {
  for (const auto& listener : listeners)
    if (!listener->has_spare()) return false;
  size_t there = 0;
  for (const auto& worker : workers) there += worker->connections() + worker->turned_away();
  return there < files_plan.connections;
}

// `bound` does not change once the admin port serves.
std::vector<admin::ListenerJson> Server::Impl::listeners_shown() const {
  std::vector<admin::ListenerJson> all;
  for (const Bound& one : bound) {
    admin::ListenerJson& json = all.emplace_back(admin::ListenerJson{
        std::string(one.service.name()), kind_name(one.service.kind), one.address});
    const net::ListenerTls* const tls = tls_watch.of(one.address);
    const size_t number = all.size() - 1;
    json.is_open = one.service.kind == Service::Kind::requests && tls == nullptr &&
                   number < listener_views.size() && !listener_views[number].is_loopback() &&
                   (!describe(one.service.protocol).authenticates || access.users()->empty());
    if (tls != nullptr)
      json.tls = {tls->settings().certificate, tls->context()->expires(), tls->problem()};
  }
  return all;
}

request::Peer Server::Impl::peer_of(int fd, protocol::Protocol protocol) const {
  const auto number = static_cast<size_t>(protocol);
  request::Peer peer{.server = &views[number],
                     .options = options.session_options[number].get(),
                     .access = &access,
                     .charge_ids = charge_ids.get()};
  if (!describe(protocol).wants_address) return peer;
  if (const auto address = net::SocketAddress::peer(fd)) peer.address = address->unmapped().text();
  if (const auto own = net::SocketAddress::local(fd)) peer.port = own->port();
  return peer;
}

// The worker with the fewest connections serves this one.
void Server::Impl::take(int fd, const ListenerOptions& listener, const ListenerView& view,
                        const net::ListenerTls* tls) {
  const Service& service = listener.service;
  const auto context = tls == nullptr ? nullptr : tls->context();
  if (admin_plane.take(fd, service, context)) return;
  size_t served = 0, turned_away = 0;
  Worker* least = nullptr;
  for (auto& worker : workers) {
    served += worker->connections();
    turned_away += worker->turned_away();
    if (least == nullptr || worker->connections() < least->connections()) least = worker.get();
  }
  Accepted accepted{service.protocol, listener.timeouts, context, peer_of(fd, service.protocol),
                    listener.unmatched};
  accepted.peer.strict = listener.strict;
  accepted.peer.listener = &view;
  if (served < options.connections_max) return least->adopt(fd, accepted, "");
  doors.turned_away();
  // To tell a client the reason costs a connection for a moment; beyond a bound clients are closed
  // without it.
  if (turned_away < base::bounds::turned_away_max) return least->adopt(fd, accepted, too_many);
  ::close(fd);
}

void Server::Impl::on_signal(int number) {
  if (number == SIGHUP || number == SIGUSR1)
    read_again(number);
  else
    end(number);
}

void Server::Impl::read_again(int number) {
  if (options.reopen_log) options.reopen_log();
  if (number == SIGUSR1)
    log->info("signal {}: {}", number,
              options.reopen_log ? "the log's file is opened again" : "the log is in no file");
  else if (reloader)
    reloader->request("SIGHUP");
  else
    log->info("signal {}: there is no policy to read again", number);
}

// The store writes its last changes, however many signals come.
void Server::Impl::end(int number) {
  if (!draining && !stopping && options.drain.us > 0) return drain(number);
  if (!stopping) {
    log->info("signal {}: stopping; a second one closes all connections at once", number);
    return stop();
  }
  if (std::exchange(cut_off, true)) return;
  log->warn("signal {}: connections are closed, and replies may be missing", number);
  for (auto& worker : workers) worker->stop({});
}

// Load balancers learn from /health/ready, or from their cluster, that no more clients may come,
// and until they have, clients are served.
void Server::Impl::drain(int number) {
  log->info("signal {}: not ready any more, and stopping in {} ms; a second one stops at once",
            number, options.drain.us / 1000);
  draining = true;
  tell_stop();
  drain_timer.set_after(std::chrono::microseconds(options.drain.us));
}

void Server::Impl::end_drain() {
  if (!stopping) stop();
}

void Server::Impl::tell_stop() {
  admin_plane.begin_stop();
  if (options.on_stop) options.on_stop();
}

void Server::Impl::stop() {
  stopping = true;
  if (!draining) tell_stop();
  // Clients that watch the server are notified of the stop while it lasts.
  for (size_t i = 0; i < listeners.size(); ++i)
    if (!bound[i].service.is_http()) listeners[i]->stop();
  for (auto& worker : workers) worker->stop(stop_limit);
}

// On this thread, not on the reloader's: see Live::exchange.
void Server::Impl::go_live(const std::shared_ptr<const live::LivePolicy>& next) {
  const auto old = live.exchange(next);
  if (next->users != old->users) access.set(next->users);
  for (auto& worker : workers) worker->on_new_policy();
  policy_log->info("policy generation {}, was generation {}", to_text(*next), old->generation);
}

// Decisions see a new override at once. For waiting requests this must be called: it has all of
// them matched again, so it is called at most once in a while. Any thread.
void Server::Impl::on_overrides() {
  if (telling_overrides.exchange(true)) return;
  loop.post([this] { overrides_timer.set(told_overrides_at + overrides_told_every); });
}

void Server::Impl::notify_overrides() {
  telling_overrides = false;
  told_overrides_at = std::chrono::steady_clock::now();
  for (auto& worker : workers) worker->on_new_overrides();
}

// The main loop ends with the last worker; until then it handles a second signal.
void Server::Impl::on_ended() {
  if (++ended == workers.size()) loop.stop();
}

// Is a protocol served whose full counters are purged?
bool Server::Impl::purges() const {
  return options.cleanup_interval.us > 0 &&
         std::any_of(options.listeners.begin(), options.listeners.end(), [this](const auto& l) {
           return options.cleaned_protocol && l.service.serves(*options.cleaned_protocol);
         });
}

void Server::Impl::purge() {
  const size_t gone = store.catalog().purge(clock.earliest_now());
  if (gone > 0)
    log->debug("{}: purged {} full {}, {} since the start",
               protocol::name_of(*options.cleaned_protocol), gone, gone == 1 ? "bucket" : "buckets",
               store.catalog().stats().purged);
}

// Logs values that were too costly for a regular expression, which count as no match. The
// housekeeping thread runs beside everything else at low priority, as a round through a large table
// takes a while.
void Server::Impl::log_regexes_given_up() {
  const auto policy = live.shown();
  const uint64_t before = policy->generation == given_up_in ? given_up : 0;
  given_up = policy->rules->regexes_given_up();
  given_up_in = policy->generation;
  if (given_up == before) return;
  policy_log->warn(
      "regular expressions gave up on {} values, {} since policy generation {} is live; these "
      "count as no match; write the expression without repeats within repeats",
      given_up - before, given_up, given_up_in);
}

// Requests that cost too much to match are refused or fail: the log says why.
void Server::Impl::log_too_costly() {
  const auto policy = live.shown();
  const uint64_t by_rules = policy->rules->too_costly(),
                 by_overrides = overrides ? overrides->table().too_costly() : 0;
  if (policy->generation != too_costly_in) too_costly = 0;
  too_costly_in = policy->generation;
  if (by_rules != too_costly)
    policy_log->warn(
        "{} requests took more than {} steps to match with the policy and were answered with an "
        "error; such have long values, and many rules a `*` in front of other characters",
        by_rules - too_costly, base::bounds::match_steps_max);
  if (by_overrides != too_costly_overrides)
    policy_log->warn(
        "{} keys took more than {} steps to compare with the patterns of overrides and were "
        "denied; such are long, and many patterns have a `*` in front of other characters",
        by_overrides - too_costly_overrides, base::bounds::match_steps_max);
  too_costly = by_rules;
  too_costly_overrides = by_overrides;
}

void Server::Impl::log_passed_over() {
  const uint64_t count = admin_plane.denials().take_passed_over();
  if (count == 0) return;
  requests_log->info("{} more denials were skipped; at most {} a second are logged", count,
                     engine::DenialSampler::lines_per_second_max);
}

void Server::Impl::log_forgotten_ids() {
  const uint64_t all = charge_ids->figures().forgotten;
  if (all == forgotten_ids) return;
  log->warn(
      "{} ids of charges were forgotten before their time, as they need more memory than the "
      "server "
      "has for them: such a charge is counted again if it is sent again",
      all - std::exchange(forgotten_ids, all));
}

void Server::Impl::keep_house() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), housekeeping_niceness);
  auto purged_at = std::chrono::steady_clock::now(), told_at = purged_at;
  std::unique_lock lock(house_mutex);
  const auto period = std::chrono::microseconds(store::Catalog::housekeeping_period.us);
  const auto cleanup_interval = std::chrono::microseconds(options.cleanup_interval.us);
  while (!house_closed.wait_for(lock, period, [this] { return stopping_house; })) {
    lock.unlock();
    store.catalog().housekeep(clock.earliest_now());
    if (overrides) overrides->housekeep();
    if (collector) collector->step();
    if (std::chrono::steady_clock::now() - told_at >= std::chrono::seconds(1)) {
      log_regexes_given_up();
      log_too_costly();
      log_passed_over();
      log_forgotten_ids();
      admin_plane.sample_rates();
      if (auto* const denials = admin_plane.denial_board()) denials->collect_some();
      doors.tell(admin_plane.server_stats().closed(), std::chrono::steady_clock::now());
      told_at = std::chrono::steady_clock::now();
    }
    if (purges() && std::chrono::steady_clock::now() - purged_at >= cleanup_interval) {
      purge();
      purged_at = std::chrono::steady_clock::now();
    }
    lock.lock();
  }
}

void Server::Impl::close_house() {
  {
    const std::lock_guard lock(house_mutex);
    stopping_house = true;
  }
  house_closed.notify_one();
  house.join();
  log_passed_over();
  doors.tell(admin_plane.server_stats().closed(), std::chrono::steady_clock::now(), true);
}

}  // namespace sluice::server
