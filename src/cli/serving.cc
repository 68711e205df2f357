#include "cli/serving.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/notify.h"
#include "base/printable.h"
#include "cli/candidate.h"
#include "cli/open_store.h"
#include "cli/operations.h"
#include "server/backup_socket.h"

namespace sluice::cli {
namespace {

constexpr size_t log_lines = base::Log::queue_lines_default;

void announce(const Announcement& announcement, const std::vector<server::Bound>& bound,
              const std::string& kept, Outside& outside) {
  if (announcement.before) outside.out << announcement.before(bound);
  for (const auto& b : bound)
    outside.out << "sluice: " << server::name_of(b.protocol) << " listening on " << b.address
                << '\n';
  outside.out << "sluice: counters in " << kept << '\n';
  if (announcement.after) outside.out << announcement.after(bound);
  outside.out.flush();
  outside.out.clear();  // nobody has to read it
}

void show_rules(const policy::RuleSet& rules, spdlog::logger& log) {
  for (const auto& rule : rules.rules(policy::Dialect::divvy))
    log.debug("{}:{}: rule [{}] {}", rule.file, rule.line, base::printable(rule.pattern),
              base::printable(rule.comment));
}

// What the start finds: as every command tells it, or as lines of the log for programs that read
// nothing else of standard error.
void say(const base::Diagnostics& all, const Config& config, spdlog::logger& log,
         Outside& outside) {
  const bool as_lines = config.log.format.value == base::LogFormat::json &&
                        config.log_file.empty() && log.should_log(spdlog::level::err);
  if (!as_lines) return tell(all, outside);
  for (const auto& d : all)
    log.log(
        d.severity == base::Diagnostic::Severity::error ? spdlog::level::err : spdlog::level::warn,
        "{}", base::to_string(d));
}

// Every request of such a listener would be told that there is no such type.
void warn_of_limitd(const Config& config, const policy::RuleSet& rules,
                    base::Diagnostics& diagnostics) {
  if (!rules.rules(policy::Dialect::limitd).empty() || !rules.native_rules().empty()) return;
  for (const auto& [listener, origin] : config.listen) {
    if (listener.protocol != server::Protocol::limitd || origin == "default") continue;
    base::Diagnostic d;
    d.severity = base::Diagnostic::Severity::warning;
    d.subject = "listen";
    d.message = origin +
                " serves limitd, and there is no bucket type: every request is answered "
                "UNKNOWN_BUCKET_TYPE";
    d.remedy = "add `policy: [{ limitd: limitd.yaml }]`";
    diagnostics.push_back(std::move(d));
    return;
  }
}

}  // namespace

int run_server(const Config& config, ReadConfig read, const Announcement& announcement,
               Outside& outside) {
  base::Diagnostics unfit;
  check_store(config, unfit);
  tell(unfit, outside);
  if (base::has_errors(unfit)) return exit_failure;
  std::shared_ptr<base::LogFile> file;
  if (!config.log_file.empty()) {
    std::string problem;
    file = base::LogFile::open(config.log_file, problem);
    if (!file) {
      outside.err << "sluice: the log file " << config.log_file << " cannot be opened: " << problem
                  << std::endl;
      return exit_failure;
    }
  }
  const auto level = config.log.level.value;
  base::Log log = file ? base::Log(level, file, log_lines) : base::Log(level);
  log.set(config.log.settings());
  const auto& policy_log = log.logger(base::LogModule::policy);
  limit::Spaces spaces;
  PolicySource source(config, std::move(read), spaces);
  server::Loaded loaded = source.first();
  if (loaded.rules) warn_of_limitd(config, *loaded.rules, loaded.diagnostics);
  say(loaded.diagnostics, config, *policy_log, outside);
  if (!loaded.rules) return exit_failure;
  show_rules(*loaded.rules, *policy_log);

  base::Clock clock;
  const auto& store_log =
      log.logger(config.store.redis ? base::LogModule::redis : base::LogModule::store);
  const OpenedStore opened =
      open_store(config.store, config.cleanup_interval.value, spaces, clock, store_log);
  say(opened.diagnostics, config, *store_log, outside);
  if (!opened.store) {
    outside.err << "sluice: " << opened.problem << std::endl;
    return exit_failure;
  }
  std::unique_ptr<server::BackupSocket> backups;
  if (opened.backup) {
    std::string problem;
    backups = server::BackupSocket::open(config.store.path.value, opened.backup, problem);
    if (!backups) store_log->warn("`sluice store backup` will not reach this server: {}", problem);
  }
  server::Policy policy;
  policy.first = {std::move(loaded.rules), loaded.hash.value_or(0)};
  if (source.is_repeatable()) {
    policy.files = std::move(loaded.files);
    policy.interval = loaded.interval;
    policy.diagnostics = std::move(loaded.diagnostics);
    policy.load = [&source, policy_log](uint64_t hash) {
      server::Loaded again = source.again(hash);
      if (again.rules) show_rules(*again.rules, *policy_log);
      return again;
    };
  } else {
    policy_log->warn("the policy comes from what can be read only once: it is not reloaded");
  }
  server::Options options = config.options();
  options.spaces = &spaces;
  options.keeper = opened.keeper;
  options.on_stop = [] { base::notify_manager("STOPPING=1"); };
  if (!set_up_admin(config, options.admin, outside)) return exit_failure;
  if (opened.metrics != nullptr) options.sources.push_back(opened.metrics);
  if (file) options.on_hangup = [file] { file->reopen(); };
  server::Server server(std::move(options), std::move(policy), *opened.store, log);
  if (const auto problem = server.start()) {
    outside.err << "sluice: " << *problem << std::endl;
    return exit_failure;
  }
  announce(announcement, server.bound(), opened.kept, outside);
  base::notify_manager("READY=1");
  server.run();
  return opened.store->close() ? exit_ok : exit_failure;
}

}  // namespace sluice::cli
