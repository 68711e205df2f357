#include "protocol/resp/import.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/units.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "config/address.h"
#include "config/command_io.h"
#include "config/screen_text.h"
#include "limit/gcra.h"
#include "policy/rule_set.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/reply_text.h"
#include "store/log/folder.h"
#include "store/log/tools.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

constexpr std::string_view keys_of_a_page = "1000";  // SCAN's COUNT; Redis may return more or fewer
// The most keys and bytes that one exchange with Redis asks for.
constexpr size_t asked_keys_max = 1000, asked_bytes_max = size_t{1} << 20;
constexpr size_t first_names = 3;
constexpr size_t key_bytes_max = wire::RespBounds().word_bytes;
constexpr size_t told_bytes_max = 256;

// A pass over the keys of one Redis.
class CellReader {
 public:
  CellReader(const CellSource& source, const VisitCell& visit)
      : source_(source),
        visit_(visit),
        redis_("redis", {{source.host, source.port}, source.patience},
               {source.user, source.password}) {}

  base::Result<CellReport> read() {
    base::Done done = select();
    std::string cursor = "0";
    do {
      std::vector<std::string> page;
      if (done) done = scan(cursor, page);
      if (done) done = read_page(page);
      if (!done) return std::move(done).problem();
    } while (cursor != "0");
    return std::move(report_);
  }

 private:
  using Names = std::span<const std::string>;

  base::Problem fail(const std::string& why) const {
    return {"Redis at " + config::format_address(source_.host, source_.port) + ": " + why};
  }

  // Adds a command to the next exchange. The words must live until then.
  void add(std::initializer_list<std::string_view> words) {
    client_request& command = commands_.emplace_back();
    command.verb = client_verb::command;
    command.words = words;
  }

  // Sends the added commands and receives their replies. An error ends the pass, except if a key
  // has another type by now. A connection that was lost between two exchanges ends it as well,
  // because a new connection would be in another database.
  base::Done exchange() {
    const std::vector<client_request> commands = std::exchange(commands_, {});
    if (redis_.was_lost()) return fail("the connection was lost");
    replies_.clear();
    for (const client_result& result : redis_.call_all(commands)) {
      if (result.error != client_errc::none) return fail(result.text);
      auto reply = resp_value(result.reply);
      if (!reply) return fail(resp_too_deep);
      if (reply->is_error() && !reply->text.starts_with("WRONGTYPE"))
        return fail("it refuses: " + base::printable(reply->text, told_bytes_max));
      replies_.push_back(*std::move(reply));
    }
    return {};
  }

  base::Done select() {
    if (source_.database == 0) return {};
    const std::string database = std::to_string(source_.database);
    add({"SELECT", database});
    return exchange();
  }

  base::Done scan(std::string& cursor, std::vector<std::string>& page) {
    add({"SCAN", cursor, "MATCH", source_.pattern, "COUNT", keys_of_a_page});
    if (base::Done done = exchange(); !done) return done;
    RespValue& reply = replies_.front();
    if (!reply.is_list() || reply.items.size() != 2 || !reply.items[0].is_text() ||
        !reply.items[1].is_list())
      return fail("its answer to SCAN is none");
    cursor = reply.items[0].text;
    for (RespValue& key : reply.items[1].items) page.push_back(std::move(key.text));
    return {};
  }

  // Reads the page in parts of bounded size.
  base::Done read_page(Names page) {
    while (!page.empty()) {
      size_t count = 0;
      for (size_t bytes = 0; count < page.size() && count < asked_keys_max; ++count) {
        bytes += page[count].size();
        if (count > 0 && bytes > asked_bytes_max) break;
      }
      if (base::Done done = read_part(page.first(count)); !done) return done;
      page = page.subspan(count);
    }
    return {};
  }

  base::Done read_part(Names part) {
    std::vector<std::string_view> keys;
    for (const std::string& key : part) {
      if (key.size() > key_bytes_max)
        skip(key, CellSkip::long_key);
      else
        keys.push_back(key);
    }
    base::Done done = find_strings(keys);
    if (done) done = read_strings(keys);
    return done;
  }

  // Keeps only the keys that are strings.
  base::Done find_strings(std::vector<std::string_view>& keys) {
    for (const std::string_view key : keys) add({"TYPE", key});
    if (base::Done done = exchange(); !done) return done;
    size_t left = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string& type = replies_[i].text;
      if (type == "string")
        keys[left++] = keys[i];
      else
        skip(keys[i], type == "none" ? CellSkip::expired : CellSkip::other_type);
    }
    keys.resize(left);
    return {};
  }

  base::Done read_strings(std::span<const std::string_view> keys) {
    // One byte more than the longest number, so that a longer value is recognized.
    for (const std::string_view key : keys) {
      add({"PTTL", key});
      add({"GETRANGE", key, "0", "20"});
    }
    const base::Time before = clock_.now();
    if (base::Done done = exchange(); !done) return done;
    const base::Time after = clock_.now();
    for (size_t i = 0; i < keys.size(); ++i) {
      const RespValue &life = replies_[2 * i], &text = replies_[2 * i + 1];
      if (text.is_error()) {
        skip(keys[i], CellSkip::other_type);
      } else if (!life.is_integer() || !text.is_text()) {
        return fail("its answer to PTTL or GETRANGE is none");
      } else {
        const CellKey read = read_cell_key(text.text, life.number, before, after);
        if (read.skip)
          skip(keys[i], *read.skip);
        else if (base::Done done = visit(keys[i], read.tat); !done)
          return done;
      }
    }
    return {};
  }

  // Was the key listed before?
  bool is_again(std::string_view key) {
    const bool again = !seen_.insert(base::digest(key)).second;
    if (!again) ++report_.keys;
    return again;
  }

  base::Done visit(std::string_view key, int64_t tat) {
    const bool again = is_again(key);
    if (!again) ++report_.cells;
    return visit_(key, tat, again);
  }

  void skip(std::string_view key, CellSkip why) {
    if (is_again(key)) return;
    CellReport::Skipped& skipped = report_.skipped[static_cast<size_t>(why)];
    ++skipped.keys;
    if (skipped.first.size() < first_names) skipped.first.emplace_back(key);
  }

  const CellSource& source_;
  const VisitCell& visit_;
  CellReport report_;
  cli::AskedServer redis_;
  std::vector<client_request> commands_;
  std::vector<RespValue> replies_;
  base::Clock clock_;
  std::unordered_set<uint64_t> seen_;  // digests of the keys
};

}  // namespace

std::string_view name_of(CellSkip why) {
  static constexpr std::string_view names[] = {"other_type", "no_number", "no_life",
                                               "other_life", "expired",   "long_key"};
  static_assert(std::size(names) == cell_skips);
  return names[static_cast<size_t>(why)];
}

limit::State cell_state(int64_t tat) {
  return limit::gcra::state_of(limit::gcra::without_numbers(limit::Algorithm::gcra_cell), tat);
}

CellKey read_cell_key(std::string_view text, int64_t life_ms, base::Time before, base::Time after) {
  int64_t tat = 0;
  const char* const end = text.data() + text.size();
  if (text.size() < 18 || text.size() > 20 || text.front() == '-') return {0, CellSkip::no_number};
  const auto read = std::from_chars(text.data(), end, tat);
  if (read.ec != std::errc() || read.ptr != end) return {0, CellSkip::no_number};
  if (life_ms == -1) return {tat, CellSkip::no_life};
  if (life_ms < 0) return {tat, CellSkip::expired};
  const int64_t tolerance_ms = cell_life_tolerance.us / 1'000;
  const int64_t least_ms = (tat / 1'000 - after.us) / 1'000 - tolerance_ms,
                most_ms = (tat / 1'000 - before.us) / 1'000 + tolerance_ms;
  if (life_ms < least_ms || life_ms > most_ms) return {tat, CellSkip::other_life};
  if (cell_state(tat).fresh_at_us <= after.us) return {tat, CellSkip::expired};
  return {tat, {}};
}

base::Result<CellReport> read_cells(const CellSource& source, const VisitCell& visit) {
  return CellReader(source, visit).read();
}

// redis-cell's keys as `sluice store import-redis-cell` brings them over.

namespace {

constexpr uint16_t redis_port = 6379;
constexpr unsigned databases_here = 16;                     // that SELECT takes
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
    if (!number || *number >= databases_here)
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
    plan_.clear();
    rules_.match(&dialect, {.descriptor = descriptor}, plan_);
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
