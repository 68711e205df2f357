#include "base/units.h"
#include "cli/arguments.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "config/settings.h"
#include "live/live_policy.h"
#include "policy/fresh_starts.h"

namespace sluice::cli {
namespace {

constexpr const char* about_check =
    "Says what is wrong or doubtful in policy and configuration files, without\n"
    "serving them.\n"
    "A sluice.yaml is checked together with the policies that it names.";

constexpr const char* footer_of_check =
    "Example:\n"
    "  sluice check rules.ini sluice.yaml\n"
    "  sluice check --strict sluice.yaml\n"
    "\n"
    "Every finding is one line on standard error, FILE:LINE:COLUMN: error or\n"
    "warning, with line and column where they are known. `FILE: ok, N rules` comes\n"
    "on standard output, for a sluice.yaml with what requests are answered that no\n"
    "rule applies to, and which rules settle over several slots of a Redis Cluster.\n"
    "With --json all of it is there.\n"
    "With --against also which counters begin fresh when FILE replaces OLD: those of\n"
    "rules whose name or actor changes, or without a name their match; and limits that\n"
    "are new, or of another algorithm, or mostly of another window. All others go on,\n"
    "with what was used.\n"
    "\n"
    "A sluice.yaml is checked with the variables that `sluice serve` reads.\n";

}  // namespace

int check(const Words& words, config::CommandIo& io) {
  Arguments arguments(
      "sluice check [options] FILE...", about_check, footer_of_check,
      {"every file can be served", "one cannot, or with --strict there are warnings"});
  FileFlags flags;
  bool json = false;
  flags.to_be_served = true;
  add_file_flags(arguments, flags);
  arguments.add_flag("--json", json, "Print the findings as JSON");
  config::Flags server;
  add_setting_flag(arguments, server, {.flag = "--redis", .type = "HOST:PORT"},
                   "Check for a server with this option of `sluice serve`");
  add_setting_flag(arguments, server, {.flag = "--redis-cluster", .type = "HOST:PORT"},
                   "The same: which rules does this Redis Cluster refuse?");
  std::optional<std::string> against;
  arguments.add_option("--against", against,
                       "Say which counters begin fresh when FILE replaces OLD, and why", "OLD");
  // A format may have a flag with the same name; then the option sets both.
  arguments.add_flag("--strict", "Fail on warnings as well");
  if (const auto status = arguments.parse(words, io)) return *status;
  std::optional<config::FileKind> kind;
  if (flags.as && !(kind = config::kind_named(*flags.as)))
    return arguments.misused(unknown_kind(*flags.as), io);
  if (arguments.positional().empty()) return arguments.misused("there is no file to check", io);

  const bool strict = arguments.is_given("--strict");
  bool all_sound = true;
  auto files = nlohmann::ordered_json::array();
  for (const std::string& path : arguments.positional()) {
    request::Spaces spaces;
    base::Diagnostics diagnostics;
    Unmatched unmatched;
    std::vector<std::string> across, notes;
    const auto rules = inspect(path, kind, flags, spaces, diagnostics, &unmatched, &across,
                               [&](config::Config& config, base::Diagnostics& to) {
                                 config::apply_environment(io, config, to);
                                 config::apply_flags(server, config, to);
                                 notes = config.notes();
                               });
    const size_t count = rules ? rules->written() : 0;
    const bool sound = rules != nullptr && (!strict || diagnostics.empty());
    all_sound = all_sound && sound;
    std::vector<std::string> fresh;
    if (rules && against) {
      base::Diagnostics of_old;
      const auto was = inspect(*against, kind, flags, spaces, of_old);
      if (!was) {
        tell(of_old, io);
        return fail("nothing can be compared with " + *against, io);
      }
      if (policy::have_nothing_in_common(*was, *rules))
        return fail("nothing can be compared with " + *against +
                        ": its rules are of another kind than those of " + path,
                    io);
      size_t more = 0;
      for (const policy::FreshStart& one : policy::fresh_starts(*was, *rules, SIZE_MAX, more))
        fresh.push_back(to_text(one));
    }
    if (json) {
      files.push_back({{"file", path},
                       {"ok", sound},
                       {"rules", count},
                       {"diagnostics", admin::to_json(diagnostics)}});
      for (const auto& [protocol, answer] : unmatched) files.back()["unmatched"][protocol] = answer;
      if (!notes.empty()) files.back()["notes"] = notes;
      if (against) files.back()["begins_fresh"] = fresh;
      admin::add_across_slots(across, files.back());
      continue;
    }
    tell(diagnostics, io);
    if (sound)
      io.out << path << ": " << config::paint("ok", config::green, io.out_colour) << ", "
             << base::counted(count, "rule") << std::endl;
    if (!rules) continue;
    for (const auto& [protocol, answer] : unmatched)
      io.out << path << ": where no rule applies, " << protocol << ": " << answer << std::endl;
    for (const std::string& note : notes)
      io.out << path << ": " << config::on_screen(note) << std::endl;
    for (const std::string& one : fresh)
      io.out << path << ": " << config::on_screen(one) << std::endl;
    if (fresh.empty() && against) io.out << path << ": no counter begins fresh" << std::endl;
    for (const std::string& names : across)
      io.out << path << ": settle slot by slot: " << config::on_screen(names) << std::endl;
  }
  if (json) io.out << to_text({{"files", files}}) << std::flush;
  return all_sound ? config::exit_ok : config::exit_failure;
}

}  // namespace sluice::cli
