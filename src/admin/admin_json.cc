#include "admin/admin_json.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <span>
#include <utility>

#include "base/bounds.h"
#include "base/units.h"
#include "live/live_policy.h"
#include "live/override_registry.h"

namespace sluice::admin {
namespace {

std::string_view mode_name(policy::Mode mode) {
  switch (mode) {
    case policy::Mode::enforce:
      return "enforce";
    case policy::Mode::shadow:
      return "shadow";
    case policy::Mode::off:
      return "off";
  }
  return "";
}

const char* title_of(unsigned status) {
  switch (status) {
    case 400:
      return "Bad request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not found";
    case 405:
      return "Method not allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content too large";
    case 422:
      return "Unprocessable";
    case 431:
      return "Request head too large";
    case 503:
      return "Not available";
    case 504:
      return "Timed out";
    case 507:
      return "No room";
    default:
      return "Error";
  }
}

// What a rule does, as a text that is the same if and only if that is; and where it stands is not
// part of it.
std::string meaning(const policy::Rule& rule, const policy::Dialect& dialect) {
  Json json = to_json(rule, dialect);
  for (const char* key : {"file", "line", "comment"}) json.erase(key);
  json["until_us"] = rule.until.us;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

size_t bytes_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace).size();
}

}  // namespace

wire::HttpResponse json_response(unsigned status, const Json& json, std::string content_type) {
  wire::HttpResponse response;
  response.status = status;
  response.content_type = std::move(content_type);
  response.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  response.headers = {{"Cache-Control", "no-store"}};
  return response;
}

wire::HttpResponse problem_response(unsigned status, const std::string& why, const Json& more) {
  Json json{
      {"type", "about:blank"}, {"title", title_of(status)}, {"status", status}, {"detail", why}};
  json.update(more);
  return json_response(status, json, "application/problem+json");
}

std::string to_text(std::chrono::system_clock::time_point at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

bool Items::add(Json item) {
  full_ = full_ || bytes_ >= base::bounds::admin_page_bytes_max;
  if (full_) return false;
  bytes_ += bytes_of(item);
  list_.push_back(std::move(item));
  return true;
}

Json to_json(const base::Diagnostics& all) {
  const auto json_of = [](const base::Diagnostic& d) -> Json {
    const bool error = d.severity == base::Diagnostic::Severity::error;
    return {{"severity", error ? "error" : "warning"},
            {"file", d.file},
            {"line", d.line},
            {"column", d.column},
            {"subject", d.subject},
            {"message", d.message},
            {"remedy", d.remedy}};
  };
  Items items;
  for (const auto& d : all)
    if (!items.add(json_of(d))) break;
  const size_t told = items.size();
  Json list = items.take();
  if (told == all.size()) return list;
  base::Diagnostic rest;
  const std::span<const base::Diagnostic> left(all.begin() + static_cast<std::ptrdiff_t>(told),
                                               all.end());
  rest.severity = base::Diagnostic::Severity::warning;
  for (const auto& d : left)
    if (d.severity == base::Diagnostic::Severity::error) rest.severity = d.severity;
  rest.message = std::to_string(left.size()) + " more are not shown here";
  rest.remedy = "fix these first";
  list.push_back(json_of(rest));
  return list;
}

void add_across_slots(const std::vector<std::string>& names, Json& json) {
  if (names.empty()) return;
  Items items;
  for (const std::string& text : names)
    if (!items.add(text)) break;
  json["across_slots"] = items.take();
}

Json to_json(const policy::Rule& rule, const policy::Dialect& dialect) {
  Json json{{"dialect", dialect.name},
            {"name", rule.name},
            {"pattern", rule.pattern},
            {"file", rule.file},
            {"line", rule.line},
            {"comment", rule.comment},
            {"built_in", rule.built_in || !dialect.written},
            {"mode", mode_name(rule.mode)},
            {"then", rule.then == policy::Then::stop ? "stop" : "continue"},
            {"actor", rule.actor},
            {"limits", Json::array()}};
  for (size_t i = 0; i < rule.limits.size(); ++i) {
    json["limits"].push_back(live::to_json(rule.limits[i]));
    if (limit::has(rule.counts, i)) json["limits"].back()["over"] = "count";
    if (const auto n = rule.overdraft_of(i)) json["limits"].back()["overdraft"] = *n;
    if (const auto unit = rule.unit_of(i); !unit.empty()) json["limits"].back()["unit"] = unit;
  }
  return json;
}

Json difference(const policy::RuleSet& live, const Candidate& candidate, size_t listed_max) {
  const auto replaced = [&](const policy::Dialect& dialect) {
    const auto& all = candidate.dialects;
    return std::find(all.begin(), all.end(), &dialect) != all.end();
  };
  // Rules by their dialect, name and pattern; of those that share all, the first meets the first.
  using Key = std::pair<std::string_view, std::string>;
  struct Alike {
    const policy::Dialect* dialect = nullptr;
    std::vector<const policy::Rule*> rules{};
  };
  std::map<Key, Alike> before;
  const auto key_of = [](const policy::Rule& rule, const policy::Dialect& dialect) {
    return Key{dialect.name, rule.name + '\n' + rule.pattern};
  };
  live::each_rule(live, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    if (!replaced(dialect)) return;
    Alike& alike = before[key_of(rule, dialect)];
    alike.dialect = &dialect;
    alike.rules.push_back(&rule);
  });
  Json added = Json::array(), removed = Json::array(), changed = Json::array();
  size_t unchanged = 0, unlisted = 0, bytes = 0;
  const auto list = [&](Json& where, Json&& what) {
    if (where.size() >= listed_max || bytes >= base::bounds::admin_page_bytes_max)
      return void(++unlisted);
    bytes += bytes_of(what);
    where.push_back(std::move(what));
  };
  live::each_rule(*candidate.rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    if (!replaced(dialect)) return;
    const auto old = before.find(key_of(rule, dialect));
    if (old == before.end() || old->second.rules.empty())
      return list(added, to_json(rule, dialect));
    const policy::Rule& was = *old->second.rules.front();
    old->second.rules.erase(old->second.rules.begin());
    if (meaning(was, dialect) == meaning(rule, dialect)) {
      ++unchanged;
    } else {
      list(changed, {{"before", to_json(was, dialect)}, {"after", to_json(rule, dialect)}});
    }
  });
  for (const auto& [key, alike] : before)
    for (const policy::Rule* rule : alike.rules) list(removed, to_json(*rule, *alike.dialect));
  return {{"added", added},
          {"removed", removed},
          {"changed", changed},
          {"unchanged", unchanged},
          {"unlisted", unlisted}};
}

}  // namespace sluice::admin
