#include "cli/ask.h"

#include <algorithm>
#include <array>
#include <string>

#include "access/users.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "protocol/envoy/client.h"
#include "protocol/envoy/commands.h"

namespace sluice::envoy {
namespace {

constexpr const char* about_ask_envoy =
    "Asks a running server as Envoy does: is a request of this domain with these descriptors over "
    "a\n"
    "limit? Each pair is an entry of a descriptor, in order; `--` begins the next descriptor.";

constexpr const char* footer_of_ask_envoy =
    "Without --hits, --peek or --refund each descriptor has the one hit that Envoy counts. Behind "
    "the\n"
    "first `--` nothing is an option.\n"
    "\n"
    "Examples:\n"
    "  sluice ask envoy shop remote_address=10.0.0.7\n"
    "  allowed (OK)\n"
    "    remote_address=10.0.0.7: OK, 4 of 5 left per minute, resets in 37s\n"
    "\n"
    "  sluice ask envoy --peek shop tenant=a path=/cart -- tenant=b\n"
    "\n";

constexpr const char* unnamed_code = "a code without a name";

struct AskedLimit {
  uint32_t requests = 0;
  WireUnit unit = WireUnit::unknown;
};

// The options that apply to each descriptor.
struct HitOptions {
  std::optional<std::string> hits, limit;
  bool peek = false, refund = false;
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Reads a limit such as `100/minute`; nothing: it is malformed.
std::optional<AskedLimit> parse_limit(const std::string& text) {
  const size_t cut = std::min(text.find('/'), text.size());
  const auto requests = base::parse_count(text.substr(0, cut));
  if (!requests || *requests > UINT32_MAX || cut == text.size()) return std::nullopt;
  const std::string word = lower_case(text.substr(cut + 1));
  for (int32_t n = 1; n <= static_cast<int32_t>(WireUnit::week); ++n) {
    const auto unit = static_cast<WireUnit>(n);
    if (lower_case(unit_name(unit)) == word)
      return AskedLimit{static_cast<uint32_t>(*requests), unit};
  }
  return std::nullopt;
}

// A request, and the texts that its views point into.
struct AskedRequest {
  std::string domain;
  std::vector<cli::Pairs> descriptors;
  RateLimitRequest request;
};

// Returns what is wrong with the usage; empty: nothing.
std::string apply_options(const HitOptions& options, Descriptor& descriptor) {
  if (options.peek && (options.hits || options.refund))
    return "--peek has no hits to give back, and no --hits";
  if (options.hits) {
    descriptor.hits_addend = base::parse_count(*options.hits);
    if (!descriptor.hits_addend)
      return "--hits must be 0 to 18446744073709551615, not `" + *options.hits + "`";
  }
  if (options.peek) descriptor.hits_addend = 0;
  descriptor.is_negative_hits = options.refund;
  if (!options.limit) return "";
  const auto limit = parse_limit(*options.limit);
  if (!limit)
    return "--limit must be 0 to 4294967295, `/`, and second, minute, hour, day, week, month or "
           "year, as 100/minute; not `" +
           *options.limit + "`";
  descriptor.limit.emplace();
  descriptor.limit->requests_per_unit = limit->requests;
  descriptor.limit->unit = limit->unit;
  return "";
}

// Makes a request from groups of words, each a descriptor. Returns what is wrong with the usage;
// empty: nothing.
std::string make_request(std::string domain, const std::vector<cli::Words>& groups,
                         const HitOptions& options, AskedRequest& asked) {
  Descriptor each;
  std::string problem = apply_options(options, each);
  if (!problem.empty()) return problem;
  asked.domain = std::move(domain);
  for (const cli::Words& words : groups) {
    const auto pairs = cli::pairs_of(words);
    if (!pairs) return pairs.problem().text;
    asked.descriptors.push_back(*pairs);
  }
  asked.request.domain = asked.domain;
  for (const cli::Pairs& pairs : asked.descriptors) {
    each.first_entry = static_cast<uint32_t>(asked.request.entries.size());
    each.entry_count = static_cast<uint32_t>(pairs.size());
    for (const auto& [key, value] : pairs) asked.request.entries.push_back({key, value});
    asked.request.descriptors.push_back(each);
  }
  return "";
}

std::string_view name_of(Code code) {
  const std::string_view name = code_name(code);
  return name.empty() ? unnamed_code : name;
}

// "tenant=a, path=/cart"
std::string shown_pairs(const cli::Pairs& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text += (text.empty() ? "" : ", ") + key + "=" + value;
  return config::on_screen(text);
}

// "minute", "5 minutes"; empty: it has no unit.
std::string shown_unit(const CurrentLimit& limit) {
  if (limit.unit == WireUnit::unknown) return "";
  std::string unit = lower_case(unit_name(limit.unit));
  if (unit.empty()) unit = "unit " + std::to_string(static_cast<int32_t>(limit.unit));
  return limit.unit_multiplier > 1 ? base::counted(limit.unit_multiplier, unit) : unit;
}

// "4 of 5 left per minute (login), resets in 37s"
std::string standing_words(const DescriptorStatus& status) {
  if (!status.current_limit)
    return status.limit_remaining == UINT32_MAX ? "unlimited" : "no limit applies";
  const CurrentLimit& limit = *status.current_limit;
  std::string text = std::to_string(status.limit_remaining) + " of " +
                     std::to_string(limit.requests_per_unit) + " left";
  const std::string unit = shown_unit(limit);
  if (!unit.empty()) text += " per " + unit;
  if (!limit.name.empty()) text += " (" + config::on_screen(limit.name) + ")";
  if (status.seconds_until_reset)
    text += ", resets in " + base::format_duration(base::seconds(std::clamp<int64_t>(
                                 *status.seconds_until_reset, 0, INT64_MAX / 1'000'000)));
  return text;
}

void print_answer(const AskedRequest& asked, const RateLimitResponse& response,
                  config::CommandIo& io) {
  const bool allowed = response.overall_code == Code::ok;
  io.out << (allowed ? config::paint("allowed", config::green, io.out_colour)
                     : config::paint("denied", config::red, io.out_colour))
         << " (" << name_of(response.overall_code) << ")\n";
  for (size_t i = 0; i < response.statuses.size(); ++i) {
    const DescriptorStatus& status = response.statuses[i];
    io.out << "  " << shown_pairs(asked.descriptors[i]) << ": " << name_of(status.code) << ", "
           << standing_words(status) << '\n';
  }
  for (const HeaderValue& header : response.response_headers_to_add)
    io.out << "  header " << config::on_screen(header.key) << ": "
           << config::on_screen(header.value) << '\n';
  io.out.flush();
}

// A list of entries with commas, as other programs take it, is one entry here. Empty: there is none
// without a limit, so it seems to be meant.
std::string hint_of(const AskedRequest& asked, const RateLimitResponse& response) {
  for (size_t i = 0; i < response.statuses.size(); ++i) {
    if (response.statuses[i].current_limit) continue;
    for (const auto& [key, value] : asked.descriptors[i]) {
      const size_t comma = value.find(',');
      if (comma == std::string::npos || value.find('=', comma) == std::string::npos) continue;
      return "`" + key + "=" + value + "` is one entry, of the key `" + key +
             "`; several entries are words of their own: " + key + "=" + value.substr(0, comma) +
             " " + value.substr(comma + 1);
    }
  }
  return "";
}

nlohmann::ordered_json json_of(const cli::Pairs& pairs, const DescriptorStatus& status) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const auto& [key, value] : pairs) entries.push_back({{"key", key}, {"value", value}});
  nlohmann::ordered_json one{{"entries", entries}, {"code", name_of(status.code)}};
  if (status.current_limit) {
    const CurrentLimit& limit = *status.current_limit;
    one["limit"] = limit.requests_per_unit;
    one["unit"] = unit_name(limit.unit);
    if (limit.unit_multiplier != 0) one["unit_multiplier"] = limit.unit_multiplier;
    one["name"] = limit.name;
  }
  one["remaining"] = status.limit_remaining;
  if (status.seconds_until_reset) one["reset_after_seconds"] = *status.seconds_until_reset;
  return one;
}

void print_json(const AskedRequest& asked, const RateLimitResponse& response,
                config::CommandIo& io) {
  auto statuses = nlohmann::ordered_json::array();
  for (size_t i = 0; i < response.statuses.size(); ++i)
    statuses.push_back(json_of(asked.descriptors[i], response.statuses[i]));
  auto headers = nlohmann::ordered_json::array();
  for (const HeaderValue& header : response.response_headers_to_add)
    headers.push_back({{"key", header.key}, {"value", header.value}});
  io.out << cli::to_text({{"allowed", response.overall_code == Code::ok},
                          {"code", name_of(response.overall_code)},
                          {"statuses", statuses},
                          {"headers", headers}})
         << std::flush;
}

// The words before the first `--`, then those after each `--`.
std::vector<cli::Words> split_at_marks(const cli::Words& words) {
  std::vector<cli::Words> groups(1);
  for (const std::string& word : words) {
    if (word == "--")
      groups.emplace_back();
    else
      groups.back().push_back(word);
  }
  return groups;
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask envoy [options] DOMAIN KEY=VALUE... [-- KEY=VALUE...]...",
                           about_ask_envoy, std::string(footer_of_ask_envoy) + cli::about_users,
                           cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  cli::AskedUser user;
  cli::add_user_option(arguments, user);
  HitOptions of_hits;
  arguments.add_option("--hits", of_hits.hits, "Hits of each descriptor", "N");
  arguments.add_flag("--peek", of_hits.peek, "No hits: how do the limits stand?");
  arguments.add_flag("--refund", of_hits.refund, "Give the hits back");
  arguments.add_option("--limit", of_hits.limit,
                       "In place of the rules' limits, as 100/minute: second, minute, hour, day, "
                       "week,\nmonth or year",
                       "N/UNIT");
  std::vector<cli::Words> groups = split_at_marks(words);
  if (const auto status = arguments.parse(groups.front(), io)) return *status;
  cli::Words first = arguments.positional();
  if (first.empty()) return arguments.misused("behind `envoy` comes the domain", io);
  std::string domain = std::move(first.front());
  first.erase(first.begin());
  groups.front() = std::move(first);
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [](const cli::Words& group) { return group.empty(); }),
               groups.end());
  if (groups.empty())
    return arguments.misused("behind the domain comes a descriptor: one or more KEY=VALUE", io);
  AskedRequest asked;
  const std::string problem = make_request(std::move(domain), groups, of_hits, asked);
  if (!problem.empty()) return arguments.misused(problem, io);
  const auto target = cli::target_of(options, description.port, {"http", "grpc"});
  if (!target) return arguments.misused(target.problem().text, io);

  if (const base::Done read = cli::read_token(user, io); !read)
    return arguments.misused(read.problem().text, io);

  const auto answer = ServiceClient(target->address.host, target->address.port, target->timeout,
                                    access::authorization_of(user.name, user.token), target->tls)
                          .ask(asked.request);
  if (!answer)
    return cli::report_undecided(cli::with_hint(answer.problem().text, *target), options.json, io);
  const RateLimitResponse& response = (*answer)->response;
  const bool is_known =
      response.overall_code == Code::ok || response.overall_code == Code::over_limit;
  if (!is_known || response.statuses.size() != asked.descriptors.size())
    return cli::report_undecided("that is not an answer to this request", options.json, io);
  options.json ? print_json(asked, response, io) : print_answer(asked, response, io);
  if (const std::string hint = hint_of(asked, response); !hint.empty()) cli::note(hint, io);
  return response.overall_code == Code::ok ? cli::exit_allowed : cli::exit_denied;
}

}  // namespace sluice::envoy
