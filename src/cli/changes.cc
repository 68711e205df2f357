#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_changes =
    "Lists what was changed while a running server runs: overrides that were set, removed or have\n"
    "expired, counters that were set or reset, policies that were read, the log's settings; each\n"
    "with when, by whom, and how it was before and after. The last thousand are kept; each is a\n"
    "line of the log as well.";

std::string footer_of_changes() {
  return admin_footer(
      "Examples:\n"
      "  sluice changes\n"
      "  sluice changes --limit 1000 --json",
      "listed, or there is none", "the server refuses it");
}

std::string words_of(const Json& json) {
  return json.is_null() ? "-" : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The names of the override, rule, actor or counter, separated by blanks.
std::string subject_of(const Json& about) {
  std::string text;
  for (const auto& [key, value] : about.items()) {
    if (key == "id" || key == "path" || key == "dialect") continue;
    text += (text.empty() ? "" : " ") + key + "=" +
            (value.is_string() ? value.get<std::string>() : words_of(value));
  }
  return text;
}

}  // namespace

int changes(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice changes [options]", about_changes, footer_of_changes());
  AdminFlags flags;
  std::string limit_text = "20";
  add_admin_flags(arguments, flags);
  arguments.add_option("--limit", limit_text, "The last so many, up to 1000; default " + limit_text,
                       "N");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  int ending = config::exit_ok;
  const auto limit = listed_of(limit_text, arguments, io, ending, page_max);
  if (!limit) return ending;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->get("/v1/changes?limit=" + std::to_string(*limit));
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  const Json& list = list_field(reply.json, "changes");
  if (list.empty()) {
    io.err << "nothing was changed since the server started" << std::endl;
    return config::exit_ok;
  }
  for (const Json& one : list) {
    io.out << config::on_screen(text_field(one, "at")) << "  "
           << config::on_screen(text_field(one, "what")) << " by "
           << config::on_screen(text_field(one, "by")) << '\n';
    if (const std::string about = subject_of(field(one, "about")); !about.empty())
      io.out << "  " << config::on_screen(about) << '\n';
    io.out << "  before " << config::on_screen(words_of(field(one, "before"))) << '\n'
           << "  after  " << config::on_screen(words_of(field(one, "after"))) << '\n';
  }
  io.out << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
