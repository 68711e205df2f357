#include <cmath>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"
#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr const char* about_holds =
    "Lists the reservations that a running server holds: how many units of which counter, for\n"
    "whom, since when, and when they end by themselves.";

std::string footer_of_holds() {
  return admin_footer(
      "Examples:\n"
      "  sluice holds\n"
      "  sluice holds --rule tokens --actor acme\n"
      "  sluice holds --holder worker-7 --json",
      "listed, or there is none", "the server keeps no reservations, or refuses it");
}

constexpr const char* about_release =
    "Ends a reservation of a running server: all its units go back, as if none had been used. ID\n"
    "is the one that `sluice holds` lists.";

std::string footer_of_release() {
  return admin_footer("Examples:\n  sluice release AbCdEfGhIjKlMnOpQrStUv", "released",
                      "no such reservation is held, or the store cannot take its units now");
}

std::string length_of(const Json& hold, const char* key) {
  const Json& seconds = field(hold, key);
  if (!seconds.is_number()) return "?";
  return base::format_duration({std::llround(seconds.get<double>() * 1e3) * 1000});
}

}  // namespace

int holds(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice holds [options]", about_holds, footer_of_holds());
  AdminFlags flags;
  std::string limit_text = "100", rule, actor, counter, holder, user;
  add_admin_flags(arguments, flags);
  arguments.add_option("--rule", rule, "Those of this rule alone", "NAME");
  arguments.add_option("--actor", actor, "Those of this actor alone", "TEXT");
  arguments.add_option("--counter", counter, "Those of the counter with this whole name", "KEY");
  arguments.add_option("--holder", holder, "Those with this text of their holder", "TEXT");
  arguments.add_option("--user", user, "Those of this user", "NAME");
  arguments.add_option("--limit", limit_text, "So many, up to 1000; default " + limit_text, "N");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (!arguments.positional().empty())
    return arguments.misused("unexpected argument `" + arguments.positional().front() + "`", io);
  int ending = config::exit_ok;
  const auto limit = listed_of(limit_text, arguments, io, ending);
  if (!limit) return ending;
  if (*limit > 1000) return arguments.misused("--limit must be 1 to 1000", io);
  std::string query = "/v1/holds?limit=" + std::to_string(*limit);
  for (const auto& [key, text] : {std::pair("rule", &rule),
                                  {"actor", &actor},
                                  {"counter", &counter},
                                  {"holder", &holder},
                                  {"user", &user}})
    if (!text->empty()) query += "&" + std::string(key) + "=" + wire::percent_encoded(*text);
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->get(query);
  if (!reply.is_done()) return report_failure(reply, flags.json, io);
  if (flags.json) {
    io.out << to_text(reply.json) << std::flush;
    return config::exit_ok;
  }
  const Json& list = list_field(reply.json, "holds");
  if (list.empty()) {
    io.err << "nothing is held" << std::endl;
    return config::exit_ok;
  }
  for (const Json& one : list) {
    io.out << config::on_screen(text_field(one, "id")) << "  " << field(one, "n").dump()
           << " units of " << config::on_screen(text_field(one, "counter")) << "\n  held for "
           << length_of(one, "age") << ", ends in " << length_of(one, "expires_in");
    if (const std::string text = text_field(one, "holder"); !text.empty())
      io.out << ", by " << config::on_screen(text);
    if (const std::string text = text_field(one, "user"); !text.empty())
      io.out << " of user " << config::on_screen(text);
    io.out << '\n';
  }
  const Json& total = field(reply.json, "total");
  if (total.is_number_unsigned() && total.get<uint64_t>() > list.size())
    io.err << "these are " << list.size() << " of " << total.dump() << std::endl;
  io.out << std::flush;
  return config::exit_ok;
}

int release(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice release ID [options]", about_release, footer_of_release());
  AdminFlags flags;
  std::string user;
  add_admin_flags(arguments, flags);
  arguments.add_option("--user", user, "Whose reservation, where several users have this id",
                       "NAME");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() != 1)
    return arguments.misused("name one reservation by its ID, as `sluice holds` lists it", io);
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  std::string path = "/v1/holds/" + wire::percent_encoded(arguments.positional().front());
  if (!user.empty()) path += "?user=" + wire::percent_encoded(user);
  const auto reply = port->ask("DELETE", path, nullptr);
  if (!reply.is_done()) return report_failure(reply, flags.json, io);
  if (flags.json) {
    io.out << to_text(reply.json) << std::flush;
    return config::exit_ok;
  }
  io.out << "released: " << field(reply.json, "returned").dump() << " units went back\n"
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
