#include "cli/top_picture.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cli/terminal.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

std::string count_words(const Json& item, const char* key) {
  return base::grouped(static_cast<uint64_t>(std::max<int64_t>(integer_field(item, key), 0)));
}

// The text for a key: its actor; if the server does not send that, the counter's name.
std::string who(const Json& item) {
  auto actor = actor_words(field(item, "actor"));
  if (true_field(item, "cut")) actor += "\u2026";
  if (!actor.empty()) return actor;
  if (field(item, "actor").is_string()) return "(all)";
  actor = text_field(item, "counter");
  return actor.empty() ? "(all)" : actor;
}

}  // namespace

void TopRates::add(Json& answer, Clock::time_point at) {
  std::map<std::string, Counts> now;
  const double seconds = std::max(std::chrono::duration<double>(at - at_).count(), 1e-3);
  const Json& found = list_field(answer, "items");
  Json items = found;
  for (Json& item : items) {
    const std::string key = text_field(item, "rule") + '\n' + text_field(item, "path");
    Counts counts;
    counts.allowed = number_field(item, "allowed").value_or(0);
    counts.denied = number_field(item, "denied").value_or(0);
    if (const auto at_before = before_.find(key); at_before != before_.end()) {
      const Counts& before = at_before->second;
      // When the oldest minute is dropped, counts decrease; then the previous rates are kept.
      const bool less = counts.allowed < before.allowed || counts.denied < before.denied;
      counts.allowed_rate =
          less ? before.allowed_rate : (counts.allowed - before.allowed) / seconds;
      counts.denied_rate = less ? before.denied_rate : (counts.denied - before.denied) / seconds;
    }
    if (counts.allowed_rate) item["allowed_per_second"] = *counts.allowed_rate;
    if (counts.denied_rate) item["denied_per_second"] = *counts.denied_rate;
    now.emplace(key, counts);
  }
  answer["items"] = std::move(items);
  before_ = std::move(now);
  at_ = at;
}

Table table_of_top(const Json& answer) {
  const Json& items = list_field(answer, "items");
  const bool has_refusing = std::ranges::any_of(
      items, [](const Json& item) { return !list_field(item, "refused_by").empty(); });
  std::vector<Table::Column> columns{{"WHO", false, true}, {"RULE", false, true},
                                     {"DENIED/S", true},   {"ALLOWED/S", true},
                                     {"DENIED", true},     {"ALLOWED", true}};
  if (has_refusing) columns.insert(columns.begin() + 2, {"REFUSES NOW", false, true});
  Table table(columns);
  for (const Json& item : items) {
    std::vector<std::string> row{who(item),
                                 text_field(item, "rule"),
                                 rate_words(number_field(item, "denied_per_second")),
                                 rate_words(number_field(item, "allowed_per_second")),
                                 count_words(item, "denied"),
                                 count_words(item, "allowed")};
    if (has_refusing) row.insert(row.begin() + 2, limits_words(list_field(item, "refused_by")));
    table.add(row);
  }
  return table;
}

std::string order_words(const Json& answer) {
  const std::string order = text_field(answer, "by");
  const std::string by = order == "active"          ? "most active"
                         : order == "shadow_denied" ? "most denied by shadow rules, were they live,"
                                                    : "most denied";
  return by + " of the last " + seconds_words(field(answer, "window_seconds"));
}

ServerLines server_lines(const std::string& address, const std::optional<Look>& before,
                         const Look& now) {
  const Json& status = now.status;
  ServerLines lines;
  lines.name = "sluice " + config::on_screen(text_field(status, "version")) + " at " + address;
  if (before) {
    for (const char* outcome : {"allowed", "denied", "unmatched", "error"}) {
      const double more = requests_of(status, outcome) - requests_of(before->status, outcome);
      const bool always =
          std::string_view(outcome) == "allowed" || std::string_view(outcome) == "denied";
      if (more > 0 || always)
        lines.figures += (lines.figures.empty() ? "" : ", ") +
                         rate_words(std::max(more, 0.0) / seconds_between(*before, now)) + "/s " +
                         outcome;
    }
    lines.figures += "; ";
  }
  const std::string counters = count_words(field(status, "counters"), "count");
  const Json& store = field(status, "store");
  if (text_field(store, "kind") == "redis")
    lines.figures += "counters in Redis, " + counters + " here; ";
  else
    lines.figures += counters + (counters == "1" ? " counter, " : " counters, ");
  const Json& policy = field(status, "policy");
  lines.figures += "policy generation " + count_words(policy, "generation");
  for (const Json& reason : list_field(status, "reasons"))
    if (reason.is_string()) lines.troubles.push_back(config::on_screen(reason.get<std::string>()));
  if (true_field(policy, "stale"))
    lines.troubles.push_back("the files hold a policy that was refused: see `sluice status`");
  return lines;
}

std::string line_of(const ServerLines& server) {
  return server.name + (server.figures.empty() ? "" : ": " + server.figures);
}

}  // namespace sluice::cli
