#include <array>
#include <chrono>
#include <filesystem>

#include "admin/backup_socket.h"
#include "base/clock.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "disk/tools.h"
#include "limit/decide.h"
#include "limit/kept_limits.h"
#include "limit/left_out.h"

namespace sluice::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* about_store =
    "Looks at a store, mends it, copies it. DIR is what `--data` or `store: { path: DIR }` names.\n"
    "All but backup want it to be in use by no server.";

constexpr const char* footer_of_store =
    "What to do:\n"
    "  dump DIR            every counter, a line of JSON for each: whose it is, and what a look at "
    "it\n"
    "                      would be answered now; then what else is kept, as name and text\n"
    "  stats DIR           how much there is\n"
    "  check DIR           reads all of it, checksums and records\n"
    "  repair DIR          makes what can still be read a sound store\n"
    "  backup DIR TARGET   a copy to start on, also while a server runs\n"
    "  import-limitd DIR --config FILE\n"
    "                      brings the buckets of limitd's own database in DIR into the store "
    "there;\n"
    "                      FILE is limitd's configuration, which names their types\n"
    "\n"
    "Example:\n"
    "  sluice store backup /var/lib/sluice /backup/monday\n"
    "\n"
    "Exit status: 0 done, and of `check` sound; 1 it cannot be done, or damage was found or "
    "repaired;\n"
    "2 wrong usage.";

struct StoreFlags {
  std::string dir, target;
  std::optional<std::string> config;
  bool json = false;
};

int fail(const std::string& problem, config::Outside& outside) {
  outside.err << config::paint("error:", config::red, outside.err_colour) << ' '
              << config::on_screen(problem) << std::endl;
  return config::exit_failure;
}

void tell_damages(const std::vector<std::string>& damages, config::Outside& outside) {
  for (const std::string& damage : damages)
    outside.err << config::paint("damage:", config::red, outside.err_colour) << ' '
                << config::on_screen(damage) << std::endl;
}

// What a kill, a full disk or a power cut leaves, and a start takes away.
void tell_torn(const std::vector<std::string>& torn, config::Outside& outside) {
  for (const std::string& one : torn)
    outside.err << "note: " << config::on_screen(one) << std::endl;
}

ordered_json json_of(const limit::Limit& limit) {
  return {{"algorithm", limit::name_of(limit.algorithm)},
          {"quota", limit.quota},
          {"window_us", limit.window.us},
          {"burst", limit.burst}};
}

// Until then, or null: no length of time helps.
ordered_json json_of(limit::Duration length) {
  if (length == base::never) return nullptr;
  return length.us;
}

// "7 of 10 left, all in 3s"
std::string words_for(const limit::Decision& decision) {
  std::string text =
      std::to_string(decision.remaining) + " of " + std::to_string(decision.limit) + " left";
  if (decision.reset_after.us == 0) return text;
  return text + (decision.reset_after == base::never
                     ? ", more only when they are put back"
                     : ", all in " + base::format_duration(decision.reset_after));
}

ordered_json json_of(const request::CounterRecord& record, const request::Spaces& spaces,
                     base::Time now) {
  std::array<limit::Decision, limit::slots_max> decisions;
  std::vector<limit::Limit> limits;
  if (record.limits_id != 0) {
    const auto list = spaces.limits(record.limits_id);
    limits.assign(list.begin(), list.end());
    const limit::State* cell = record.cells.data();
    for (size_t i = 0; i < limits.size(); ++i) {
      decisions[i] = limit::peek(cell, limits[i], now);
      cell += limit::cells(limits[i]);
    }
  } else {
    const auto& windows = record.space->windows;
    const auto result = limit::kept_limits::peek(windows, record.cells, now, decisions.data());
    for (size_t i = 0; i < windows.size(); ++i)
      if ((result.mask >> i & 1) != 0)
        limits.push_back(
            {limit::Algorithm::token_bucket, decisions[limits.size()].limit, windows[i], 0});
    for (size_t i = 0; i < limits.size(); ++i) limits[i].burst = limits[i].quota;
  }
  ordered_json json{{"prefix", record.space->prefix},
                    {"key", record.key},
                    {"suffix", record.space->suffix},
                    {"limits", ordered_json::array()}};
  for (size_t i = 0; i < limits.size(); ++i) {
    ordered_json limit = json_of(limits[i]);
    limit["remaining"] = decisions[i].remaining;
    limit["reset_after_us"] = json_of(decisions[i].reset_after);
    limit["says"] = words_for(decisions[i]);
    json["limits"].push_back(std::move(limit));
  }
  if (record.limits_id != 0) {
    auto rest = record.cells.subspan(limit::cells(spaces.limits(record.limits_id)));
    for (limit::LeftOut one; limit::left_out::next(rest, one);) {
      const limit::Decision decision = limit::peek(one.cells().data(), one.limit, now);
      ordered_json limit = json_of(one.limit);
      limit["remaining"] = decision.remaining;
      limit["reset_after_us"] = json_of(decision.reset_after);
      limit["says"] = words_for(decision);
      json["left_out"].push_back(std::move(limit));
    }
  }
  json["forget_us"] = nullptr;
  if (record.forget_us != INT64_MAX) json["forget_us"] = record.forget_us;
  return json;
}

int dump(const StoreFlags& asked, config::Outside& outside) {
  request::Spaces spaces;
  std::string problem;
  const base::Time now = base::Clock().now();
  const auto line = [&](const ordered_json& json) {
    outside.out << json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  };
  const bool done = disk::dump(
      asked.dir, spaces,
      [&](const request::CounterRecord& record) {
        if (record.forget_us > now.us) line(json_of(record, spaces, now));
      },
      problem,
      [&](std::string_view name, std::string_view text) {
        line({{"name", name}, {"text", text}});
      });
  outside.out.flush();
  return done ? config::exit_ok : fail(problem, outside);
}

int stats(const StoreFlags& asked, config::Outside& outside) {
  disk::StoreStats s;
  std::string problem;
  if (!disk::stats(asked.dir, s, problem)) return fail(problem, outside);
  if (asked.json) {
    outside.out << to_text({{"format", s.format},
                            {"folded", s.folded},
                            {"blocks", s.blocks},
                            {"block_counters", s.block_counters},
                            {"block_bytes", s.block_bytes},
                            {"spaces", s.spaces},
                            {"limits", s.limits},
                            {"texts", s.texts},
                            {"bytes", s.bytes}})
                << std::flush;
    return config::exit_ok;
  }
  outside.out << "format " << s.format << '\n'
              << base::counted(s.folded, "counter") << " under their own keys\n"
              << "not folded yet: " << base::counted(s.blocks, "block") << " of "
              << base::counted(s.block_counters, "counter") << ", "
              << base::counted(s.block_bytes, "byte") << '\n'
              << base::counted(s.spaces, "space") << ", " << base::counted(s.limits, "list")
              << " of limits\n"
              << base::counted(s.texts, "text") << " kept beside them\n"
              << base::counted(s.bytes, "byte") << " on the disk" << std::endl;
  return config::exit_ok;
}

int check(const StoreFlags& asked, config::Outside& outside) {
  disk::CheckReport report;
  std::string problem;
  if (!disk::check(asked.dir, report, problem)) return fail(problem, outside);
  const bool sound = report.damages.empty();
  if (asked.json) {
    outside.out << to_text({{"sound", sound},
                            {"counters", report.counters},
                            {"blocks", report.blocks},
                            {"block_counters", report.block_counters},
                            {"texts", report.texts},
                            {"unreadable", report.unreadable},
                            {"torn", report.torn},
                            {"damages", report.damages}})
                << std::flush;
    return sound ? config::exit_ok : config::exit_failure;
  }
  tell_damages(report.damages, outside);
  tell_torn(report.torn, outside);
  if (sound)
    outside.out << base::printable(asked.dir) << ": "
                << config::paint("ok", config::green, outside.out_colour) << ", "
                << base::counted(report.counters, "counter") << ", "
                << base::counted(report.blocks, "block") << " of "
                << base::counted(report.block_counters, "counter") << ", "
                << base::counted(report.texts, "text") << std::endl;
  else
    outside.err << "Mend it with `sluice store repair DIR`, or start on a backup." << std::endl;
  return sound ? config::exit_ok : config::exit_failure;
}

int repair(const StoreFlags& asked, config::Outside& outside) {
  disk::RepairReport report;
  std::string problem;
  if (!disk::repair(asked.dir, report, problem)) return fail(problem, outside);
  if (asked.json)
    outside.out << to_text({{"counters", report.counters},
                            {"texts", report.texts},
                            {"torn", report.torn},
                            {"damages", report.damages}});
  else
    tell_damages(report.damages, outside);
  if (!asked.json) tell_torn(report.torn, outside);
  if (!asked.json)
    outside.out << base::printable(asked.dir) << ": "
                << (report.damages.empty() ? "nothing was damaged" : "can be served again") << ", "
                << base::counted(report.counters, "counter") << ", "
                << base::counted(report.texts, "text") << '\n';
  outside.out.flush();
  return report.damages.empty() ? config::exit_ok : config::exit_failure;
}

int backup(const StoreFlags& asked, config::Outside& outside) {
  std::string problem;
  // Who serves the store makes the copy; its working folder is another one.
  std::error_code error;
  const auto target = std::filesystem::absolute(asked.target, error).string();
  if (error) return fail(error.message(), outside);
  switch (admin::ask_for_backup(asked.dir, target, problem)) {
    case admin::BackupAnswer::done:
      break;
    case admin::BackupAnswer::failed:
      return fail(problem, outside);
    case admin::BackupAnswer::nobody:
      if (!disk::backup(asked.dir, target, problem)) return fail(problem, outside);
  }
  if (asked.json)
    outside.out << to_text({{"backup", target}});
  else
    outside.out << base::printable(target) << ": a copy of " << base::printable(asked.dir) << '\n';
  outside.out.flush();
  return config::exit_ok;
}

int import_limitd(const StoreFlags& asked, config::Outside& outside) {
  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto rules = inspect(*asked.config, config::FileKind::limitd, false, spaces, diagnostics);
  tell(diagnostics, outside);
  if (!rules) return config::exit_failure;
  const base::Time now = base::Clock().now();
  policy::Plan plan;
  const auto to_counter = [&](std::string_view type,
                              std::string_view key) -> std::optional<disk::LimitdCounter> {
    const request::Entry descriptor[] = {{"type", type}, {"key", key}};
    policy::Asked request;
    request.descriptor = descriptor;
    request.now = now;
    plan.clear();
    rules->match(policy::Dialect::limitd, request, plan);
    const auto steps = plan.steps(plan.parts().front());
    if (steps.empty()) return std::nullopt;
    const policy::Rule& rule = *steps.back().rule;
    return disk::LimitdCounter{rule.space, rule.limits_id, rule.limits.front(),
                               plan.charge(steps.back()).key};
  };
  disk::ImportReport r;
  std::string problem;
  if (!disk::import_limitd(asked.dir, now, spaces, to_counter, r, problem))
    return fail(problem, outside);
  if (asked.json) {
    outside.out << to_text({{"imported", r.imported},
                            {"full", r.full},
                            {"there", r.there},
                            {"untyped", r.untyped},
                            {"unreadable", r.unreadable}})
                << std::flush;
    return config::exit_ok;
  }
  outside.out << base::counted(r.imported, "bucket") << " imported\n";
  const auto also = [&](uint64_t count, const char* what) {
    if (count > 0) outside.out << base::counted(count, "bucket") << ' ' << what << '\n';
  };
  also(r.full, "full, so there is nothing to keep of them");
  also(r.there, "passed over: the store has their counters already");
  also(r.untyped, "passed over: their types are not in the configuration");
  also(r.unreadable, "passed over: these entries are no buckets");
  outside.out.flush();
  return config::exit_ok;
}

struct Tool {
  const char* name;
  size_t words;
  int (*run)(const StoreFlags&, config::Outside&);
};
constexpr Tool tools[] = {{"dump", 1, dump},     {"stats", 1, stats},
                          {"check", 1, check},   {"repair", 1, repair},
                          {"backup", 2, backup}, {"import-limitd", 1, import_limitd}};

}  // namespace

int store(const Words& words, config::Outside& outside) {
  Arguments arguments("sluice store TOOL [options] DIR [TARGET]", about_store, footer_of_store);
  StoreFlags asked;
  arguments.app().add_flag("--json", asked.json, "Print the result as JSON");
  arguments.app()
      .add_option("--config", asked.config, "Of import-limitd: limitd's configuration")
      ->type_name("FILE");
  if (const auto status = arguments.parse(words, outside)) return *status;
  const Words& said = arguments.positional();
  if (said.empty()) return arguments.misused("there is no TOOL", outside);
  const Tool* tool = nullptr;
  std::vector<std::string_view> names;
  for (const Tool& one : tools) {
    names.emplace_back(one.name);
    if (said.front() == one.name) tool = &one;
  }
  if (tool == nullptr) {
    const auto near = base::nearest_word(said.front(), names);
    return arguments.misused(
        "there is no tool `" + said.front() + "`" +
            (near.empty() ? "" : "; did you mean `" + std::string(near) + "`?"),
        outside);
  }
  if (said.size() != tool->words + 1)
    return arguments.misused(
        said.front() + (tool->words == 2 ? " wants DIR and TARGET" : " wants one DIR"), outside);
  const bool imports = tool->run == import_limitd;
  if (imports != asked.config.has_value())
    return arguments.misused(imports ? "import-limitd wants --config FILE, which names the types"
                                     : "--config is for import-limitd",
                             outside);
  asked.dir = said[1];
  if (tool->words == 2) asked.target = said[2];
  return tool->run(asked, outside);
}

}  // namespace sluice::cli
