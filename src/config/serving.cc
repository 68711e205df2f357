#include "config/serving.h"

#include <malloc.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "admin/backup_socket.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/signals.h"
#include "config/address.h"
#include "config/admin_sockets.h"
#include "config/candidate.h"
#include "config/config.h"
#include "config/operations.h"
#include "config/settings.h"
#include "durable/durable_store.h"
#include "log/log.h"
#include "metrics/page.h"
#include "net/inherited.h"
#include "protocol/store_tools.h"
#include "redis/redis_store.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/log/folder.h"
#include "store/metadata_store.h"
#include "store/store.h"

namespace sluice::config {
namespace {

constexpr size_t log_lines = log::Log::queue_lines_default;

void prepare_allocator() {
  // Else it keeps, in each thread, free blocks as large as the largest ever freed.
  constexpr int large_bytes = 1 << 20, free_bytes_max = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, large_bytes);
  ::mallopt(M_TRIM_THRESHOLD, free_bytes_max);
  // Else it gathers small free blocks and merges all of them in one call: while a million
  // reservations end, such a call takes 10 ms.
  ::mallopt(M_MXFAST, 0);
}

// A warning if there may be fewer connections than configured, or than a server is likely to get.
std::string few_connections(const net::FilesPlan& files, const Setting<uint64_t>& asked) {
  constexpr size_t likely = 1024;
  const size_t enough = asked.origin == "default" ? std::min(asked.value, likely) : asked.value;
  if (files.connections >= enough) return {};
  return "sluice: at most " + std::to_string(files.connections) +
         " connections at a time: " + std::to_string(files.max) + " files may be open, and " +
         std::to_string(files.kept) +
         " of them are kept for the server itself; raise the limit (ulimit -n)\n";
}

void announce(const Announcement& announcement, const server::Server& server,
              const std::string& location, const Config& config, CommandIo& io) {
  const std::vector<server::Bound>& bound = server.bound();
  if (announcement.before) io.out << announcement.before(bound, config);
  for (const auto& b : bound)
    io.out << "sluice: " << b.service.name() << " listening on " << b.address << '\n';
  io.out << "sluice: counters in " << location << '\n'
         << few_connections(server.files(), config.connections);
  if (const std::string open = open_listeners(config); !open.empty())
    io.out << "sluice: other machines reach without TLS and without a token: " << open << '\n';
  for (const std::string& note : config.notes()) io.out << "sluice: " << note << '\n';
  const bool has_admin = std::any_of(bound.begin(), bound.end(), [](const server::Bound& b) {
    return b.service.kind == server::Service::Kind::admin;
  });
  if (!has_admin && !config.operations.admin_off) {
    const std::string address = format_address("127.0.0.1", admin_port);
    io.out << "sluice: no admin port; --admin " << address << " or --admin PATH"
           << (config.file.empty()
                   ? ""
                   : ", or { protocol: admin, address: \"" + address + "\" } under `listen`,")
           << " gives one\n";
  }
  if (announcement.after) io.out << announcement.after(bound, config);
  io.out.flush();
  io.out.clear();  // standard output need not be readable
}

void show_rules(const policy::RuleSet& rules, spdlog::logger& log) {
  for (const protocol::Protocol protocol : with_policy_files()) {
    if (!describe(protocol).policy->log_rules) continue;
    for (const auto& rule : rules.rules(protocol::dialect_of(protocol)))
      log.debug("{}:{}: rule [{}] {}", rule.file, rule.line, base::printable(rule.pattern),
                base::printable(rule.comment));
  }
}

// Prints the diagnostics of the start as all commands do, or as lines of the log if programs read
// the log from standard error.
void say(const base::Diagnostics& all, const Config& config, spdlog::logger& log, CommandIo& io) {
  const bool as_lines = config.log.format.value == log::LogFormat::json &&
                        config.log_file.empty() && log.should_log(spdlog::level::err);
  if (!as_lines) return tell(all, io);
  for (const auto& d : all)
    log.log(
        d.severity == base::Diagnostic::Severity::error ? spdlog::level::err : spdlog::level::warn,
        "{}", base::to_string(d));
}

// Warns of listeners to whose requests no rule can apply.
void warn_of_idle(const Config& config, const policy::RuleSet& rules,
                  base::Diagnostics& diagnostics) {
  if (!rules.native_rules().empty()) return;
  for (const protocol::Protocol protocol : with_policy_files()) {
    const protocol::Description& its = describe(protocol);
    if (its.policy->without_rules.empty() || !rules.rules(protocol::dialect_of(protocol)).empty())
      continue;
    for (const auto& [listener, origin] : config.listen) {
      if (listener.protocol != protocol || origin == "default") continue;
      base::Diagnostic d;
      d.severity = base::Diagnostic::Severity::warning;
      d.subject = "listen";
      d.message = origin + " serves " + std::string(its.name) + ", and " +
                  std::string(its.policy->without_rules);
      d.remedy = "add `policy: [" + policy_example(its) + "]`";
      diagnostics.push_back(std::move(d));
      break;
    }
  }
}

// Tells the service manager (systemd, Type=notify) how this process is doing: "READY=1",
// "STOPPING=1". Nothing happens without NOTIFY_SOCKET, or if no process listens.
void notify_manager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  const size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract one
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  [[maybe_unused]] const auto n =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
  ::close(fd);
}

// ---- The store that the settings describe ----

struct OpenedStore {
  std::unique_ptr<store::Store> store;  // null: it failed, see `problem`
  std::string problem;
  // Makes a copy while the store is in use (admin/backup_socket.h); empty: it cannot be copied.
  std::function<base::Done(const std::string& target)> backup;
  store::MetadataStore* metadata = nullptr;  // for overrides; lives as long as the store
  const metrics::Source* metrics = nullptr;  // the store's; lives as long as the store
  // Of a store that keeps holds itself (server::Options::make_holds).
  std::function<std::unique_ptr<store::HoldBook>(const store::HoldBook::Options&)> make_holds;
  base::Diagnostics diagnostics;  // warnings
  std::string location;  // for the banner: the place of the counters, and when they are forgotten
};

// The life of keys in Redis that must not expire: every key there gets one.
constexpr base::Duration redis_forever = base::seconds(int64_t{100} * 365 * 86'400);

std::string location_of(const StoreSettings& settings) {
  std::string text = base::printable(settings.path.value) + ", ";
  if (settings.effective_durability() == Durability::always)
    text += "committed before they are answered";
  else
    text += "committed every " + std::to_string(settings.interval.value.us / 1000) + " ms";
  return text + (settings.fsync.value ? ", and synced" : "");
}

// Warns if the folder has counters that the settings do not use, which may be a mistake in them.
void warn_of_unread(const StoreSettings& settings, base::Diagnostics& diagnostics) {
  const std::string& dir = settings.path.value;
  if (dir.empty() || disk::look(dir).condition == disk::Condition::absent) return;
  base::Diagnostic d;
  d.severity = base::Diagnostic::Severity::warning;
  d.subject = settings.durability.origin;
  d.message = "`" + base::printable(dir) +
              "` holds counters of an earlier start; with durability none they are neither read "
              "nor written, and every limit begins again";
  d.remedy = "set durability to interval or always to use them, or name no folder";
  diagnostics.push_back(std::move(d));
}

OpenedStore open_redis(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, std::shared_ptr<spdlog::logger> log) {
  OpenedStore opened;
  redis::Options options = settings.redis_options();
  if (!read_redis_passwords(options, opened.diagnostics)) {
    opened.problem = "the password of the Redis cannot be read";
    return opened;
  }
  const redis::Sentinels& sentinel = options.sentinel;
  std::string head = options.cluster ? "Redis Cluster at " : "Redis at ";
  if (!sentinel.master.empty())
    head = "Redis, primary `" + base::printable(sentinel.master) + "` of the sentinels at ";
  for (const redis::Node& node : sentinel.master.empty() ? options.nodes : sentinel.nodes)
    opened.location +=
        (opened.location.empty() ? head : ", ") + format_address(node.host, node.port);
  if (options.database != 0) opened.location += ", database " + std::to_string(options.database);
  options.kept_fresh_for = cleanup.us > 0 ? cleanup : redis_forever;
  options.local_bytes = settings.table_bytes();
  auto store = redis::RedisStore::open(std::move(options), spaces, std::move(log));
  if (!store) {
    opened.problem = std::move(store).problem().text;
    return opened;
  }
  opened.metrics = store->get();
  opened.metadata = &(*store)->metadata();
  opened.make_holds = [redis = store->get()](const store::HoldBook::Options& holds) {
    return redis->make_holds(holds);
  };
  opened.store = *std::move(store);
  return opened;
}

// `cleanup`: the interval at which full counters are forgotten whose limits come with requests; 0:
// never. `spaces` and `clock` outlive the store.
OpenedStore open_store(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log) {
  if (settings.redis) return open_redis(settings, cleanup, spaces, std::move(log));
  OpenedStore opened;
  auto table = store::EmbeddedStore::open(settings.memory_bytes.value, base::Hash(), spaces);
  if (!table) {
    opened.problem = "the system does not give the address space for " +
                     std::to_string(settings.memory_bytes.value) +
                     " bytes of counters; lower --memory, or raise ulimit -v";
    return opened;
  }
  const Durability durability = settings.effective_durability();
  if (durability == Durability::none) {
    warn_of_unread(settings, opened.diagnostics);
    opened.store = std::move(table);
    opened.location = "memory, forgotten at exit, not shared";
    return opened;
  }
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->store != nullptr && protocol->store->check_folder != nullptr)
      protocol->store->check_folder(settings.path.value, settings.path.origin, opened.diagnostics);
  const durable::DurableOptions options{.path = settings.path.value,
                                        .durability = durability == Durability::always
                                                          ? durable::Durability::always
                                                          : durable::Durability::interval,
                                        .interval = settings.interval.value,
                                        .sync = settings.fsync.value,
                                        .wait = settings.wait.value};
  auto durable = durable::DurableStore::open(
      options, std::move(table), spaces, [&clock] { return clock.earliest_now(); }, std::move(log));
  if (!durable) {
    opened.problem = std::move(durable).problem().text;
    return opened;
  }
  opened.backup = [store = durable->get()](const std::string& target) {
    return store->backup(target);
  };
  opened.metadata = (*durable)->metadata();
  opened.metrics = durable->get();
  opened.store = *std::move(durable);
  opened.location = location_of(settings);
  return opened;
}

}  // namespace

int serve_config(const ReadConfig& read, Reloads reloads, const Flags& flags,
                 const Announcement& announcement, CommandIo& io, const OtherVariables& others) {
  base::Diagnostics diagnostics;
  const Config config = read(diagnostics);
  warn_of_near(io, others, diagnostics);
  tell(diagnostics, io);
  if (base::has_errors(diagnostics)) return exit_failure;
  if (flags.print) {
    io.out << print_config(config) << std::flush;
    return exit_ok;
  }
  const ReadConfig same = [&config](base::Diagnostics&) { return config; };
  return run_server(config, reloads == Reloads::all ? read : same, announcement, io);
}

int run_server(const Config& config, ReadConfig read, const Announcement& announcement,
               CommandIo& io) {
  base::hold_signals();
  base::ignore_signals();
  base::raise_open_files();
  prepare_allocator();
  // Before the first thread starts, as this changes the environment.
  auto inherited = net::InheritedSockets::of_environment();
  if (!inherited) {
    io.err << "sluice: " << inherited.problem().text << std::endl;
    return exit_failure;
  }
  base::Diagnostics unfit;
  check_store(config, unfit);
  check_listeners(config, unfit);
  tell(unfit, io);
  if (base::has_errors(unfit)) return exit_failure;
  std::shared_ptr<log::LogFile> file;
  if (!config.log_file.empty()) {
    auto opened = log::LogFile::open(config.log_file);
    if (!opened) {
      io.err << "sluice: the log file " << config.log_file
             << " cannot be opened: " << opened.problem().text << std::endl;
      return exit_failure;
    }
    file = *std::move(opened);
  }
  const auto level = config.log.level.value;
  std::optional<log::Log> log_of_process;
  if (file)
    log_of_process.emplace(level, file, log_lines);
  else
    log_of_process.emplace(level);
  log::Log& log = *log_of_process;
  log.set(config.log.settings());
  const auto& policy_log = log.logger(log::LogModule::policy);
  request::Spaces spaces;
  PolicySource source(config, std::move(read), spaces);
  live::Loaded loaded = source.first();
  if (loaded.rules) warn_of_idle(config, *loaded.rules, loaded.diagnostics);
  say(loaded.diagnostics, config, *policy_log, io);
  if (!loaded.rules) return exit_failure;
  show_rules(*loaded.rules, *policy_log);

  base::Clock clock;
  // Also at the start, a bound on the size of files (RLIMIT_FSIZE) must look like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto& store_log =
      log.logger(config.store.redis ? log::LogModule::redis : log::LogModule::store);
  server::Options options = config.options();
  options.inherited = std::make_shared<net::InheritedSockets>(*std::move(inherited));
  std::optional<base::EndsAtOnce> ends(
      std::in_place, "sluice: stopped by a signal before the store was open; nothing was served\n");
  const OpenedStore opened =
      open_store(config.store, options.cleanup_interval, spaces, clock, store_log);
  ends.reset();
  say(opened.diagnostics, config, *store_log, io);
  if (!opened.store) {
    io.err << "sluice: " << opened.problem << std::endl;
    return exit_failure;
  }
  std::unique_ptr<admin::BackupSocket> backups;
  if (opened.backup) {
    auto socket = admin::BackupSocket::open(config.store.path.value, opened.backup);
    if (socket)
      backups = *std::move(socket);
    else
      store_log->warn("`sluice store backup` will not reach this server: {}",
                      socket.problem().text);
  }
  live::Policy policy;
  policy.first = {.rules = std::move(loaded.rules),
                  .hash = loaded.hash.value_or(0),
                  .users = std::move(loaded.users),
                  .warnings = live::kept_warnings(loaded.diagnostics)};
  if (source.is_repeatable()) {
    policy.files = std::move(loaded.files);
    policy.interval = loaded.interval;
    policy.diagnostics = std::move(loaded.diagnostics);
    policy.load = [&source, policy_log](uint64_t hash) {
      live::Loaded again = source.again(hash);
      if (again.rules) show_rules(*again.rules, *policy_log);
      return again;
    };
  } else {
    policy_log->warn(
        "the policy comes from a pipe, which can be read only once: it is not reloaded");
  }
  options.spaces = &spaces;
  options.make_holds = opened.make_holds;
  options.holds = {.most = config.holds.most.value,
                   .ttl = config.holds.ttl.value,
                   .remember = config.holds.remember.value};
  options.clock = &clock;
  options.metadata = opened.metadata;
  if (!config.store.redis && config.store.effective_durability() != Durability::none)
    options.store_files = base::bounds::store_files;
  // Each worker has a connection, and one that replaces it; overrides and lists have as many.
  if (config.store.redis) {
    const size_t primaries =
        config.store.redis->value.cluster ? base::bounds::redis_primaries_held : 1;
    options.redis_files =
        2 * primaries * (options.workers > 0 ? options.workers : base::processors()) + 8;
  }
  options.is_admin_socket_wanted = !config.operations.admin_socket.value.empty();
  options.admin_socket = config.operations.admin_socket.value;
  if (!options.is_admin_socket_wanted) {
    const base::Result<std::string> path = make_admin_socket_place(config, io);
    if (path)
      options.admin_socket = *path;
    else
      log.logger(log::LogModule::server)
          ->info("commands for the admin port will not find this server by themselves: {}",
                 path.problem().text);
  }
  // How long the rest of a stop may take, if a disk does not answer.
  constexpr auto stop_most = base::seconds(25);
  const std::string stop_state =
      "STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string(options.drain.us + stop_most.us);
  options.on_stop = [stop_state] { notify_manager(stop_state); };
  if (!set_up_admin(config, options.admin, io)) return exit_failure;
  if (opened.metrics != nullptr) options.sources.push_back(opened.metrics);
  for (const Policy& its : config.policy)
    if (const protocol::SentPolicy* const sent = std::as_const(*its.files).sent())
      options.feeds.push_back(sent->feed());
  if (file) options.reopen_log = [file] { file->reopen(); };
  server::Server server(std::move(options), std::move(policy), *opened.store, log);
  if (const auto problem = server.start()) {
    io.err << "sluice: " << *problem << std::endl;
    return exit_failure;
  }
  announce(announcement, server, opened.location, config, io);
  notify_manager("READY=1");
  const bool all_told = server.run();
  const int status = opened.store->close() && all_told ? exit_ok : exit_failure;
  if (!server.is_held_up()) return status;
  // A stop waits for no thread longer than seconds: nothing that is left to do needs it.
  backups.reset();
  log_of_process.reset();  // it writes what is queued
  std::_Exit(status);
}

}  // namespace sluice::config
