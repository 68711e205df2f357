#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_log =
    "Prints what a running server logs, or changes it until the server ends: its level, the level "
    "of\n"
    "a module of its own, the format, and which share of denials is logged.";

std::string footer_of_log() {
  return admin_footer(
      "Levels: trace, debug, info, warn, error, off. A start goes by `log` of the configuration "
      "again.\n"
      "\n"
      "Examples:\n"
      "  sluice log\n"
      "  sluice log debug\n"
      "  sluice log info --module policy=debug --denials 100\n"
      "  sluice log --module policy=",
      "printed, or changed", "the server refuses it");
}

struct LogFlags {
  AdminFlags admin;
  std::vector<std::string> modules;
  std::optional<std::string> format, denials;
};

void add_log_flags(Arguments& arguments, LogFlags& asked) {
  arguments.add_option("--module", asked.modules,
                       "The level of one module; without a level that of all; repeatable",
                       "NAME=LEVEL");
  arguments.add_option("--format", asked.format, "text, or json: an object a line", "text|json");
  arguments.add_option("--denials", asked.denials, "Log every Nth denial; 0: none", "N");
  add_admin_flags(arguments, asked.admin);
}

// Makes the body from the flags; returns the problem with them, or "".
std::string put_log(const Words& words, const LogFlags& asked, Json& body) {
  if (words.size() > 1) return "one LEVEL is enough";
  if (!words.empty()) body["level"] = words.front();
  for (const std::string& text : asked.modules) {
    const size_t cut = text.find('=');
    if (cut == std::string::npos || cut == 0)
      return "--module must be NAME=LEVEL, not `" + text + "`";
    const std::string level = text.substr(cut + 1);
    body["modules"][text.substr(0, cut)] = level.empty() ? Json() : Json(level);
  }
  if (asked.format) body["format"] = *asked.format;
  if (!asked.denials) return "";
  const auto every = base::parse_count(*asked.denials);
  if (!every) return "--denials must be a whole number, not `" + *asked.denials + "`";
  body["denials"] = {{"every", *every}};
  return "";
}

std::string log_text(const Json& log) {
  const std::string level = text_field(log, "level");
  std::string out = "level    " + level + "\nformat   " + text_field(log, "format") + "\n";
  const int64_t every = integer_field(field(log, "denials"), "every");
  out += "denials  " +
         (every == 0   ? std::string("none")
          : every == 1 ? std::string("all")
                       : "one of " + base::grouped(static_cast<uint64_t>(every))) +
         "\n";
  for (const auto& [module, its] : field(log, "modules").items())
    if (its.is_string() && its != level)
      out += "module   " + module + ": " + its.get<std::string>() + "\n";
  return out;
}

}  // namespace

int log_settings(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice log [options] [LEVEL]", about_log, footer_of_log());
  LogFlags asked;
  add_log_flags(arguments, asked);
  arguments.set_words({"trace", "debug", "info", "warn", "error", "off"});
  if (const auto ended = arguments.parse(words, io)) return *ended;
  Json body = Json::object();
  if (const auto problem = put_log(arguments.positional(), asked, body); !problem.empty())
    return arguments.misused(problem, io);
  int ending = config::exit_ok;
  auto port = AdminPort::open(asked.admin, arguments, io, ending);
  if (!port) return ending;
  const auto reply = body.empty() ? port->get("/v1/log") : port->ask("PUT", "/v1/log", body);
  if (!reply.is_done()) return report_failure(reply, asked.admin.json, io);
  io.out << (asked.admin.json ? to_text(reply.json) : config::on_screen_lines(log_text(reply.json)))
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
