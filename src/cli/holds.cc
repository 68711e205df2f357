#include <cmath>

#include "base/bounds.h"
#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"
#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr const char* about_holds =
    "Lists the reservations and places that a running server holds: how many units of which\n"
    "counter, for whom, since when, and when they end by themselves.";

std::string footer_of_holds() {
  return admin_footer(
      "Examples:\n"
      "  sluice holds\n"
      "  sluice holds --rule tokens --actor acme\n"
      "  sluice holds --kind place --holder worker-7 --json",
      "listed, or there is none", "the server keeps no reservations, or refuses it");
}

constexpr const char* about_release =
    "Ends a reservation or a place of a running server: all its units go back, as if none had\n"
    "been used. ID is the one that `sluice holds` lists.";

std::string footer_of_release() {
  return admin_footer("Examples:\n  sluice release AbCdEfGhIjKlMnOpQrStUv", "released",
                      "nothing with that id is held, or the store cannot take its units now");
}

constexpr const char* about_renew =
    "Sets the end of a reservation or a place of a running server: TTL from now on, as 90s, later\n"
    "or earlier than it was, up to what its rules allow; without TTL as long as the last time. ID\n"
    "is the one that `sluice holds` lists.";

std::string footer_of_renew() {
  return admin_footer(
      "Examples:\n"
      "  sluice renew AbCdEfGhIjKlMnOpQrStUv\n"
      "  sluice renew AbCdEfGhIjKlMnOpQrStUv 5m",
      "its end is set", "nothing with that id is held, or the store cannot set its end now");
}

std::string length_of(const Json& hold, const char* key) {
  const Json& seconds = field(hold, key);
  if (!seconds.is_number()) return "?";
  return base::format_duration({std::llround(seconds.get<double>() * 1e3) * 1000});
}

// A release, or with PUT a renew, of the one that the words name.
int ask_about_one(Arguments& arguments, std::string_view method, const Words& words,
                  config::CommandIo& io) {
  const bool renews = method == "PUT";
  AdminFlags flags;
  std::string user;
  add_admin_flags(arguments, flags);
  arguments.add_option("--user", user, "Whose it is, where several users have this id", "NAME");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  const Words& said = arguments.positional();
  if (said.empty() || said.size() > (renews ? 2 : 1))
    return arguments.misused("name one by its ID, as `sluice holds` lists it", io);
  Json body = renews ? Json::object() : Json();
  if (said.size() == 2) {
    const auto ttl = base::parse_duration(said.back());
    if (!ttl || ttl->us <= 0 || ttl->us > base::bounds::hold_us_max)
      return arguments.misused(
          "TTL must be a length of time up to 24h, as 90s, not `" + said.back() + "`", io);
    body["ttl"] = static_cast<double>(ttl->us) / 1e6;
  }
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  std::string path = "/v1/holds/" + wire::percent_encoded(said.front());
  if (!user.empty()) path += "?user=" + wire::percent_encoded(user);
  const auto reply = port->ask(method, path, body);
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  if (renews)
    io.out << "renewed: ends in " << length_of(reply.json, "expires_in") << std::endl;
  else
    io.out << "released: " << field(reply.json, "returned").dump() << " units went back"
           << std::endl;
  return config::exit_ok;
}

}  // namespace

int holds(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice holds [options]", about_holds, footer_of_holds());
  AdminFlags flags;
  std::string limit_text = "100", kind, rule, actor, counter, holder, user;
  add_admin_flags(arguments, flags);
  arguments.add_option("--kind", kind, "Reservations alone, or places", "reservation|place");
  arguments.add_option("--rule", rule, "Those of this rule alone", "NAME");
  arguments.add_option("--actor", actor, "Those of this actor alone", "TEXT");
  arguments.add_option("--counter", counter, "Those of the counter with this whole name", "KEY");
  arguments.add_option("--holder", holder, "Those with this text of their holder", "TEXT");
  arguments.add_option("--user", user, "Those of this user", "NAME");
  arguments.add_option("--limit", limit_text, "So many, up to 1000; default " + limit_text, "N");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  if (!kind.empty() && kind != "reservation" && kind != "place")
    return arguments.misused("--kind must be `reservation` or `place`, not `" + kind + "`", io);
  int ending = config::exit_ok;
  const auto limit = listed_of(limit_text, arguments, io, ending, page_max);
  if (!limit) return ending;
  std::string query = "/v1/holds?limit=" + std::to_string(*limit);
  for (const auto& [key, text] : {std::pair("kind", &kind),
                                  {"rule", &rule},
                                  {"actor", &actor},
                                  {"counter", &counter},
                                  {"holder", &holder},
                                  {"user", &user}})
    if (!text->empty()) query += "&" + std::string(key) + "=" + wire::percent_encoded(*text);
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->get(query);
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  const Json& list = list_field(reply.json, "holds");
  if (list.empty()) {
    io.err << "nothing is held" << std::endl;
    return config::exit_ok;
  }
  for (const Json& one : list) {
    io.out << config::on_screen(text_field(one, "id")) << "  " << field(one, "n").dump()
           << (text_field(one, "kind") == "place" ? " places of " : " units of ")
           << config::on_screen(text_field(one, "counter")) << "\n  held for "
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
  return ask_about_one(arguments, "DELETE", words, io);
}

int renew(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice renew ID [TTL] [options]", about_renew, footer_of_renew());
  return ask_about_one(arguments, "PUT", words, io);
}

}  // namespace sluice::cli
