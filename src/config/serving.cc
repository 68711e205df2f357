#include "config/serving.h"

#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "admin/backup_socket.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/notify.h"
#include "base/printable.h"
#include "base/signals.h"
#include "config/admin_sockets.h"
#include "config/candidate.h"
#include "config/open_store.h"
#include "config/operations.h"
#include "config/settings.h"
#include "log/log.h"
#include "log/log_file.h"

namespace sluice::config {
namespace {

constexpr size_t log_lines = log::Log::queue_lines_default;
constexpr size_t databases = 3;  // of a store on disk: blocks, counters, texts

// Without this the allocator keeps, in each thread, free blocks as large as the largest ever freed.
void give_memory_back() {
  constexpr int large_bytes = 1 << 20, free_bytes_max = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, large_bytes);
  ::mallopt(M_TRIM_THRESHOLD, free_bytes_max);
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

}  // namespace

int serve_config(const ReadConfig& read, Reloads reloads, const Flags& flags,
                 const Announcement& announcement, CommandIo& io) {
  base::Diagnostics diagnostics;
  const Config config = read(diagnostics);
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
  give_memory_back();
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
  warn_of_open(config, loaded.diagnostics);
  say(loaded.diagnostics, config, *policy_log, io);
  if (!loaded.rules) return exit_failure;
  show_rules(*loaded.rules, *policy_log);

  base::Clock clock;
  // Also at the start, a bound on the size of files (RLIMIT_FSIZE) must look like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto& store_log =
      log.logger(config.store.redis ? log::LogModule::redis : log::LogModule::store);
  server::Options options = config.options();
  const OpenedStore opened =
      open_store(config.store, options.cleanup_interval, spaces, clock, store_log);
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
  options.clock = &clock;
  options.metadata = opened.metadata;
  if (!config.store.redis && config.store.effective_durability() != Durability::none)
    options.store_files = databases * base::database_tables_max() + base::bounds::store_other_files;
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
          ->warn("commands for the admin port will not find this server by themselves: {}",
                 path.problem().text);
  }
  options.on_stop = [] { base::notify_manager("STOPPING=1"); };
  if (!set_up_admin(config, options.admin, io)) return exit_failure;
  if (opened.metrics != nullptr) options.sources.push_back(opened.metrics);
  if (file) options.reopen_log = [file] { file->reopen(); };
  server::Server server(std::move(options), std::move(policy), *opened.store, log);
  if (const auto problem = server.start()) {
    io.err << "sluice: " << *problem << std::endl;
    return exit_failure;
  }
  announce(announcement, server, opened.location, config, io);
  base::notify_manager("READY=1");
  const bool all_told = server.run();
  const int status = opened.store->close() && all_told ? exit_ok : exit_failure;
  if (!server.is_held_up()) return status;
  // A stop waits for no thread longer than seconds: nothing that is left to do needs it.
  backups.reset();
  log_of_process.reset();  // it writes what is queued
  std::_Exit(status);
}

}  // namespace sluice::config
