#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "admin/routes.h"
#include "base/bounds.h"
#include "base/units.h"

namespace sluice::admin {

using store::HoldBook;
using wire::HttpResponse;

namespace {

constexpr size_t holds_page_default = 100;

double seconds_of(base::Duration length) {
  return static_cast<double>(length.us) / 1e6;
}

Json json_of(const HoldBook::Listed& one) {
  Json json{{"id", one.id},
            {"kind", one.is_place ? "place" : "reservation"},
            {"rule", one.rule},
            {"actor", one.actor},
            {"counter", one.counter},
            {"n", one.units},
            {"holder", one.holder},
            {"age", seconds_of(one.age)},
            {"expires_in", seconds_of(one.ends_in)}};
  if (!one.user.empty()) json["user"] = one.user;
  return json;
}

Json about(const HoldBook::Listed& one) {
  return {{"id", one.id}, {"rule", one.rule}, {"holder", one.holder}};
}

HttpResponse list_holds(const wire::HttpRequest& request, const HoldBook& holds, base::Time now) {
  const auto text = [&](const char* key) { return wire::query_value(request.query, key); };
  const auto rule = text("rule"), actor = text("actor"), counter = text("counter"),
             holder = text("holder"), user = text("user"), kind = text("kind");
  const auto limit_text = text("limit");
  const auto limit =
      limit_text ? base::parse_count(*limit_text) : std::optional<uint64_t>(holds_page_default);
  if (!limit || *limit < 1 || *limit > base::bounds::admin_page_max)
    return problem_response(400,
                            "`limit` must be 1 to " + std::to_string(base::bounds::admin_page_max));
  if (kind && *kind != "reservation" && *kind != "place")
    return problem_response(400, "`kind` may be `reservation` or `place`");
  Items items;
  uint64_t matched = 0;
  bool is_full = false;  // of bytes
  holds.each(now, [&](const HoldBook::Listed& one) {
    const bool is_wanted = (!rule || one.rule == *rule) && (!actor || one.actor == *actor) &&
                           (!counter || one.counter == *counter) &&
                           (!holder || one.holder == *holder) && (!user || one.user == *user) &&
                           (!kind || (*kind == "place") == one.is_place);
    if (!is_wanted) return true;
    if (++matched <= *limit && !is_full) is_full = !items.add(json_of(one));
    return true;
  });
  return json_response(200, {{"total", matched}, {"holds", items.take()}});
}

// The one hold of that id, or why not: an id belongs to a user.
struct Named {
  std::optional<HoldBook::Listed> hold{};
  HttpResponse problem{};
};

Named find_hold(const Admin::Call& call, const HoldBook& holds, base::Time now) {
  const std::string& id = call.parameters.front();
  const auto wanted = wire::query_value(call.request.query, "user");
  std::vector<HoldBook::Listed> found;
  holds.each(now, [&](const HoldBook::Listed& one) {
    if (one.id == id && (!wanted || one.user == *wanted)) found.push_back(one);
    return true;
  });
  if (found.empty()) return {.problem = problem_response(404, "nothing with that id is held")};
  if (found.size() > 1)
    return {.problem = problem_response(409,
                                        "several users hold something with that id; name one with "
                                        "`?user=NAME`")};
  return {.hold = std::move(found.front())};
}

// Settles what is asked of it. False: the store cannot now.
bool settle(request::HoldCall& asked, HoldBook& holds, base::Time now) {
  // A store that has to look for the counters first has them a moment later.
  constexpr int tries_max = 200;
  bool answered = holds.settle(asked, now, {});
  for (int tries = 0; !answered && tries < tries_max; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answered = holds.settle(asked, now, {});
  }
  return answered && asked.outcome != request::HoldOutcome::failed;
}

HttpResponse look(const Admin::Call& call, const HoldBook& holds, base::Time now) {
  const Named named = find_hold(call, holds, now);
  return named.hold ? json_response(200, json_of(*named.hold)) : named.problem;
}

HttpResponse release(const Admin::Call& call, HoldBook& holds, base::Time now,
                     live::ChangeLog& changes) {
  const Named named = find_hold(call, holds, now);
  if (!named.hold) return named.problem;
  request::HoldCall asked{
      .ask = request::HoldAsk::release, .user = named.hold->user, .id = named.hold->id};
  if (!settle(asked, holds, now))
    return problem_response(503, "the store cannot take the units back now; try again");
  if (asked.outcome != request::HoldOutcome::done)
    return problem_response(404, "nothing with that id is held any more");
  changes.add({.what = "hold released",
               .by = call.by,
               .about = about(*named.hold),
               .before = json_of(*named.hold)});
  return json_response(200, {{"state", "released"}, {"returned", asked.returned}});
}

// Sets the end, in so many seconds from now: later, up to what its rules allow, or earlier; without
// a number as long as the last time.
HttpResponse renew(const Admin::Call& call, HoldBook& holds, base::Time now,
                   live::ChangeLog& changes) {
  const Json json = Json::parse(call.request.body, nullptr, false);
  const auto ttl = json.is_object() && json.size() == 1 ? json.find("ttl") : json.end();
  constexpr double most = static_cast<double>(base::bounds::hold_us_max) / 1e6;
  const double seconds = ttl != json.end() && ttl->is_number() ? ttl->get<double>() : 0;
  const bool keeps_length = json.is_object() && json.empty();
  if (!keeps_length && !(seconds >= 1e-6 && seconds <= most))
    return problem_response(400,
                            "the body must be `{\"ttl\": SECONDS}`, how long it is held from now "
                            "on, above 0 and at most a day; or `{}`: as long as the last time");
  Named named = find_hold(call, holds, now);
  if (!named.hold) return named.problem;
  request::HoldCall asked{.ask = request::HoldAsk::renew,
                          .user = named.hold->user,
                          .id = named.hold->id,
                          .ttl = {std::llround(seconds * 1e6)}};
  if (!settle(asked, holds, now))
    return problem_response(503, "the store cannot set its end now; try again");
  if (asked.outcome != request::HoldOutcome::done)
    return problem_response(404, "nothing with that id is held any more");
  const Json before = json_of(*named.hold);
  named.hold->ends_in = asked.ends_in;
  changes.add({.what = "hold renewed",
               .by = call.by,
               .about = about(*named.hold),
               .before = before,
               .after = json_of(*named.hold)});
  return json_response(200, json_of(*named.hold));
}

}  // namespace

void add_holds(Admin& admin, HoldBook& holds, base::Clock& clock, live::ChangeLog& changes) {
  admin.add({.method = "GET",
             .path = "/v1/holds",
             .slow = true,
             .handler = [&holds, &clock](const Admin::Call& call) {
               return list_holds(call.request, holds, clock.now());
             }});
  admin.add({.method = "GET",
             .path = "/v1/holds/{id}",
             .slow = true,
             .handler = [&holds, &clock](const Admin::Call& call) {
               return look(call, holds, clock.now());
             }});
  admin.add({.method = "PUT",
             .path = "/v1/holds/{id}",
             .slow = true,
             .body_bytes_max = base::bounds::admin_small_body_bytes_max,
             .handler = [&holds, &clock, &changes](const Admin::Call& call) {
               return renew(call, holds, clock.now(), changes);
             }});
  admin.add({.method = "DELETE",
             .path = "/v1/holds/{id}",
             .slow = true,
             .handler = [&holds, &clock, &changes](const Admin::Call& call) {
               return release(call, holds, clock.now(), changes);
             }});
}

}  // namespace sluice::admin
