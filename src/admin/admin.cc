#include "admin/admin.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "admin/admin_json.h"
#include "base/bounds.h"
#include "base/units.h"
#include "policy/read/native_text.h"
#include "protocol/protocol.h"

namespace sluice::admin {

using wire::HttpRequest;
using wire::HttpResponse;

namespace {

constexpr auto reload_limit = std::chrono::seconds(30);
constexpr size_t rules_page_default = 100;
constexpr size_t difference_max = 1000;

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

// In a time that does not depend on where they differ.
bool are_equal(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : 0));
  return difference == 0;
}

// A name that stands for this machine, or an address: so not one that a web page's own server
// could have been reached by (DNS rebinding).
bool is_local_or_address(std::string_view host) {
  if (host.empty()) return true;  // HTTP/1.0
  if (host.front() == '[') return true;
  host = host.substr(0, host.rfind(':'));
  constexpr std::string_view below = ".localhost";
  if (wire::is_http_name(host, below.substr(1))) return true;
  if (host.size() > below.size() &&
      wire::is_http_name(host.substr(host.size() - below.size()), below))
    return true;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

// Has a user followed a link to it, to look at it? The page of the link cannot read the answer;
// in a frame it could at least lay something over it.
bool is_visit(const HttpRequest& request) {
  return (request.method == "GET" || request.method == "HEAD") &&
         request.sec_fetch_mode == "navigate" && request.sec_fetch_dest == "document";
}

// Those of the warnings that are about the rule.
base::Diagnostics about(const policy::Rule& rule, const base::Diagnostics& warnings) {
  base::Diagnostics its;
  if (warnings.empty()) return its;
  const std::string title = policy::title_of(rule);
  for (const base::Diagnostic& one : warnings)
    if (one.file == rule.file && one.subject.starts_with(title) &&
        (one.subject.size() == title.size() || one.subject[title.size()] == ':'))
      its.push_back(one);
  return its;
}

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> all;
  while (!path.empty()) {
    path.remove_prefix(1);  // '/'
    const size_t end = std::min(path.find('/'), path.size());
    all.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return all;
}

// What stands for the `{...}` of a route's path; nothing: it does not fit.
std::optional<std::vector<std::string>> fit(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parameters;
  const auto wanted = segments_of(pattern), given = segments_of(path);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= given.size()) return std::nullopt;
    if (!wanted[i].starts_with('{')) {
      if (wanted[i] != given[i]) return std::nullopt;
      continue;
    }
    const bool rest = i + 1 == wanted.size();
    const auto text =
        rest ? path.substr(static_cast<size_t>(given[i].data() - path.data())) : given[i];
    auto decoded = wire::percent_decoded(text, false);
    if (!decoded || decoded->empty()) return std::nullopt;
    parameters.push_back(std::move(*decoded));
    if (rest) return parameters;
  }
  if (given.size() != wanted.size()) return std::nullopt;
  return parameters;
}

}  // namespace

Admin::Admin(AdminOptions options, Deps deps)
    : options_(std::move(options)), deps_(std::move(deps)) {
  add({.method = "GET", .path = "/health/live", .open = true, .handler = [this](const Call&) {
         return live();
       }});
  add({.method = "GET", .path = "/health/ready", .open = true, .handler = [this](const Call&) {
         return ready();
       }});
  add({.method = "GET", .path = "/metrics", .handler = [this](const Call&) {
         return HttpResponse{
             200, std::string(metrics::Page::content_type), deps_.sources.text(), {}};
       }});
  add({.method = "GET", .path = "/v1/openapi.json", .handler = [](const Call&) {
         return HttpResponse{200, "application/json", openapi_of_program(), {}};
       }});
  add({.method = "GET", .path = "/v1/config", .handler = [this](const Call&) { return config(); }});
  add({.method = "POST",
       .path = "/v1/config/check",
       .slow = true,
       .text = true,
       .handler = [this](const Call& c) { return check(c.request); }});
  add({.method = "POST",
       .path = "/v1/reload",
       .slow = true,
       .body_bytes_max = base::bounds::admin_small_body_bytes_max,
       .handler = [this](const Call& c) { return reload(c.by); }});
  add({.method = "GET", .path = "/v1/rules", .slow = true, .handler = [this](const Call& c) {
         return rules(c.request);
       }});
}

HttpResponse Admin::problem(unsigned status, const std::string& why) const {
  return problem_response(status, why);
}

Admin::Found Admin::find(const HttpRequest& request) const {
  Found found;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  if (!request.path.starts_with('/')) return found;
  for (const Route& route : routes_) {
    auto parameters = fit(route.path, request.path);
    if (!parameters) continue;
    if (route.method == method) return {&route, std::move(*parameters), {}};
    found.allowed += (found.allowed.empty() ? "" : ", ") + route.method;
  }
  return found;
}

std::optional<HttpResponse> Admin::refuse(const HttpRequest& request) const {
  const Found found = find(request);
  if (auto refusal = refuse_stranger(request, found.route)) return refusal;
  const bool brings =
      found.route != nullptr && (found.route->method == "POST" || found.route->method == "PUT");
  const size_t most =
      brings ? found.route->body_bytes_max : base::bounds::admin_small_body_bytes_max;
  if (request.body_bytes <= most) return std::nullopt;
  return problem_response(
      413, "the body of this request is longer than " + std::to_string(most) + " bytes");
}

// Who shows a token.
Admin::Asker Admin::asker_of(const HttpRequest& request) const {
  const auto proof = access::read_authorization(request.authorization);
  if (!proof) return {};
  if (!options_.token.empty() && proof->name.empty() && are_equal(proof->token, options_.token))
    return {"admin token", true};
  const auto users = deps_.live.shown()->users;
  const access::User* const user =
      users == nullptr ? nullptr : users->find_by(proof->name, proof->token);
  if (user == nullptr) return {};
  return {user->name, user->rights.has(access::Right::admin)};
}

// Who may not ask at all.
std::optional<HttpResponse> Admin::refuse_stranger(const HttpRequest& request,
                                                   const Route* route) const {
  if (route != nullptr && route->open) return std::nullopt;
  const Asker asker = asker_of(request);
  if (asker.may_ask) return std::nullopt;
  const bool needs_token = !options_.token.empty() || options_.is_reached_by_others;
  if (needs_token && !asker.name.empty())
    return problem_response(403, "this needs the right `admin`, which the user does not have");
  if (needs_token) {
    auto response = problem_response(
        401,
        "the admin token is required, or that of a user with the right `admin`, as "
        "`Authorization: Bearer ...`");
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return response;
  }
  // A browser tells of a page's requests where the page is from, but not of all of them the origin.
  const bool from_elsewhere =
      request.sec_fetch_site == "cross-site" || request.sec_fetch_site == "same-site";
  const bool of_a_page = !request.origin.empty() || (from_elsewhere && !is_visit(request));
  if (of_a_page || !is_local_or_address(request.host))
    return problem_response(
        403,
        "without a token the admin port refuses web pages, and a Host other than "
        "localhost; set a token (admin.token_file)");
  return std::nullopt;
}

bool Admin::is_health(const HttpRequest& request) const {
  return request.path.starts_with("/health/");
}

bool Admin::is_slow(const HttpRequest& request) const {
  const Found found = find(request);
  return found.route != nullptr && found.route->slow;
}

HttpResponse Admin::answer(const HttpRequest& request) {
  const Found found = find(request);
  if (found.route != nullptr && !wire::percent_decoded(request.query, true))
    return problem_response(400, "in a query each % must be followed by two hexadecimal digits");
  if (found.route != nullptr && !found.route->text && !wire::is_bounded(request.body))
    return problem_response(
        400, "the body nests deeper than " + std::to_string(base::bounds::admin_json_depth_max) +
                 ", or an object in it has more than " +
                 std::to_string(base::bounds::admin_json_members_max) + " members");
  if (found.route != nullptr) {
    try {
      const std::string name = asker_of(request).name;
      return found.route->handler(
          {request, found.parameters,
           name + (name.empty() ? "" : ", ") +
               (request.peer.empty() ? std::string("the admin port") : request.peer)});
    } catch (const std::exception& e) {
      return problem_response(500, std::string("this failed: ") + e.what());
    }
  }
  if (found.allowed.empty())
    return problem_response(404, "there is no such path; /v1/openapi.json lists the paths");
  auto response = problem_response(405, "this takes " + found.allowed);
  response.headers.push_back({"Allow", found.allowed});
  return response;
}

HttpResponse Admin::live() const {
  return json_response(200, {{"status", "live"}});
}

Admin::Health Admin::health() const {
  Health health;
  for (const auto& check : checks_)
    if (auto reason = check()) health.reasons.push_back(std::move(*reason));
  health.ready = health.reasons.empty();
  if (!health.ready) return health;
  for (const auto& check : degraded_checks_)
    if (auto reason = check()) health.reasons.push_back(std::move(*reason));
  return health;
}

HttpResponse Admin::ready() const {
  const Health health = this->health();
  if (!health.ready)
    return problem_response(503, "not ready: " + health.reasons.front(),
                            {{"reasons", health.reasons}});
  if (!health.is_degraded()) return json_response(200, {{"status", "ready"}});
  return json_response(200, {{"status", "degraded"}, {"reasons", health.reasons}});
}

std::chrono::seconds Admin::uptime() const {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() -
                                                          began_);
}

Json Admin::policy_json() const {
  const auto policy = deps_.live.shown();
  live::Reading live, last;
  if (deps_.reloader != nullptr) {
    live = deps_.reloader->history().last_live();
    last = deps_.reloader->history().last();
  }
  const bool first = live.outcome == live::Reading::Outcome::none;
  size_t all = 0;
  live::each_rule(*policy->rules, [&](const policy::Rule&, const policy::Dialect&) { ++all; });
  static constexpr const char* outcomes[] = {"none", "live", "refused", "unchanged"};
  Json reading{{"outcome", outcomes[static_cast<size_t>(last.outcome)]}};
  if (last.outcome != live::Reading::Outcome::none) {
    reading["at"] = to_text(last.at);
    reading["diagnostics"] = to_json(last.diagnostics);
  }
  return {{"generation", policy->generation},
          {"hash", live::hash_text(policy->hash)},
          {"rules", policy->rules->written()},
          {"built_in_rules", all - policy->rules->written()},
          {"files", first ? deps_.files : live.files},
          {"live_since", to_text(first ? started_ : live.at)},
          {"reloadable", deps_.reloader != nullptr},
          {"warnings", policy->warnings ? to_json(*policy->warnings) : Json::array()},
          {"last_reading", reading}};
}

HttpResponse Admin::config() const {
  Json json{{"version", options_.version}};
  json.update(policy_json());
  json["up_seconds"] = uptime().count();
  json["settings"] = options_.settings;
  return json_response(200, json);
}

HttpResponse Admin::check(const HttpRequest& request) const {
  const std::string kind = wire::query_value(request.query, "as").value_or("sluice");
  std::optional<Candidate> candidate;
  if (options_.check) candidate = options_.check(kind, request.body);
  if (!candidate) return problem_response(400, "`as` must be one of " + joined(options_.kinds));
  Json json{{"ok", candidate->rules != nullptr},
            {"as", kind},
            {"rules", candidate->rules ? candidate->rules->written() : 0}};
  json["diagnostics"] = to_json(candidate->diagnostics);
  add_across_slots(candidate->across_slots, json);
  if (candidate->rules) {
    const auto live = deps_.live.shown();
    json["difference"] = difference(*live->rules, *candidate, difference_max);
  }
  return json_response(200, json);
}

HttpResponse Admin::reload(const std::string& by) const {
  if (deps_.reloader == nullptr)
    return problem_response(409,
                            "the policy comes from a pipe, which can be read only once; restart "
                            "the server to change it");
  const uint64_t request = deps_.reloader->request(by);
  const auto reading =
      deps_.reloader->history().await(request, std::chrono::steady_clock::now() + reload_limit);
  if (!reading)
    return problem_response(
        504, "the policy is not read yet; `sluice status` or GET /v1/status says when it is");
  if (reading->outcome == live::Reading::Outcome::refused)
    return problem_response(
        422, "the policy is refused; live stays generation " + std::to_string(reading->generation),
        {{"generation", reading->generation}, {"diagnostics", to_json(reading->diagnostics)}});
  return json_response(
      200, {{"outcome", reading->outcome == live::Reading::Outcome::live ? "live" : "unchanged"},
            {"generation", reading->generation},
            {"hash", live::hash_text(reading->hash)},
            {"diagnostics", to_json(reading->diagnostics)}});
}

HttpResponse Admin::rules(const HttpRequest& request) const {
  const auto number = [&](const char* key, uint64_t otherwise) -> std::optional<uint64_t> {
    const auto text = wire::query_value(request.query, key);
    if (!text) return otherwise;
    return base::parse_count(*text);
  };
  const auto after = number("after", 0), count = number("limit", rules_page_default);
  if (!after || !count || *count < 1 || *count > base::bounds::admin_page_max)
    return problem_response(400, "`limit` must be 1 to " +
                                     std::to_string(base::bounds::admin_page_max) +
                                     ", `after` the `next` of the page before");
  const auto policy = deps_.live.shown();
  const base::Diagnostics none;
  const base::Diagnostics& warnings = policy->warnings ? *policy->warnings : none;
  Items list;
  uint64_t place = 0;
  live::each_rule(*policy->rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    if (place++ < *after || list.size() >= *count || list.is_full()) return;
    Json json = to_json(rule, dialect);
    if (const auto of_rule = about(rule, warnings); !of_rule.empty())
      json["warnings"] = to_json(of_rule);
    std::array<uint64_t, engine::rule_outcome_count> said{};
    const uint16_t name = engine::WorkerStats::name_of(*policy, rule);
    for (const protocol::Protocol protocol : protocol::numbers()) {
      if (&dialect != &policy::native_dialect && &dialect != protocol::dialect_of(protocol))
        continue;
      const auto more = deps_.server_stats.said(protocol, name);
      for (size_t i = 0; i < engine::rule_outcome_count; ++i) said[i] += more[i];
    }
    json["counted_as"] = deps_.server_stats.name(name);
    json["decisions"] = {{"allowed", said[0]},
                         {"denied", said[1]},
                         {"shadow_allowed", said[2]},
                         {"shadow_denied", said[3]},
                         {"error", said[4]}};
    list.add(std::move(json));
  });
  const uint64_t behind = *after + list.size();
  Json json{{"generation", policy->generation}, {"total", place}, {"rules", list.take()}};
  if (behind < place) json["next"] = std::to_string(behind);
  return json_response(200, json);
}

}  // namespace sluice::admin
