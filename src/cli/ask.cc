#include "cli/ask.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

constexpr const char* about_ask =
    "Asks a running server, in the words of a protocol, whether something may happen now.";

// The protocols that can be asked from the command line.
std::vector<const protocol::Description*> askable() {
  std::vector<const protocol::Description*> found;
  for (const protocol::Description* one : protocol::all())
    if (one->ask != nullptr) found.push_back(one);
  return found;
}

std::string footer_of_ask() {
  std::string text = "Protocols, each with a --help of its own, and the ports they are asked on:\n";
  for (const protocol::Description* one : askable())
    text += "  " + std::to_string(one->port) + "  sluice ask " + std::string(one->name) + " " +
            std::string(one->ask->usage) + "\n";
  const protocol::Description& first = *askable().front();
  return text + "\nExample:\n  sluice ask " + std::string(first.name) + " " +
         std::string(first.ask->example);
}

// "`a`, `b` or `c`"
std::string protocol_names() {
  const auto all = askable();
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0                ? "`"
             : i + 1 == all.size() ? " or `"
                                   : ", `") +
            std::string(all[i]->name) + "`";
  return text;
}

constexpr uint64_t ask_timeout_ms_max = 3'600'000;

constexpr std::string_view with_value[] = {"--server", "--timeout", "--ca", "--cert", "--cert-key"};

// The first word that is neither an option nor the value of one.
size_t protocol_at(const Words& words) {
  size_t at = 0;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--")
    at += std::ranges::count(with_value, words[at]) > 0 ? 2u : 1u;
  return at;
}

}  // namespace

void add_ask_options(Arguments& arguments, AskOptions& options, const char* server_default) {
  arguments.add_option("--server", options.server,
                       "Where the server listens, with `https://` or such in front where it has\n"
                       "TLS; default " +
                           (server_default != nullptr ? server_default : options.server),
                       "HOST:PORT");
  // `--key` is the key of a counter.
  add_tls_flags(arguments, options.ca, options.cert, options.key, "--cert-key");
  arguments.add_option("--timeout", options.timeout, "Milliseconds until giving up; default 1000",
                       "MS");
  arguments.add_flag("--json", options.json, "Print the decision as JSON");
}

void add_user_option(Arguments& arguments, AskedUser& user) {
  arguments.add_option("--user", user.name,
                       "The name of the user whose token is in SLUICE_TOKEN, to be sure", "NAME");
}

base::Done read_token(AskedUser& user, const config::CommandIo& io) {
  user.token = io.environment("SLUICE_TOKEN").value_or("");
  if (!user.token.empty()) return {};
  if (io.environment("SLUICE_PASSWORD"))
    return base::Problem{"SLUICE_PASSWORD is not read: set SLUICE_TOKEN to the user's token"};
  if (!user.name.empty()) return base::Problem{"--user wants the user's token in SLUICE_TOKEN"};
  return {};
}

base::Result<AskTarget> target_of(const AskOptions& options, uint16_t port,
                                  std::initializer_list<std::string_view> schemes) {
  std::string text = options.server;
  const size_t end = text.find("://");
  std::string_view scheme(text.data(), std::min(end, text.size()));
  const std::string secure = std::string(*schemes.begin()) + "s://";
  const bool is_secure = end != text.npos && scheme.ends_with('s') &&
                         std::ranges::count(schemes, scheme.substr(0, scheme.size() - 1)) > 0;
  if (end != text.npos && !is_secure && std::ranges::count(schemes, scheme) == 0)
    return base::Problem{"--server may begin with " + std::string(*schemes.begin()) + "://, or " +
                         secure + " for TLS, not with " + text.substr(0, end + 3)};
  if (end != text.npos) text.erase(0, end + 3);
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  auto tls =
      tls_of(options.ca, options.cert, options.key, is_secure, "--server " + secure + "HOST:PORT");
  if (!tls) return std::move(tls).problem();
  auto address = config::parse_address(text, port);
  if (!address) return std::move(address).problem().within("--server");
  const auto ms = base::parse_count(options.timeout);
  if (!ms || *ms < 1 || *ms > ask_timeout_ms_max)
    return base::Problem{"--timeout must be 1 to 3600000 milliseconds, not `" + options.timeout +
                         "`"};
  return AskTarget{*std::move(address), std::chrono::milliseconds(*ms), *std::move(tls)};
}

std::string with_hint(std::string failure, const AskTarget& target) {
  constexpr std::string_view late = ": no answer in time";
  if (target.tls && failure.starts_with("cannot connect to") && failure.ends_with(late))
    failure.insert(failure.size() - late.size(), " by TLS");
  const bool may_be_tls = failure.starts_with("the server closed the connection") ||
                          failure.starts_with("the connection was lost: Connection reset") ||
                          failure.find("a TLS server") != failure.npos;
  const bool is_known = failure.find("; it answers as") != failure.npos;
  if (!target.tls && may_be_tls && !is_known)
    failure += "; if that port has TLS, write https:// or such in front of the address";
  return failure;
}

int report_undecided(std::string error, bool json, config::CommandIo& io) {
  if (const auto remedy = tls_remedy(error); !remedy.empty())
    error += remedy;
  else if (error.starts_with("cannot connect to"))
    error += "; is the server up? If it listens elsewhere, name it: `--server HOST:PORT`";
  if (json)
    io.out << to_text({{"error", error}}) << std::flush;
  else
    io.err << config::paint("error:", config::red, io.err_colour) << ' ' << config::on_screen(error)
           << std::endl;
  return exit_undecided;
}

int ask(const Words& words, config::CommandIo& io) {
  const size_t at = protocol_at(words);
  const std::string name = at < words.size() ? words[at] : "";
  Words rest = words;
  if (at < words.size()) rest.erase(rest.begin() + static_cast<ptrdiff_t>(at));
  for (const protocol::Description* one : askable())
    if (name == one->name) return one->ask->run(rest, io);

  Arguments arguments("sluice ask PROTOCOL [options] WORD...", about_ask, footer_of_ask(),
                      exit_of_ask);
  AskOptions options(askable().front()->port);
  add_ask_options(arguments, options, "localhost, on the protocol's port");
  std::vector<std::string_view> names;
  for (const protocol::Description* one : askable()) names.push_back(one->name);
  arguments.set_words(names);
  if (const auto status = arguments.parse(words, io)) return *status;
  return arguments.misused(
      (name.empty() ? "there is no protocol" : "there is no protocol `" + name + "`") +
          did_you_mean(name, names) + "; the first word must be " + protocol_names(),
      io);
}

}  // namespace sluice::cli
