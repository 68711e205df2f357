#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>

#include "admin/backup_socket.h"
#include "base/clock.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "config/settings.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/kept_limits.h"
#include "limit/left_out.h"
#include "limit/opened.h"
#include "live/window_json.h"
#include "protocol/protocol.h"
#include "protocol/store_tools.h"
#include "store/log/tools.h"

namespace sluice::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* about_store =
    "Looks at a store, repairs it, copies it. DIR is what `--data` or `store: { path: DIR }` "
    "names.\n"
    "All but backup want it to be in use by no server.";

constexpr const char* own_tools =
    "What to do:\n"
    "  dump DIR            every counter, a line of JSON for each: whose it is, and what a look at "
    "it\n"
    "                      would be answered now; then what else is kept, as name and text\n"
    "  stats DIR           how much there is\n"
    "  check DIR           reads all of it, checksums and records\n"
    "  repair DIR          makes what can still be read a sound store\n"
    "  backup DIR TARGET   a copy to start on, also while a server runs\n";

// The tools of protocols.
std::vector<const protocol::StoreTool*> tools_with_options() {
  std::vector<const protocol::StoreTool*> all;
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->store != nullptr)
      for (const protocol::StoreTool& tool : protocol->store->tools) all.push_back(&tool);
  return all;
}

// " --config FILE [--dry-run]", wrapped to the width; further lines begin with the indent.
std::string options_of(const protocol::StoreTool& tool, size_t column, const std::string& indent) {
  constexpr size_t columns = 96;
  std::string text;
  for (const protocol::StoreOption& option : tool.options) {
    std::string one(option.name);
    if (!option.value.empty()) one += " " + std::string(option.value);
    if (option.purpose.empty()) one = "[" + one + "]";
    column += one.size() + 1;
    if (column > columns) {
      text += "\n" + indent;
      column = indent.size() + one.size();
    } else {
      text += ' ';
    }
    text += one;
  }
  return text;
}

std::string footer_of_store() {
  const std::string indent(22, ' ');
  std::string text = own_tools;
  for (const protocol::StoreTool* tool : tools_with_options()) {
    const std::string head = "  " + std::string(tool->name) + " DIR";
    text += head + options_of(*tool, head.size(), indent) + "\n" + indent;
    for (const char c : tool->help) text += c == '\n' ? "\n" + indent : std::string(1, c);
    text += "\n";
  }
  return text +
         "\n"
         "Example:\n"
         "  sluice store backup /var/lib/sluice/store /backup/monday\n";
}

struct StoreFlags {
  std::string dir, target;
  bool json = false;
  // The tools' own options, by their names.
  std::map<std::string_view, std::optional<std::string>> of_tools;
};

void report_damages(const std::vector<std::string>& damages, config::CommandIo& io) {
  for (const std::string& damage : damages)
    io.err << config::paint("damage:", config::red, io.err_colour) << ' '
           << config::on_screen(damage) << std::endl;
}

// Reports logs with a torn end, which a kill, a full disk or a power cut leaves; a start cuts it
// off.
void report_torn(const std::vector<std::string>& torn, config::CommandIo& io) {
  for (const std::string& one : torn) note(one, io);
}

ordered_json json_of(const limit::Limit& limit) {
  ordered_json json{{"algorithm", limit::name_of(limit.algorithm)}, {"quota", limit.quota}};
  live::put_lengths_us(json, limit);
  live::put_calendar(json, limit);
  return json;
}

// The number of seconds, or null if no time is long enough.
ordered_json json_of(limit::Duration length) {
  if (length == base::never) return nullptr;
  return length.us;
}

// "7 of 10 left, all in 3s".
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
    limit::Opened counter(record.cells, limits);
    for (size_t i = 0; i < limits.size(); ++i)
      decisions[i] = limit::debt::peek(counter.whole(i), limits[i], now);
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
    const limit::Opened counter(record.cells, limits);
    auto rest = counter.left_out();
    for (limit::LeftOut one; limit::left_out::next(rest, one);) {
      const limit::Decision decision = limit::debt::peek(one.cells().data(), one.limit, now);
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

int dump(const StoreFlags& asked, config::CommandIo& io) {
  request::Spaces spaces;
  const base::Time now = base::Clock().now();
  const auto line = [&](const ordered_json& json) {
    io.out << json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  };
  const base::Done done = disk::dump(
      asked.dir, spaces,
      [&](const request::CounterRecord& record) {
        if (record.forget_us > now.us) line(json_of(record, spaces, now));
      },
      [&](std::string_view name, std::string_view text) {
        line({{"name", name}, {"text", text}});
      });
  io.out.flush();
  return done ? config::exit_ok : fail(done.problem().text, io);
}

int stats(const StoreFlags& asked, config::CommandIo& io) {
  const base::Result<disk::StoreStats> stats = disk::stats(asked.dir);
  if (!stats) return fail(stats.problem().text, io);
  const disk::StoreStats& s = *stats;
  if (asked.json) {
    io.out << to_text({{"format", s.format},
                       {"snapshot_counters", s.snapshot_counters},
                       {"snapshot_bytes", s.snapshot_bytes},
                       {"log_blocks", s.log_blocks},
                       {"log_counters", s.log_counters},
                       {"log_bytes", s.log_bytes},
                       {"texts", s.texts},
                       {"bytes", s.bytes}})
           << std::flush;
    return config::exit_ok;
  }
  io.out << "format " << s.format << '\n'
         << "snapshot: " << base::counted(s.snapshot_counters, "counter") << ", "
         << base::counted(s.snapshot_bytes, "byte") << '\n'
         << "log: " << base::counted(s.log_blocks, "block") << " of "
         << base::counted(s.log_counters, "counter") << ", " << base::counted(s.log_bytes, "byte")
         << '\n'
         << base::counted(s.texts, "text") << " kept beside them\n"
         << base::counted(s.bytes, "byte") << " on the disk" << std::endl;
  return config::exit_ok;
}

int check(const StoreFlags& asked, config::CommandIo& io) {
  const base::Result<disk::CheckReport> checked = disk::check(asked.dir);
  if (!checked) return fail(checked.problem().text, io);
  const disk::CheckReport& report = *checked;
  const bool sound = report.damages.empty();
  if (asked.json) {
    io.out << to_text({{"sound", sound},
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
  report_damages(report.damages, io);
  report_torn(report.torn, io);
  if (sound)
    io.out << base::printable(asked.dir) << ": "
           << config::paint("ok", config::green, io.out_colour) << ", "
           << base::counted(report.counters, "counter") << " in the snapshot, "
           << base::counted(report.blocks, "block") << " in the log with "
           << base::counted(report.block_counters, "counter") << ", "
           << base::counted(report.texts, "text") << std::endl;
  else
    note("repair it with `sluice store repair DIR`, or start on a backup", io);
  return sound ? config::exit_ok : config::exit_failure;
}

int repair(const StoreFlags& asked, config::CommandIo& io) {
  const base::Result<disk::RepairReport> repaired = disk::repair(asked.dir);
  if (!repaired) return fail(repaired.problem().text, io);
  const disk::RepairReport& report = *repaired;
  if (asked.json)
    io.out << to_text({{"counters", report.counters},
                       {"texts", report.texts},
                       {"torn", report.torn},
                       {"damages", report.damages}});
  else
    report_damages(report.damages, io);
  if (!asked.json) report_torn(report.torn, io);
  if (!asked.json)
    io.out << base::printable(asked.dir) << ": "
           << (report.damages.empty() ? "nothing was damaged" : "can be served again") << ", "
           << base::counted(report.counters, "counter") << ", "
           << base::counted(report.texts, "text") << '\n';
  io.out.flush();
  return report.damages.empty() ? config::exit_ok : config::exit_failure;
}

int backup(const StoreFlags& asked, config::CommandIo& io) {
  // The server that uses the store makes the copy, and has another working folder.
  std::error_code error;
  const auto target = std::filesystem::absolute(asked.target, error).string();
  if (error) return fail(error.message(), io);
  const auto answer = admin::ask_for_backup(asked.dir, target);
  if (!answer) return fail(answer.problem().text, io);
  if (*answer == admin::BackupAnswer::no_server)
    if (const base::Done done = disk::backup(asked.dir, target); !done)
      return fail(done.problem().text, io);
  if (asked.json)
    io.out << to_text({{"backup", target}});
  else
    io.out << base::printable(target) << ": a copy of " << base::printable(asked.dir) << '\n';
  io.out.flush();
  return config::exit_ok;
}

struct Tool {
  const char* name;
  size_t words;
  int (*run)(const StoreFlags&, config::CommandIo&);
};
constexpr Tool tools[] = {{"dump", 1, dump},
                          {"stats", 1, stats},
                          {"check", 1, check},
                          {"repair", 1, repair},
                          {"backup", 2, backup}};

// The names of the tools with that option.
std::vector<std::string_view> tools_with(std::string_view option) {
  std::vector<std::string_view> names;
  for (const protocol::StoreTool* tool : tools_with_options())
    for (const protocol::StoreOption& one : tool->options)
      if (one.name == option) names.push_back(tool->name);
  return names;
}

void add_options(Arguments& arguments, StoreFlags& asked) {
  std::map<std::string_view, std::string> helps;
  for (const protocol::StoreTool* tool : tools_with_options())
    for (const protocol::StoreOption& one : tool->options) {
      std::string& help = helps[one.name];
      help +=
          (help.empty() ? "Of " : "; of ") + std::string(tool->name) + ": " + std::string(one.help);
    }
  for (const protocol::StoreTool* tool : tools_with_options())
    for (const protocol::StoreOption& one : tool->options) {
      const auto [at, is_new] = asked.of_tools.try_emplace(one.name);
      if (!is_new) continue;
      const std::string name(one.name), help = wrapped(helps[one.name]);
      std::optional<std::string>& value = at->second;
      if (one.value.empty())
        arguments.add_flag(name, value, help);
      else
        arguments.add_option(name, value, help, std::string(one.value));
    }
}

// A problem: an option was given that the tool does not have.
base::Done check_options(std::string_view tool, const StoreFlags& asked) {
  for (const auto& [option, value] : asked.of_tools) {
    if (!value) continue;
    const auto names = tools_with(option);
    if (std::find(names.begin(), names.end(), tool) != names.end()) continue;
    return base::Problem{std::string(option) + " is for " + config::one_of(names)};
  }
  return {};
}

int run_own(const Tool& tool, const Words& said, StoreFlags& asked, const Arguments& arguments,
            config::CommandIo& io) {
  if (said.size() != tool.words + 1)
    return arguments.misused(
        said.front() + (tool.words == 2 ? " requires DIR and TARGET" : " requires one DIR"), io);
  if (const base::Done checked = check_options(tool.name, asked); !checked)
    return arguments.misused(checked.problem().text, io);
  asked.dir = said[1];
  if (tool.words == 2) asked.target = said[2];
  return tool.run(asked, io);
}

int run_with_options(const protocol::StoreTool& tool, const Words& said, const StoreFlags& asked,
                     const Arguments& arguments, config::CommandIo& io) {
  if (said.size() != 2) return arguments.misused(said.front() + " requires one DIR", io);
  if (const base::Done checked = check_options(tool.name, asked); !checked)
    return arguments.misused(checked.problem().text, io);
  protocol::StoreCall call{said[1], asked.json};
  for (const protocol::StoreOption& one : tool.options) {
    call.values.push_back(asked.of_tools.at(one.name));
    if (call.values.back() || one.purpose.empty()) continue;
    const std::string value = one.value.empty() ? "" : " " + std::string(one.value);
    return arguments.misused(
        said.front() + " wants " + std::string(one.name) + value + ", " + std::string(one.purpose),
        io);
  }
  return tool.run(call, io);
}

}  // namespace

int store(const Words& words, config::CommandIo& io) {
  Arguments arguments(
      "sluice store TOOL [options] DIR [TARGET]", about_store, footer_of_store(),
      {"done, and of `check` sound", "it cannot be done, or damage was found or repaired"});
  StoreFlags asked;
  arguments.add_flag("--json", asked.json, "Print the result as JSON");
  add_options(arguments, asked);
  std::vector<std::string_view> names;
  for (const Tool& one : tools) names.emplace_back(one.name);
  for (const protocol::StoreTool* one : tools_with_options()) names.push_back(one->name);
  arguments.set_words(names);
  if (!words.empty() && words.front() == "import-redis")
    return arguments.misused(
        "there is no tool `import-redis`: nothing copies counters into a Redis Cluster; change "
        "over to it as docs/redis.md says under `From one Redis to a cluster`",
        io);
  if (const auto status = arguments.parse(words, io)) return *status;
  const Words& said = arguments.positional();
  if (said.empty()) return arguments.misused("a TOOL is required: " + config::one_of(names), io);
  for (const Tool& one : tools)
    if (said.front() == one.name) return run_own(one, said, asked, arguments, io);
  for (const protocol::StoreTool* one : tools_with_options())
    if (said.front() == one->name) return run_with_options(*one, said, asked, arguments, io);
  return arguments.misused(
      "there is no tool `" + said.front() + "`" + did_you_mean(said.front(), names), io);
}

}  // namespace sluice::cli
