#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_config =
    "Prints the configuration that a running server goes by, as a sluice.yaml with where each "
    "value\n"
    "comes from, and which policy is live.";

std::string footer_of_config() {
  return admin_footer(
      "What a start would read is printed by `sluice serve --print-config`.\n"
      "\n"
      "Examples:\n"
      "  sluice config\n"
      "  sluice config --json",
      "printed", "the server refuses it");
}

}  // namespace

int live_config(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice config [options]", about_config, footer_of_config());
  AdminFlags flags;
  add_admin_flags(arguments, flags);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->get("/v1/config");
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  const auto say = [&](const std::string& text) {
    io.out << "# " << config::on_screen(text) << '\n';
  };
  say("sluice " + text_field(reply.json, "version") + " at " + port->name());
  say("policy: generation " + std::to_string(integer_field(reply.json, "generation")) +
      ", live since " + text_field(reply.json, "live_since") + ", hash " +
      text_field(reply.json, "hash"));
  for (const Json& file : list_field(reply.json, "files"))
    if (file.is_string()) say("file: " + file.get<std::string>());
  io.out << config::on_screen_lines(text_field(reply.json, "settings")) << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
