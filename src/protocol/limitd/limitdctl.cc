#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "base/units.h"
#include "cli/arguments.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "config/address.h"
#include "config/built_in.h"
#include "config/screen_text.h"
#include "protocol/limitd/commands.h"

namespace sluice::limitd {
namespace {

constexpr const char* about_limitdctl =
    "Asks a running server over limitd's protocol, in place of `limitdctl`: its flags, its "
    "output,\n"
    "its exit statuses; -h is --hostname, as there. `sluice ask limitd` says more.";

constexpr const char* footer_of_limitdctl =
    "Example:\n"
    "  sluice limitdctl -h localhost -p 9231 -b user -k 10.0.0.7 -t 1\n"
    "  Conformant - Remaining: 9\n"
    "\n"
    "Exit status: 0 done, 1 not conformant (with --json 0), or anything else.";

constexpr std::chrono::milliseconds timeout{5000}, wait_timeout{3'600'000};

struct Asked {
  std::optional<std::string> bucket, key, take, wait, put;
  std::string hostname = "localhost", port = "9231";
  bool status = false, json = false, version = false;
};

int fail(const std::string& text, config::CommandIo& io) {
  io.err << text << std::endl;
  return config::exit_failure;
}

// A framed table with a column for each number.
std::string to_table(const std::vector<client_level>& levels) {
  std::vector<std::array<std::string, 4>> rows{{"instance", "remaining", "reset", "limit"}};
  for (const client_level& one : levels)
    rows.push_back({config::on_screen(one.name), std::to_string(one.remaining.value_or(0)),
                    std::to_string(one.reset_at.value_or(0)),
                    std::to_string(one.limit.value_or(0))});
  std::array<size_t, 4> widths{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], config::columns_of(row[i]));
  const auto rule = [&] {
    std::string text = "+";
    for (const size_t width : widths) (text += std::string(width + 2, '-')) += '+';
    return text + "\n";
  };
  std::string table = rule();
  for (size_t r = 0; r < rows.size(); ++r) {
    table += '|';
    for (size_t i = 0; i < widths.size(); ++i)
      table += " " + config::fitted(rows[r][i], widths[i]) + " |";
    table += '\n';
    if (r == 0) table += rule();
  }
  return table + rule();
}

nlohmann::ordered_json reply_json(client_verb verb, const client_result& answer) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto add = [](const auto& level, nlohmann::ordered_json& to) {
    to["remaining"] = level.remaining.value_or(0);
    to["reset"] = level.reset_at.value_or(0);
    to["limit"] = level.limit.value_or(0);
  };
  if (verb == client_verb::list) {
    json["items"] = nlohmann::ordered_json::array();
    for (const client_level& one : answer.levels) {
      auto& entry = json["items"].emplace_back();
      entry["instance"] = one.name;
      add(one, entry);
    }
    return json;
  }
  if (verb != client_verb::put) {
    json["conformant"] = answer.allowed;
    json["delayed"] = answer.delayed;
  }
  add(answer, json);
  return json;
}

int tell(client_verb verb, const client_result& answer, bool json, config::CommandIo& io) {
  if (json) {
    io.out << cli::to_text(reply_json(verb, answer)) << std::flush;
    return config::exit_ok;
  }
  const std::string remaining = std::to_string(answer.remaining.value_or(0));
  switch (verb) {
    case client_verb::list:
      io.out << (answer.levels.empty() ? "no results\n" : to_table(answer.levels));
      break;
    case client_verb::put:
      io.out << "OK - Current: " << remaining << '\n';
      break;
    default:
      if (!answer.allowed) return fail("Non conformant! - Current: " + remaining, io);
      // limitdctl prints nothing after a successful wait.
      if (verb == client_verb::take) io.out << "Conformant - Remaining: " << remaining << '\n';
  }
  io.out.flush();
  return config::exit_ok;
}

void add_flags(cli::Arguments& arguments, Asked& asked) {
  arguments.free_short_help();
  arguments.add_option("-p,--port", asked.port, "Port of the server; default 9231", "PORT");
  arguments.add_option("-h,--hostname", asked.hostname, "Host of the server; default localhost",
                       "HOST");
  arguments.add_option("-b,--bucket", asked.bucket, "Bucket type", "TYPE");
  arguments.add_option("-k,--key", asked.key, "Bucket key; with -s what keys begin with", "KEY");
  arguments.add_option("-t,--take", asked.take, "Take n units, or none", "N");
  arguments.add_option("-w,--wait", asked.wait, "Take n units once they are there", "N");
  arguments.add_option("-r,--put", asked.put, "Put n units back", "N");
  arguments.add_flag("-s,--status", asked.status, "How the buckets of a type stand");
  arguments.add_flag("-j,--json", asked.json, "Print JSON");
  arguments.add_flag("-V,--version", asked.version, "Print the version and exit");
}

}  // namespace

int limitdctl(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments(
      "sluice limitdctl -h HOST -p PORT -b TYPE -k KEY (-t N | -w N | -r N | -s)", about_limitdctl,
      footer_of_limitdctl);
  Asked asked;
  add_flags(arguments, asked);
  if (const auto status = arguments.parse(words, io))
    return *status == config::exit_ok ? config::exit_ok : config::exit_failure;
  if (asked.version) {
    io.out << config::version << std::endl;
    return config::exit_ok;
  }
  if (!asked.bucket) return fail("\"--bucket\" is required", io);
  if (!asked.key) return fail("\"--key\" is required", io);
  const int methods =
      (asked.take ? 1 : 0) + (asked.wait ? 1 : 0) + (asked.put ? 1 : 0) + (asked.status ? 1 : 0);
  if (methods != 1)
    return fail(
        "one and only one method must be provided \"--take\", \"--wait\", \"--put\" or "
        "\"--status\"",
        io);
  client_request request;
  request.verb = client_verb::list;
  request.subject.type = *asked.bucket;
  request.subject.key = *asked.key;
  if (!asked.status) {
    request.verb = asked.take   ? client_verb::take
                   : asked.wait ? client_verb::wait
                                : client_verb::put;
    const std::string& text = asked.take ? *asked.take : asked.wait ? *asked.wait : *asked.put;
    int32_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [at, bad] = std::from_chars(text.data(), end, count);
    if (bad != std::errc() || at != end)
      return fail("`" + text + "` is not a number of units; write 1 to 2147483647", io);
    request.n = count;
  }
  const auto port = base::parse_port(asked.port);
  if (!port) return fail("`" + asked.port + "` is not a port; write 1 to 65535", io);

  const auto limit = request.verb == client_verb::wait ? wait_timeout : timeout;
  cli::AskedServer server("limitd", {{asked.hostname, *port}, limit});
  const client_result answer = server.call(request);
  if (answer.error != client_errc::none) return fail(config::on_screen(answer.text), io);
  return tell(request.verb, answer, asked.json, io);
}

}  // namespace sluice::limitd
