// Words for what the admin port says of rules, counters and figures, as all commands that ask it
// print them; and two looks at the server's status, for what happens in a second. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "cli/admin_port.h"
#include "cli/terminal.h"

namespace sluice::cli {

// "3 per 1h, sliding_window; 10 at a time". Of a list of limits; "(the rule's)" stands behind each
// that an override leaves as it is.
std::string limits_words(const Json& limits);
// "10.0.0.7", "tenant=acme api=*"
std::string actor_words(const Json& actor);
// What a rule is called: its name, else its pattern.
std::string rule_words(const Json& rule);
// "59m57s" of a number of seconds; null: "never".
std::string seconds_words(const Json& seconds);
// "2 of 3 left, all of them in 59m57s". Of a limit of a counter.
std::string level_words(const Json& limit);
// "0", "0.3", "12,345"
std::string rate_words(double per_second);
// Nothing: "-".
std::string rate_words(std::optional<double> per_second);

// The option --over: how far apart the two looks are. Nothing: `text` is not a length up to a
// minute; it is reported, and `status` is what the command ends with.
void add_over_flag(Arguments& arguments, std::string& text);
std::optional<std::chrono::microseconds> over_of(const std::string& text,
                                                 const Arguments& arguments, config::CommandIo& io,
                                                 int& status);

// The option --limit of a list: 1 to `most`. Nothing: as above.
std::optional<size_t> listed_of(const std::string& text, const Arguments& arguments,
                                config::CommandIo& io, int& status, size_t most = 10'000'000);
// The most items of an answer.
inline constexpr size_t page_max = 1000;
// What a list's pages hold under `key`, up to so many, into `list`. `target` has a query. Returns
// the last page, or what went wrong.
AdminPort::Reply read_pages(AdminPort& port, const std::string& target, const char* key,
                            size_t count_max, Json& list);

// What /v1/status answered, and when.
struct Look {
  Json status;
  std::chrono::steady_clock::time_point at;
};
// Nothing: it could not be had, as `failure` says.
std::optional<Look> look_at(AdminPort& port, AdminPort::Reply& failure);
double seconds_between(const Look& before, const Look& after);
// Requests of that outcome since the start.
double requests_of(const Json& status, const char* outcome);

// Diagnostics as the server lists them.
base::Diagnostics diagnostics_of(const Json& list);

// What was answered to requests, by outcome: allowed, denied, unmatched, error, answered.
extern const char* const outcomes[5];

}  // namespace sluice::cli
