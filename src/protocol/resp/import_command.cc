// redis-cell's keys as `sluice store import-redis-cell` brings them over.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "config/address.h"
#include "config/command_io.h"
#include "config/screen_text.h"
#include "disk/importer.h"
#include "disk/layout.h"
#include "disk/owner.h"
#include "limit/gcra.h"
#include "policy/rule_set.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/import.h"

namespace sluice::resp {
namespace {

constexpr uint16_t redis_port = 6379;
constexpr unsigned databases = 16;                          // that SELECT takes here
constexpr const char* password_variable = "REDISCLI_AUTH";  // as redis-cli's

// The options, in their order.
enum : size_t { redis_option, match_option, user_option, dry_run_option };

constexpr protocol::StoreOption cell_options[] = {
    {"--redis", "HOST:PORT[/DB]", "where Redis listens, and the database; default 0",
     "which has the keys"},
    {"--match", "PATTERN", "which keys, as SCAN takes it; quote it for the shell",
     "which says the keys; '*' for all"},
    {"--redis-user", "NAME", "whom to be, with the password in REDISCLI_AUTH", {}},
    {"--dry-run", {}, "list what would be imported and write nothing", {}}};

// HOST:PORT[/DB]
base::Done read_redis(const std::string& text, CellSource& source) {
  const size_t slash = text.rfind('/');
  if (slash != std::string::npos) {
    const auto number = base::parse_count(std::string_view(text).substr(slash + 1));
    if (!number || *number >= databases)
      return base::Problem{"--redis: the database must be 0 to 15, not `" + text.substr(slash + 1) +
                           "`"};
    source.database = static_cast<unsigned>(*number);
  }
  auto address = config::parse_address(text.substr(0, slash), redis_port);
  if (!address) return std::move(address).problem().within("--redis");
  source.host = address->host;
  source.port = address->port;
  return {};
}

// The counters of CL.THROTTLE as the rule for it names them.
class CellCounters {
 public:
  explicit CellCounters(unsigned database) : database_(std::to_string(database)) {
    add_throttle_rules(spaces_, rules_);
  }

  request::Spaces& spaces() { return spaces_; }

  // Calls `visit(space, limits_id, key)`.
  template <class Visit>
  auto with_counter(std::string_view key, Visit&& visit) {
    const request::Entry descriptor[] = {{command_entry, command_of(limit::Algorithm::gcra_cell)},
                                         {database_entry, database_},
                                         {key_entry, key}};
    policy::Asked asked;
    asked.descriptor = descriptor;
    plan_.clear();
    rules_.match(&dialect, asked, plan_);
    const auto& step = plan_.steps(plan_.parts().front()).front();
    return visit(*step.rule->space, step.rule->limits_id, plan_.charge(step).key);
  }

 private:
  const std::string database_;
  request::Spaces spaces_;
  policy::RuleSet rules_;
  policy::Plan plan_;
};

struct Imported {
  uint64_t counters = 0;
  uint64_t there = 0;  // the store has them already, and keeps them
  CellReport redis;
};

// The store is opened, and made, with the first key that must be brought over.
base::Result<Imported> import_cells(const std::string& dir, const CellSource& source) {
  Imported imported;
  CellCounters counters(source.database);
  std::unique_ptr<disk::Importer> importer;
  const auto visit = [&](std::string_view key, int64_t tat, bool again) -> base::Done {
    if (!importer) {
      auto opened = disk::Importer::open(dir, base::Clock().now(), counters.spaces());
      if (!opened) return std::move(opened).problem();
      importer = *std::move(opened);
    }
    using Added = disk::Importer::Added;
    base::Result<Added> added = counters.with_counter(
        key, [&](const request::Space& space, uint32_t limits_id, std::string_view name) {
          return importer->add(space, limits_id, name, cell_state(tat));
        });
    if (!added) return std::move(added).problem();
    if (!again) ++(*added == Added::there ? imported.there : imported.counters);
    return {};
  };
  base::Result<CellReport> read = read_cells(source, visit);
  base::Done committed, given;
  if (importer) {
    // What came before Redis failed stays: another pass finds it there.
    committed = importer->finish();
    importer.reset();
    given = disk::give_to_owner(dir, disk::store_of(dir));
  }
  if (!read) return std::move(read).problem();
  if (!committed) return std::move(committed).problem();
  if (!given) return std::move(given).problem();
  imported.redis = *std::move(read);
  return imported;
}

base::Result<Imported> look_at_cells(const CellSource& source) {
  const auto visit = [](std::string_view, int64_t, bool) { return base::Done(); };
  base::Result<CellReport> read = read_cells(source, visit);
  if (!read) return std::move(read).problem();
  Imported imported;
  imported.redis = *std::move(read);
  imported.counters = imported.redis.cells;
  return imported;
}

std::string reason(CellSkip why) {
  switch (why) {
    case CellSkip::other_type:
      return "another type than a string";
    case CellSkip::no_number:
      return "not a number of 18 to 20 digits";
    case CellSkip::no_life:
      return "a number without a time to live";
    case CellSkip::other_life:
      return "a number that does not fit the time to live: another program's, or the clocks of "
             "Redis and of this machine differ by more than " +
             base::format_duration(cell_life_tolerance);
    case CellSkip::expired:
      return "nothing of it is used any more";
    case CellSkip::long_key:
      return "a key longer than a command may bring here";
  }
  return {};
}

void print_json(const Imported& imported, bool dry_run, config::CommandIo& io) {
  nlohmann::ordered_json skipped;
  for (size_t i = 0; i < cell_skips; ++i) {
    const CellReport::Skipped& one = imported.redis.skipped[i];
    skipped[std::string(name_of(static_cast<CellSkip>(i)))] = {{"keys", one.keys},
                                                               {"first", one.first}};
  }
  io.out << cli::to_text({{"keys", imported.redis.keys},
                          {dry_run ? "would_import" : "imported", imported.counters},
                          {"there", imported.there},
                          {"skipped", skipped}})
         << std::flush;
}

void print_words(const Imported& imported, bool dry_run, config::CommandIo& io) {
  io.out << base::counted(imported.redis.keys, "key") << " found, "
         << base::counted(imported.counters, "counter")
         << (dry_run ? " to import; nothing is written" : " imported") << '\n';
  if (imported.there > 0)
    io.out << base::counted(imported.there, "key")
           << " skipped: the store has their counters already\n";
  for (size_t i = 0; i < cell_skips; ++i) {
    const CellReport::Skipped& one = imported.redis.skipped[i];
    if (one.keys == 0) continue;
    io.out << base::counted(one.keys, "key") << " skipped: " << reason(static_cast<CellSkip>(i))
           << " (";
    for (size_t name = 0; name < one.first.size(); ++name)
      io.out << (name > 0 ? ", " : "") << '`'
             << config::cut_to(config::on_screen(one.first[name]), 64) << '`';
    io.out << (one.keys > one.first.size() ? ", ...)" : ")") << '\n';
  }
  io.out.flush();
}

int import_command(const protocol::StoreCall& call, config::CommandIo& io) {
  CellSource source;
  if (const base::Done read = read_redis(*call.values[redis_option], source); !read) {
    cli::fail(read.problem().text, io);
    return config::exit_usage;
  }
  source.pattern = *call.values[match_option];
  source.user = call.values[user_option].value_or("");
  source.password = io.environment(password_variable).value_or("");
  if (!source.user.empty() && source.password.empty()) {
    cli::fail("--redis-user wants the password in REDISCLI_AUTH", io);
    return config::exit_usage;
  }
  const bool dry_run = call.values[dry_run_option].has_value();
  const base::Result<Imported> imported =
      dry_run ? look_at_cells(source) : import_cells(call.dir, source);
  if (!imported) return cli::fail(imported.problem().text, io);
  call.json ? print_json(*imported, dry_run, io) : print_words(*imported, dry_run, io);
  return config::exit_ok;
}

constexpr protocol::StoreTool cell_tools[] = {
    {"import-redis-cell",
     "brings the keys of redis-cell in a running Redis into the store in DIR, as\n"
     "counters of CL.THROTTLE. Redis is only read. Keys are skipped, and counted,\n"
     "that are not 18 to 20 digits with the time to live that belongs to them",
     cell_options, import_command}};

}  // namespace

constinit const protocol::StoreTools store_tools = {cell_tools};

}  // namespace sluice::resp
