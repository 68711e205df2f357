#include "server/counter_routes.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "server/admin_json.h"
#include "server/counter_json.h"
#include "server/override_text.h"

namespace sluice::server {

using wire::HttpRequest;
using wire::HttpResponse;

namespace {

constexpr size_t page_default = 100;

Json to_json(const CounterState& counter) {
  Json json{{"counter", counter.stored},
            {"path", wire::percent_encoded(counter.stored)},
            {"dialect", counter.owner.dialect},
            {"rule", policy::name_of(*counter.owner.rule, counter.owner.dialect)},
            {"actor", counter.key}};
  if (counter.override_id != 0) json["override"] = id_text(counter.override_id);
  json["limits"] = Json::array();
  for (const CounterLimit& one : counter.limits) json["limits"].push_back(to_json(one));
  return json;
}

// Where a page ends: behind which name, in what is searched from where on.
struct PageEnd {
  std::string after, from;
};

// In signs that stand in a query as they are: both in hexadecimal, with `-` before the second.
std::string to_token(const PageEnd& end) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string token;
  const auto append = [&](std::string_view bytes) {
    for (const char c : bytes) {
      token += hex[static_cast<unsigned char>(c) >> 4];
      token += hex[static_cast<unsigned char>(c) & 15];
    }
  };
  append(end.after);
  if (!end.from.empty()) token += '-';
  append(end.from);
  return token;
}

std::optional<std::string> from_hex(std::string_view token) {
  if (token.size() % 2 != 0) return std::nullopt;
  std::string escaped;
  for (size_t i = 0; i < token.size(); i += 2) {
    escaped += '%';
    escaped += token.substr(i, 2);
  }
  return wire::percent_decoded(escaped, false);
}

std::optional<PageEnd> from_token(std::string_view token) {
  const size_t cut = std::min(token.find('-'), token.size());
  const auto after = from_hex(token.substr(0, cut));
  const auto from = from_hex(token.substr(std::min(cut + 1, token.size())));
  if (!after || !from || (cut < token.size() && from->empty())) return std::nullopt;
  return PageEnd{*after, *from};
}

// The units of a body `{"used": 3}`; nothing: it is none.
std::optional<int64_t> used_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || json.size() != 1 || !json.contains("used")) return std::nullopt;
  const Json& used = json["used"];
  if (!used.is_number_unsigned()) return std::nullopt;
  const uint64_t units = used.get<uint64_t>();
  return static_cast<int64_t>(std::min<uint64_t>(units, INT64_MAX));
}

}  // namespace

HttpResponse problem_of(Inquiries::Outcome outcome) {
  switch (outcome) {
    case Inquiries::Outcome::late:
      return problem_response(504,
                              "there was no answer in time; what was asked for may still be done");
    case Inquiries::Outcome::lost:
      return problem_response(
          503, "it was done and could not be committed: it may be lost; the log says why");
    case Inquiries::Outcome::too_many:
      return problem_response(503, "too many such questions are under way; try later");
    case Inquiries::Outcome::stopping:
      return problem_response(503, "the server is stopping");
    case Inquiries::Outcome::answered:
      break;
  }
  return problem_response(500, "there is no answer");
}

void CounterRoutes::add_to(Admin& admin) {
  using Call = Admin::Call;
  const auto counter = [](const Call& call) { return call.parameters.front(); };
  admin.add(
      {.method = "GET", .path = "/v1/counters", .slow = true, .handler = [this](const Call& c) {
         return list(c.request);
       }});
  admin.add({.method = "GET",
             .path = "/v1/counters/{key}",
             .slow = true,
             .handler = [this, counter](const Call& c) {
               return one(counter(c), CounterInquiry::Change::none, 0);
             }});
  admin.add({.method = "PUT",
             .path = "/v1/counters/{key}",
             .slow = true,
             .body_bytes_max = base::bounds::admin_small_body_bytes_max,
             .handler = [this](const Call& c) { return put(c); }});
  admin.add({.method = "DELETE",
             .path = "/v1/counters/{key}",
             .slow = true,
             .handler = [this, counter](const Call& c) {
               return one(counter(c), CounterInquiry::Change::forget, 0);
             }});
  admin.add({.method = "POST",
             .path = "/v1/explain",
             .slow = true,
             .body_bytes_max = base::bounds::admin_small_body_bytes_max,
             .handler = [this](const Call& c) { return explain(c.request); }});
}

std::shared_ptr<const LiveCounters> CounterRoutes::counters(const LivePolicy& policy) {
  std::vector<const limit::Space*> others;
  if (world_.overrides != nullptr) others = world_.overrides->spaces();
  if (generation_ != policy.generation || others_ != others.size())
    counters_ = std::make_shared<const LiveCounters>(*policy.rules, others);
  generation_ = policy.generation;
  others_ = others.size();
  return counters_;
}

std::vector<CounterState> CounterRoutes::states(const LiveCounters& live,
                                                std::span<const std::string> stored) {
  const base::Time now = world_.clock.now();
  std::unique_lock<std::mutex> held;
  if (world_.overrides != nullptr) held = world_.overrides->hold();
  std::vector<CounterState> all;
  for (const std::string& name : stored) {
    const auto owner = live.find(name, now, world_.overrides);
    if (owner.rule != nullptr)
      all.push_back({.stored = name, .key = std::string(owner.key), .owner = owner});
  }
  return all;
}

HttpResponse CounterRoutes::put(const Admin::Call& call) {
  const auto used = used_of(call.request.body);
  if (!used)
    return problem_response(400, "the body is to be {\"used\": N}, N a whole number from 0 on");
  return one(call.parameters.front(), CounterInquiry::Change::set, *used);
}

HttpResponse CounterRoutes::one(const std::string& stored, CounterInquiry::Change change,
                                int64_t used) {
  const auto policy = world_.live.current();
  const auto live = counters(*policy);
  auto asked = states(*live, {&stored, 1});
  if (asked.empty())
    return problem_response(
        404,
        "no live rule has counters of such names; a counter's name is its rule's prefix, the "
        "actor and the rule's suffix, as `sluice counters`, GET /v1/counters and POST /v1/explain "
        "spell them");
  const auto inquiry = std::make_shared<CounterInquiry>(policy, std::move(asked), change, used);
  const auto outcome = world_.inquiries.ask(inquiry);
  if (outcome != Inquiries::Outcome::answered) return problem_of(outcome);
  const CounterState& answer = inquiry->counters().front();
  if (answer.error != limit::Error::none)
    return problem_response(503, std::string(world_.store.words_of(answer.error)));
  if (answer.moved)
    return problem_response(409, "the override of this actor changed meanwhile; ask again");
  if (inquiry->denied()) {
    const bool by_rule = std::any_of(
        answer.limits.begin(), answer.limits.end(),
        [](const CounterLimit& one) { return one.limit.algorithm == limit::Algorithm::deny; });
    return problem_response(
        409, by_rule ? "this actor is denied whatever its counter holds, which stays as it is"
                     : "the limits of this counter changed meanwhile; ask again");
  }
  if (inquiry->too_much())
    return problem_response(422, "`used` is to be 0 to " + std::to_string(inquiry->most()) +
                                     ", which is what a fresh counter has");
  return json_response(200, to_json(answer));
}

HttpResponse CounterRoutes::list(const HttpRequest& request) {
  const auto limit = wire::query_value(request.query, "limit");
  const auto count = limit ? base::parse_count(*limit) : page_default;
  const auto end = from_token(wire::query_value(request.query, "after").value_or(""));
  if (!count || *count < 1 || *count > base::bounds::admin_page_max || !end)
    return problem_response(400, "`limit` is to be 1 to " +
                                     std::to_string(base::bounds::admin_page_max) +
                                     ", `after` the `next` of the page before");
  const auto policy = world_.live.current();
  const auto live = counters(*policy);
  store::Stored stored;
  // One more, to know whether there is one.
  const auto listed = world_.inquiries.list({live, &live->spaces()},
                                            wire::query_value(request.query, "prefix").value_or(""),
                                            end->after, *count + 1, end->from, stored);
  if (listed != Inquiries::Outcome::answered) return problem_of(listed);
  if (stored.unknown)
    return problem_response(400, "`after` is to be the `next` of the page before");
  if (stored.failed)
    return problem_response(503, "the store of the counters cannot be looked through now");

  Json json{{"counters", Json::array()}};
  if (stored.keys.size() > *count) {
    stored.keys.pop_back();
    json["next"] = to_token({stored.keys.back(), stored.again});
  } else if (!stored.rest.empty()) {
    json["next"] = to_token({"", stored.rest});
  }
  if (!stored.rest.empty()) json["cut"] = true;
  for (size_t at = 0; at < stored.keys.size(); at += counters_asked_max) {
    const auto names = std::span(stored.keys).subspan(at);
    auto some = states(*live, names.first(std::min(names.size(), counters_asked_max)));
    if (some.empty()) continue;
    const auto inquiry = std::make_shared<CounterInquiry>(policy, std::move(some));
    const auto outcome = world_.inquiries.ask(inquiry);
    if (outcome != Inquiries::Outcome::answered) return problem_of(outcome);
    for (const CounterState& counter : inquiry->counters()) {
      // One that is none hides no other.
      const bool foreign = counter.error == limit::Error::foreign;
      if (counter.error != limit::Error::none && !foreign)
        return problem_response(503, std::string(world_.store.words_of(counter.error)));
      if (counter.moved) continue;
      json["counters"].push_back(to_json(counter));
      if (foreign) json["counters"].back()["problem"] = world_.store.words_of(counter.error);
    }
  }
  return json_response(200, json);
}

}  // namespace sluice::server
