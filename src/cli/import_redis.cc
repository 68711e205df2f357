#include "cli/import_redis.h"

#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "cli/inspect.h"
#include "config/import_redis.h"
#include "config/screen_text.h"
#include "policy/read/native_apart.h"

namespace sluice::cli {
namespace {

using config::RedisImportReport;

// The indices of the options.
enum : size_t {
  from_option,
  to_option,
  config_option,
  prefix_option,
  from_user_option,
  from_password_option,
  from_tls_option,
  to_user_option,
  to_password_option,
  to_tls_option,
  overwrite_option,
  dry_run_option
};

constexpr protocol::StoreOption import_options[] = {
    {"--from", "HOST:PORT[/DB]", "the single Redis, and the database; default 0",
     "which has the counters"},
    {"--to-cluster", "NODES", "some nodes of the Redis Cluster, HOST:PORT apart by commas",
     "which gets the counters"},
    {"--config", "FILE", "the sluice.yaml of the servers, or their file of policies",
     "which names the rules"},
    {"--key-prefix",
     "TEXT",
     "before all keys that are not shared; by default what FILE says, or sluice:",
     {}},
    {"--from-user", "NAME", "the user at the single Redis", {}},
    {"--from-password-file", "FILE", "the file that holds its password", {}},
    {"--from-tls", {}, "reach the single Redis by TLS", {}},
    {"--to-user", "NAME", "the user at the cluster", {}},
    {"--to-password-file", "FILE", "the file that holds its password", {}},
    {"--to-tls", {}, "reach the cluster by TLS", {}},
    {"--overwrite", {}, "replace what the cluster has, even if more is used there", {}},
    {"--dry-run", {}, "count what would be imported and write nothing", {}}};

// A line of a terminal that is overwritten with each progress report.
class ProgressLine {
 public:
  explicit ProgressLine(config::CommandIo& io) : io_(io) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const RedisImportReport& report) {
    constexpr std::chrono::milliseconds every{200};
    const auto now = std::chrono::steady_clock::now();
    if (!io_.err_terminal || now < next_) return;
    next_ = now + every;
    io_.err << "\r\x1b[K" << report.keys << " of about " << report.database_keys << " keys, "
            << base::counted(report.counters(), "counter") << std::flush;
    shown_ = true;
  }
  void clear() {
    if (shown_) io_.err << "\r\x1b[K" << std::flush;
    shown_ = false;
  }

 private:
  config::CommandIo& io_;
  std::chrono::steady_clock::time_point next_{};
  bool shown_ = false;
};

void print_import_json(const RedisImportReport& r, bool dry_run, config::CommandIo& io) {
  io.out << to_text({{"keys", r.keys},
                     {dry_run ? "would_import" : "imported", r.imported},
                     {"replaced", r.replaced},
                     {"kept", r.kept},
                     {"expired", r.expired},
                     {"foreign",
                      {{"keys", r.foreign},
                       {"with_prefix", r.foreign_prefixed},
                       {"first", r.foreign_first}}},
                     {"overrides", r.overrides},
                     {"overrides_kept", r.overrides_kept}})
         << std::flush;
}

void print_import_words(const RedisImportReport& r, bool dry_run, config::CommandIo& io) {
  const char* const what = dry_run ? " to import" : " imported";
  io.out << base::counted(r.keys, "key") << " found, " << base::counted(r.imported, "counter")
         << what << ", " << base::counted(r.overrides, "override") << what
         << (dry_run ? "; nothing is written" : "") << '\n';
  const auto also = [&](uint64_t count, std::string_view noun, const char* text) {
    if (count > 0) io.out << base::counted(count, noun) << ' ' << text << '\n';
  };
  also(r.replaced, "counter", "replaced, of which the cluster had less used");
  also(r.kept, "counter", "kept as the cluster has it: as much is used there, or more");
  also(r.overrides_kept, "override", "kept as the cluster has it");
  also(r.expired, "key", "ended meanwhile");
  also(r.foreign, "key", "left alone: not a counter of these rules");
  if (r.foreign_prefixed > 0) {
    io.out << "of these " << base::counted(r.foreign_prefixed, "key") << " with the prefix:";
    for (const std::string& name : r.foreign_first)
      io.out << " `" << config::cut_to(config::on_screen(name), 64) << '`';
    io.out << (r.foreign_prefixed > r.foreign_first.size() ? ", ...\n" : "\n");
  }
  io.out.flush();
}

// Were there keys, and not one counter? Then the prefix or the file is probably not that
// of the servers. Overrides say nothing of the file: they are found whatever rules it has.
bool is_nothing_found(const RedisImportReport& r) {
  return r.foreign > 0 && r.counters() + r.expired == 0;
}

// The file may be that of a single Redis, with which the rules may settle together.
void warn_of_slots(const policy::RuleSet& rules, config::CommandIo& io) {
  constexpr size_t told_max = 3;
  const auto all = policy::rules_apart(rules);
  for (size_t i = 0; i < std::min(all.size(), told_max); ++i)
    warn(policy::names_of(all[i]) +
             " settle together and do not count by the same actor: with the cluster, servers "
             "refuse to start unless their file has `store.redis.across_slots: settle`; write "
             "that file and run `sluice check` on it before you stop the servers",
         io);
}

int import_redis_command(const protocol::StoreCall& call, config::CommandIo& io) {
  const auto& values = call.values;
  base::Diagnostics diagnostics;
  const auto end_of = [&](size_t nodes, size_t user, size_t password, size_t tls) {
    return config::RedisEnd{.option = std::string(import_options[nodes].name),
                            .nodes = *values[nodes],
                            .user = values[user].value_or(""),
                            .password_file = values[password].value_or(""),
                            .tls = values[tls].has_value(),
                            .cluster = nodes == to_option};
  };
  const auto from = read_redis_end(
      end_of(from_option, from_user_option, from_password_option, from_tls_option), diagnostics);
  const auto to = read_redis_end(
      end_of(to_option, to_user_option, to_password_option, to_tls_option), diagnostics);
  tell(diagnostics, io);
  if (!from || !to) return config::exit_usage;
  const std::string& file = *values[config_option];
  const std::string prefix =
      values[prefix_option].value_or(config::key_prefix_of(file).value_or("sluice:"));
  if (prefix.find_first_of("{}") != std::string::npos)
    return fail("the prefix `" + prefix +
                    "` has a brace, which a Redis Cluster takes for a hash tag; choose another "
                    "store.redis.key_prefix for the cluster",
                io);
  request::Spaces spaces;
  diagnostics.clear();
  bool settles = false;
  const auto rules = inspect(file, std::nullopt, {}, spaces, diagnostics, nullptr, nullptr,
                             [&](const config::Config& config, base::Diagnostics&) {
                               const auto& redis = config.store.redis;
                               settles = redis && redis->value.settles_across_slots;
                             });
  tell(diagnostics, io);
  if (!rules) return config::exit_failure;
  if (!settles) warn_of_slots(*rules, io);
  config::RedisImport options{.from = *from, .to = *to};
  options.overwrites = values[overwrite_option].has_value();
  options.dry_run = values[dry_run_option].has_value();
  RedisImportReport report;
  ProgressLine line(io);
  const base::Done done = config::import_redis(
      options, *rules, prefix, report, [&](const RedisImportReport& so_far) { line.show(so_far); });
  line.clear();
  if (!done) {
    const bool is_begun = !options.dry_run && report.counters() + report.overrides > 0;
    return fail(done.problem().text +
                    (is_begun ? "; " + base::counted(report.counters(), "counter") +
                                    " were there by then, so run it again to copy the rest"
                              : ""),
                io);
  }
  call.json ? print_import_json(report, options.dry_run, io)
            : print_import_words(report, options.dry_run, io);
  if (!is_nothing_found(report)) return config::exit_ok;
  return fail("no key is a counter of these rules; check --config, --key-prefix (`" + prefix +
                  "`) and the database",
              io);
}

}  // namespace

constinit const protocol::StoreTool import_redis_tool = {
    .name = "import-redis",
    .help =
        "copies the counters and overrides of sluice from a single Redis into a\n"
        "Redis Cluster, with their values and TTLs. The single Redis is only read.\n"
        "A counter of which as much is used in the cluster, or more, stays as it\n"
        "is, so it can be run again. Stop the servers, or run it once more when\n"
        "they have stopped",
    .options = import_options,
    .run = import_redis_command,
    .wants_folder = false};

}  // namespace sluice::cli
