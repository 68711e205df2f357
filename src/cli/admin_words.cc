#include "cli/admin_words.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr base::Duration over_max = base::seconds(60);

// "1h" of `"window": "1h"` or `"window_ms": 3600000`; "month@UTC".
std::string window_words(const Json& limit) {
  std::string text = text_field(limit, "calendar");
  if (text.empty()) text = text_field(limit, "window");
  if (const auto zone = text_field(limit, "time_zone"); !zone.empty()) text += "@" + zone;
  if (!text.empty()) return text;
  const auto ms = number_field(limit, "window_ms");
  return ms ? base::format_duration({std::llround(*ms * 1000)}) : "";
}

// Do the numbers of such a limit come with each command? The server then reports placeholders.
bool comes_with_requests(const std::string& algorithm) {
  return algorithm.starts_with("gcra_");
}

std::string limit_words(const Json& limit) {
  const std::string algorithm = text_field(limit, "algorithm");
  if (algorithm == "unlimited") return "always allowed";
  if (algorithm == "deny") return "always denied";
  if (comes_with_requests(algorithm)) return "limit comes with the command, " + algorithm;
  const int64_t quota = integer_field(limit, "quota"), burst = integer_field(limit, "burst");
  std::string text = std::to_string(quota);
  const std::string window = window_words(limit);
  text += window.empty() || window == "0s" ? " at a time" : " per " + window;
  if (algorithm != "fixed_window" && !algorithm.empty()) text += ", " + algorithm;
  const std::string lease = text_field(limit, "lease"), max_lease = text_field(limit, "max_lease");
  if (!lease.empty()) text += ", lease " + lease;
  if (max_lease != lease) text += ", at most " + max_lease;
  if (burst > 0 && burst != quota) text += ", burst " + std::to_string(burst);
  if (text_field(limit, "over") == "count") text += ", counts what it refuses";
  if (limit.contains("overdraft"))
    text += ", owes at most " + std::to_string(integer_field(limit, "overdraft"));
  if (const auto unit = text_field(limit, "unit"); !unit.empty()) text += ", in " + unit;
  if (true_field(limit, "of_rule")) text += " (the rule's)";
  return text;
}

}  // namespace

const char* const outcomes[5] = {"allowed", "denied", "unmatched", "error", "answered"};

std::string limits_words(const Json& limits) {
  std::string text;
  for (const Json& limit : limits) text += (text.empty() ? "" : "; ") + limit_words(limit);
  return text;
}

std::string actor_words(const Json& actor) {
  if (actor.is_string()) return actor.get<std::string>();
  if (!actor.is_object()) return "";
  std::string text;
  for (const auto& [key, value] : actor.items())
    if (value.is_string()) text += (text.empty() ? "" : " ") + key + "=" + value.get<std::string>();
  return text;
}

std::string rule_words(const Json& rule) {
  if (auto name = text_field(rule, "name"); !name.empty()) return name;
  auto pattern = text_field(rule, "pattern");
  return pattern.empty() ? "(all)" : pattern;
}

std::string seconds_words(const Json& seconds) {
  if (!seconds.is_number()) return "never";
  const double value = seconds.get<double>();
  if (!(value > 0)) return "0s";
  if (value > 1e12) return "never";
  // In whole seconds, rounded up, where it is some of them.
  const double us = value < 10 ? std::ceil(value * 1000) * 1e3 : std::ceil(value) * 1e6;
  return base::format_duration({std::llround(us)});
}

std::string level_words(const Json& limit) {
  const std::string words = limit_words(limit);
  const std::string algorithm = text_field(limit, "algorithm");
  if (algorithm == "unlimited" || algorithm == "deny") return words;
  if (comes_with_requests(algorithm)) {
    const Json& reset = field(limit, "reset_after");
    const bool is_used = reset.is_number() && reset.get<double>() > 0;
    return words + (is_used ? ", as fresh in " + seconds_words(reset) : ", as fresh");
  }
  std::string text = std::to_string(integer_field(limit, "remaining")) + " left of " + words;
  if (const int64_t held = integer_field(limit, "held"); held > 0)
    text += " (" + std::to_string(held) + " held)";
  if (!true_field(limit, "allowed")) {
    const Json& retry = field(limit, "retry_after");
    return text + (retry.is_number() ? ", more in " + seconds_words(retry)
                                     : ", more only when they are put back");
  }
  const Json& reset = field(limit, "reset_after");
  if (!reset.is_number()) return text;
  return reset.get<double>() > 0 ? text + ", all of them in " + seconds_words(reset) : text;
}

std::string rate_words(double per_second) {
  if (!(per_second > 0)) return "0";
  if (per_second >= 9.95) return base::grouped(static_cast<uint64_t>(std::llround(per_second)));
  const auto tenths = std::max<long long>(std::llround(per_second * 10), 1);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string rate_words(std::optional<double> per_second) {
  return per_second ? rate_words(*per_second) : "-";
}

void add_over_flag(Arguments& arguments, std::string& text) {
  arguments.add_option("--over", text,
                       "Look at the figures twice, that far apart, for what happens in a\n"
                       "second; 0s: look once; default " +
                           text,
                       "DURATION");
}

std::optional<std::chrono::microseconds> over_of(const std::string& text,
                                                 const Arguments& arguments, config::CommandIo& io,
                                                 int& status) {
  const auto over = base::parse_duration(text);
  if (over && *over <= over_max) return std::chrono::microseconds(over->us);
  status = arguments.misused("--over must be 0s to 60s, not `" + text + "`", io);
  return std::nullopt;
}

std::optional<size_t> listed_of(const std::string& text, const Arguments& arguments,
                                config::CommandIo& io, int& status, size_t most) {
  const auto count = base::parse_count(text);
  if (count && *count >= 1 && *count <= most) return static_cast<size_t>(*count);
  status = arguments.misused(
      "--limit must be 1 to " + std::to_string(most) + ", not `" + text + "`", io);
  return std::nullopt;
}

AdminPort::Reply read_pages(AdminPort& port, const std::string& target, const char* key,
                            size_t count_max, Json& list) {
  std::string after;
  for (;;) {
    const size_t wanted = std::min(count_max - list.size(), page_max);
    auto page =
        port.get(target + (target.ends_with('?') ? "" : "&") + "limit=" + std::to_string(wanted) +
                 (after.empty() ? "" : "&after=" + wire::percent_encoded(after)));
    if (!page.is_done()) return page;
    for (const Json& one : list_field(page.json, key)) list.push_back(one);
    std::string next = text_field(page.json, "next");
    if (next.empty() || next == after || list.size() >= count_max) return page;
    after = std::move(next);
  }
}

std::optional<Look> look_at(AdminPort& port, AdminPort::Reply& failure) {
  auto reply = port.get("/v1/status");
  const auto now = std::chrono::steady_clock::now();
  if (reply.is_done() && field(reply.json, "ready").is_boolean())
    return Look{std::move(reply.json), now};
  if (reply.is_done()) {
    reply.kind = AdminPort::Reply::Kind::unasked;
    reply.problem = port.name() +
                    " does not answer as sluice's admin port would: its answer to GET /v1/status "
                    "has no `ready`; check the address (--admin)";
  }
  failure = std::move(reply);
  return std::nullopt;
}

base::Diagnostics diagnostics_of(const Json& list) {
  base::Diagnostics all;
  for (const Json& one : list) {
    base::Diagnostic d;
    if (text_field(one, "severity") == "warning") d.severity = base::Diagnostic::Severity::warning;
    d.file = text_field(one, "file");
    d.line = static_cast<size_t>(std::max<int64_t>(integer_field(one, "line"), 0));
    d.column = static_cast<size_t>(std::max<int64_t>(integer_field(one, "column"), 0));
    d.subject = text_field(one, "subject");
    d.message = text_field(one, "message");
    d.remedy = text_field(one, "remedy");
    all.push_back(std::move(d));
  }
  return all;
}

double seconds_between(const Look& before, const Look& after) {
  return std::max(std::chrono::duration<double>(after.at - before.at).count(), 1e-3);
}

double requests_of(const Json& status, const char* outcome) {
  return number_field(field(field(status, "requests"), "total"), outcome).value_or(0);
}

}  // namespace sluice::cli
