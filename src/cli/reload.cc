#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_reload =
    "Has a running server read its policy again, and says what became of it when every worker "
    "decides\n"
    "by it. Mistakes are reported with file, line and column; then the old policy stays.";

std::string footer_of_reload() {
  return admin_footer(
      "Examples:\n"
      "  sluice reload\n"
      "  sluice reload --json",
      "it is live, or was so before", "it is refused, or cannot be read again");
}

// The server itself gives up after 30 s.
constexpr std::chrono::seconds reload_timeout_min{35};

}  // namespace

int reload(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice reload [options]", about_reload, footer_of_reload());
  AdminFlags flags;
  add_admin_flags(arguments, flags);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io, "; the server knows its files")) return *ended;
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  port->wait_at_least(reload_timeout_min);
  auto reply = port->ask("POST", "/v1/reload", nullptr);

  const bool refused = reply.status == 422;
  if (!reply.is_done() && !refused) return report_failure(reply, flags.json, io);
  if (flags.json) {
    Json json{{"outcome", refused ? "refused" : text_field(reply.json, "outcome")},
              {"generation", field(reply.json, "generation")}};
    if (!refused) json["hash"] = field(reply.json, "hash");
    json["diagnostics"] = list_field(reply.json, "diagnostics");
    io.out << to_text(json) << std::flush;
    return refused ? config::exit_failure : config::exit_ok;
  }
  tell(diagnostics_of(list_field(reply.json, "diagnostics")), io);
  if (refused) return report_failure(reply, false, io);
  const bool live = text_field(reply.json, "outcome") == "live";
  const int64_t generation = integer_field(reply.json, "generation");
  io.out << (live ? config::paint("live", config::green, io.out_colour) + ": generation "
                  : "unchanged: generation ")
         << generation << ", hash " << config::on_screen(text_field(reply.json, "hash"))
         << std::endl;
  return config::exit_ok;
}

}  // namespace sluice::cli
