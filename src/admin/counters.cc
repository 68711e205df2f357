#include "admin/counters.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "base/bounds.h"
#include "base/units.h"
#include "live/live_policy.h"
#include "live/override_registry.h"
#include "policy/actor_name.h"
#include "policy/dialect.h"

namespace sluice::admin {

namespace {

bool is_counted(const policy::Rule& rule) {
  return rule.limits.empty() || limit::is_counted(rule.limits);
}

// Would it apply to a request with that actor, which meets all of its other conditions?
bool takes(const policy::Rule& rule, std::string_view key, base::Time now) {
  if (now >= rule.until) return false;
  return std::all_of(rule.conditions.begin(), rule.conditions.end(), [&](const auto& condition) {
    if (rule.actor.size() != 1 || rule.actor.front() != condition.key) return true;
    return !condition.pattern.impossible() && condition.pattern.matches(key);
  });
}

}  // namespace

LiveCounters::LiveCounters(const policy::RuleSet& rules,
                           std::span<const request::Space* const> others) {
  std::vector<const request::Space*> spaces;
  live::each_rule(rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    if (rule.mode == policy::Mode::off) return;
    members_[rule.space->id].push_back({&rule, &dialect});
    if (dialect.override_space != nullptr)
      by_prefix_[rule.space->prefix].push_back({&rule, &dialect});
    if (is_counted(rule)) spaces.push_back(rule.space);
  });
  for (const auto& list : rules.lists())
    if (list.own() != nullptr)
      for (const policy::Rule& rule : list.rules()) with_own_[rule.space->id] = &list;
  for (const request::Space* space : others)
    if (by_prefix_.contains(space->prefix)) spaces.push_back(space);
  spaces_ = request::SpaceIndex(spaces);
}

LiveCounters::Owner LiveCounters::found_owner(const request::Space& space, std::string_view key,
                                              const policy::RuleSet::DialectRules& list) const {
  base::Arena texts;
  const auto found = list.own()->owner(space, key, texts);
  if (!found) return {};
  return {&list.rules()[found->rule], &list.dialect(), &space, key, std::string(found->actor)};
}

LiveCounters::Owner LiveCounters::find(std::string_view stored, base::Time now,
                                       const policy::Overrides* overrides) const {
  const auto found = spaces_.find(stored);
  if (!found) return {};
  const auto& [space, key] = *found;
  policy::Override::Terms terms;
  const auto has_override = [&](const policy::Rule& rule, std::string_view actor) {
    if (overrides == nullptr || !overrides->find(rule.id, actor, now, terms)) return false;
    return (terms.space != nullptr ? terms.space : rule.space) == found->space;
  };
  if (const auto list = with_own_.find(space->id); list != with_own_.end()) {
    Owner owner = found_owner(*space, key, *list->second);
    owner.overridden = owner.rule != nullptr && has_override(*owner.rule, owner.actor);
    return owner;
  }
  if (const auto members = members_.find(space->id); members != members_.end()) {
    const auto& all = members->second;
    const auto its = std::find_if(all.begin(), all.end(), [&, k = key](const Member& member) {
      return all.size() == 1 || takes(*member.rule, k, now);
    });
    const Member& member = its != all.end() ? *its : all.back();
    return {member.rule, member.dialect,   space,
            key,         std::string(key), has_override(*member.rule, key)};
  }
  // An override's own.
  for (const Member& member : by_prefix_.at(space->prefix))
    if (has_override(*member.rule, key))
      return {member.rule, member.dialect, space, key, std::string(key), true};
  return {};
}

using limit::Decision;
using limit::Limit;
using request::Verb;

namespace {

// The most units that a fresh counter has for one take.
int64_t most_of(std::span<const CounterLimit> limits) {
  int64_t most = INT64_MAX;
  for (const CounterLimit& one : limits)
    if (has_counter(one.limit.algorithm)) most = std::min(most, limit::units_max(one.limit));
  return most == INT64_MAX ? 0 : most;
}

}  // namespace

std::vector<Limit> limits_of(const request::Charge& charge, std::span<const Decision> decisions) {
  if (!charge.keeps_limits) return {charge.limits.begin(), charge.limits.end()};
  std::vector<Limit> limits;
  for (size_t i = 0; i < charge.space->windows.size(); ++i)
    if ((charge.slot_mask >> i & 1) != 0)
      limits.push_back({limit::Algorithm::token_bucket, decisions[limits.size()].limit,
                        charge.space->windows[i], decisions[limits.size()].limit});
  return limits;
}

CounterQuery::CounterQuery(std::shared_ptr<const live::LivePolicy> policy,
                           std::vector<CounterState> counters, Change change, int64_t used)
    : engine::AdminQuery(std::move(policy)),
      counters_(std::move(counters)),
      change_(change),
      used_(used) {}

bool CounterQuery::next(policy::Plan& plan, const engine::QueryContext& asking) {
  now_ = asking.now;
  switch (stage_) {
    case Stage::begin:
      // What a fresh counter has is said by its limits: first these.
      if (change_ != Change::set) return plan_change(plan, asking);
      plan_looks(plan, asking);
      stage_ = Stage::limits_known;
      return true;
    case Stage::limits_known:
      read_looks(plan);
      if (counters_.front().moved || counters_.front().error != request::Error::none) return false;
      most_ = most_of(counters_.front().limits);
      too_much_ = used_ > most_;
      if (too_much_) return false;
      return plan_change(plan, asking);
    case Stage::looked:
      read_looks(plan);
      stage_ = Stage::asked;
      return plan_probes(plan, asking);
    case Stage::asked:
      read_probes(plan);
      break;
  }
  return false;
}

request::Charge& CounterQuery::ask(policy::Plan& plan, const CounterState& one,
                                   const engine::QueryContext& asking, Verb verb, int64_t cost,
                                   std::span<const Limit> limits) {
  const request::Request request{.verb = verb, .cost = cost, .tag = {}};
  const policy::Matching matching{.request = request,
                                  .limits = limits,
                                  .now = asking.now,
                                  .overrides = one.owner.overridden ? asking.overrides : nullptr};
  return plan.ask(*one.owner.rule, one.key, one.owner.actor, matching);
}

bool CounterQuery::plan_change(policy::Plan& plan, const engine::QueryContext& asking) {
  plan.clear();
  if (change_ != Change::none) {
    CounterState& one = counters_.front();
    const bool sets = change_ == Change::set;
    auto& charge = ask(plan, one, asking, sets ? Verb::take : Verb::put, sets ? used_ : 0);
    one.moved = charge.space != one.owner.space;
    if (one.moved) return false;
    charge.all = !sets;
    charge.refill = sets && charge.keeps_limits;
    charge.reset_first = sets && !charge.keeps_limits;
    changed_ = true;
  }
  plan_looks(plan, asking);
  stage_ = Stage::looked;
  return true;
}

void CounterQuery::plan_looks(policy::Plan& plan, const engine::QueryContext& asking) {
  for (const CounterState& one : counters_) ask(plan, one, asking, Verb::peek, 0);
}

void CounterQuery::read_looks(const policy::Plan& plan) {
  const auto parts = plan.parts();
  // The change that was asked for.
  const size_t before = parts.size() - counters_.size();
  for (const auto& part : parts.first(before)) {
    const request::Group& change = plan.group(plan.steps(part).front());
    counters_.front().error = change.error;
    denied_ = !change.allowed;
  }
  for (size_t i = 0; i < counters_.size(); ++i) {
    CounterState& one = counters_[i];
    const auto& step = plan.steps(parts[before + i]).front();
    if (one.error == request::Error::none) one.error = plan.group(step).error;
    if (one.error != request::Error::none) continue;
    const request::Charge& charge = plan.charge(step);
    one.moved |= charge.space != one.owner.space;
    one.override_id = step.override_id;
    one.keeps_limits = charge.keeps_limits;
    const auto decisions = plan.decisions(step);
    const auto limits = limits_of(charge, decisions);
    one.limits.clear();
    for (size_t j = 0; j < limits.size(); ++j) {
      const Decision& d = decisions[j];
      const bool allowed = has_counter(limits[j].algorithm) ? d.remaining >= 1 : d.allowed;
      one.limits.push_back({limits[j], allowed, d.remaining,
                            allowed ? base::Duration{} : base::never, d.reset_after, false, now_,
                            charge.overdraft_of(j)});
    }
  }
}

// Only the answer to a take says how long to wait.
bool CounterQuery::plan_probes(policy::Plan& plan, const engine::QueryContext& asking) {
  plan.clear();
  in_probes_.reserve(counters_.size());
  for (size_t i = 0; i < counters_.size(); ++i) {
    const CounterState& one = counters_[i];
    if (std::all_of(one.limits.begin(), one.limits.end(), [](const auto& l) { return l.allowed; }))
      continue;
    auto& limits = in_probes_.emplace_back();
    if (one.keeps_limits)
      for (const CounterLimit& l : one.limits) limits.push_back(l.limit);
    // By the limits that it keeps, whatever an override puts in their place next time.
    engine::QueryContext as_kept{asking.now, asking.store,
                                 one.keeps_limits ? nullptr : asking.overrides};
    ask(plan, one, as_kept, Verb::would_take, 1, limits);
    probed_.push_back(i);
  }
  return !probed_.empty();
}

void CounterQuery::read_probes(const policy::Plan& plan) {
  for (size_t i = 0; i < probed_.size(); ++i) {
    CounterState& one = counters_[probed_[i]];
    const auto& step = plan.steps(plan.parts()[i]).front();
    one.error = plan.group(step).error;
    const auto decisions = plan.decisions(step);
    for (size_t j = 0; j < std::min(one.limits.size(), decisions.size()); ++j)
      if (!one.limits[j].allowed) one.limits[j].retry_after = decisions[j].retry_after;
  }
}

void put_held(Json& json, const char* key, std::span<const CounterLimit> limits,
              const store::HoldBook::OfCounter& held, int64_t asked) {
  for (size_t i = 0; i < limits.size(); ++i) {
    const CounterLimit& one = limits[i];
    const int64_t used = limit::units_max(one.limit) - one.remaining - (one.allowed ? asked : 0);
    const int64_t of_limit = limit::has_places(one.limit) ? held.places : held.units;
    json[key][i]["held"] = std::clamp<int64_t>(of_limit, 0, std::max<int64_t>(used, 0));
  }
  if (held.holds > 0)
    json["holds"] = {{"count", held.holds},
                     {"first_expires_in", seconds_of(held.first_end)},
                     {"last_expires_in", seconds_of(held.last_end)}};
}

using wire::HttpRequest;
using wire::HttpResponse;

namespace {

constexpr size_t page_default = 100;
constexpr size_t actor_names_max = 20'000;  // rules that one actor is looked for at, at most
// Of the names that are asked about at a time, so that a worker is not held up by them.
constexpr size_t names_asked_bytes_max = size_t{1} << 20;
// For a name that is found by its digest.
constexpr auto find_limit = std::chrono::seconds(20);
// Of the name at which a page ended, what the next page receives of it.
constexpr size_t token_name_bytes_max = 2048;

Json to_json(const CounterState& counter) {
  Json json = Json::object();
  put_name(json, counter.stored);
  json["dialect"] = counter.owner.dialect->name;
  json["rule"] = counter.owner.dialect->rule_name(*counter.owner.rule);
  put_text(json, "actor", "actor_bytes",
           policy::actor_name(counter.owner.actor, counter.owner.rule->actor));
  if (counter.override_id != 0) json["override"] = live::id_text(counter.override_id);
  json["limits"] = Json::array();
  for (const CounterLimit& one : counter.limits) json["limits"].push_back(to_json(one));
  return json;
}

// What is there of each limit.
Json levels_of(const CounterState& counter) {
  Json json = Json::array();
  for (const CounterLimit& one : counter.limits) json.push_back(to_json(one));
  return json;
}

// Where a page ends: behind which name, in what is searched from where on. Of a long name there is
// the beginning and a mark.
struct PageEnd {
  std::string after, from;
  std::optional<wire::NameMark> mark = {};
};

// In signs that stand in a query as they are: name and place in hexadecimal, with `-` before the
// second; a mark's length and digest behind the name, each with a `.` before it.
std::string to_token(const std::string& after, std::string_view from) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string token;
  const auto append = [&](std::string_view bytes) {
    for (const char c : bytes) {
      token += hex[static_cast<unsigned char>(c) >> 4];
      token += hex[static_cast<unsigned char>(c) & 15];
    }
  };
  append(std::string_view(after).substr(0, token_name_bytes_max));
  if (after.size() > token_name_bytes_max)
    token += "." + std::to_string(after.size()) + "." + wire::name_digest(after);
  if (!from.empty()) token += '-';
  append(from);
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
  std::string_view name = token.substr(0, cut);
  PageEnd end;
  if (const size_t dot = name.find('.'); dot != name.npos) {
    std::string query = "bytes=" + std::string(name.substr(dot + 1));
    if (const size_t second = query.find('.'); second != query.npos)
      query.replace(second, 1, "&digest=");
    bool ill_formed = false;
    if (!(end.mark = wire::mark_of(query, ill_formed))) return std::nullopt;
    name = name.substr(0, dot);
  }
  const auto after = from_hex(name);
  const auto from = from_hex(token.substr(std::min(cut + 1, token.size())));
  if (!after || !from || (cut < token.size() && from->empty())) return std::nullopt;
  end.after = *after;
  end.from = *from;
  return end;
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

HttpResponse problem_of(engine::AdminQueries::Outcome outcome) {
  switch (outcome) {
    case engine::AdminQueries::Outcome::late:
      return problem_response(504,
                              "there was no answer in time; what was asked for may still be done");
    case engine::AdminQueries::Outcome::lost:
      return problem_response(503,
                              "the change is in force but could not be committed, so a restart may "
                              "lose it; the log says why");
    case engine::AdminQueries::Outcome::too_many:
      return problem_response(503, "too many requests for counters are under way; try later");
    case engine::AdminQueries::Outcome::failed:
      return problem_response(503, "the store of the counters cannot be searched now");
    case engine::AdminQueries::Outcome::stopping:
      return problem_response(503, "the server is stopping");
    case engine::AdminQueries::Outcome::answered:
      break;
  }
  return problem_response(500, "internal error: the query has no answer");
}

namespace {

// For a search, which may go on when no client waits for it any more: with what keeps all of it
// known.
std::shared_ptr<const request::SpaceIndex> searched(std::shared_ptr<const live::LivePolicy> policy,
                                                    std::shared_ptr<const LiveCounters> live) {
  const auto both = std::make_shared<const std::pair<std::shared_ptr<const live::LivePolicy>,
                                                     std::shared_ptr<const LiveCounters>>>(
      std::move(policy), std::move(live));
  return {both, &both->second->spaces()};
}

}  // namespace

void CounterRoutes::add_to(Admin& admin) {
  using Call = Admin::Call;
  admin.add(
      {.method = "GET", .path = "/v1/counters", .slow = true, .handler = [this](const Call& c) {
         return list(c.request);
       }});
  admin.add({.method = "GET",
             .path = "/v1/counters/{key}",
             .slow = true,
             .handler = [this](const Call& c) { return one(c, CounterQuery::Change::none, 0); }});
  admin.add({.method = "PUT",
             .path = "/v1/counters/{key}",
             .slow = true,
             .body_bytes_max = base::bounds::admin_small_body_bytes_max,
             .handler = [this](const Call& c) { return put(c); }});
  admin.add({.method = "DELETE",
             .path = "/v1/counters/{key}",
             .slow = true,
             .handler = [this](const Call& c) { return one(c, CounterQuery::Change::forget, 0); }});
  admin.add({.method = "POST",
             .path = "/v1/explain",
             .slow = true,
             .body_bytes_max = base::bounds::admin_small_body_bytes_max,
             .handler = [this](const Call& c) { return explain(c.request); }});
}

std::shared_ptr<const LiveCounters> CounterRoutes::counters(const live::LivePolicy& policy) {
  std::vector<const request::Space*> others;
  uint64_t version = 0;
  if (deps_.overrides != nullptr) others = deps_.overrides->spaces(version);
  if (counters_ == nullptr || generation_ != policy.generation || others_ != version)
    counters_ = std::make_shared<const LiveCounters>(*policy.rules, others);
  generation_ = policy.generation;
  others_ = version;
  return counters_;
}

std::vector<CounterState> CounterRoutes::states(const LiveCounters& live,
                                                std::span<const std::string> stored) {
  const base::Time now = deps_.clock.now();
  std::unique_lock<std::mutex> held;
  if (deps_.overrides != nullptr) held = deps_.overrides->hold();
  std::vector<CounterState> all;
  for (const std::string& name : stored) {
    const auto owner = live.find(name, now, deps_.overrides);
    if (owner.rule != nullptr)
      all.push_back({.stored = name, .key = std::string(owner.key), .owner = owner});
  }
  return all;
}

store::HoldBook::OfCounters CounterRoutes::held_of(std::span<const std::string> names) const {
  store::HoldBook::OfCounters held;
  if (deps_.holds == nullptr) return held;
  held.reserve(names.size());
  for (const std::string& name : names) held.try_emplace(name);
  if (!deps_.holds->add_held(deps_.clock.now(), held)) held.clear();
  return held;
}

HttpResponse CounterRoutes::put(const Admin::Call& call) {
  const auto used = used_of(call.request.body);
  if (!used)
    return problem_response(400, "the body must be {\"used\": N}, N a whole number from 0 on");
  return one(call, CounterQuery::Change::set, *used);
}

HttpResponse CounterRoutes::problem_of_search(engine::AdminQueries::Outcome outcome) const {
  if (outcome != engine::AdminQueries::Outcome::failed) return problem_of(outcome);
  const std::string why = deps_.store.catalog().why_degraded();
  return problem_response(503, "the store of the counters cannot be searched now" +
                                   (why.empty() ? why : ": " + why) +
                                   "; try again, and see `sluice status`");
}

std::optional<std::string> CounterRoutes::meant_by(const Admin::Call& call, HttpResponse& problem) {
  bool ill_formed = false;
  const auto mark = wire::mark_of(call.request.query, ill_formed);
  if (ill_formed)
    problem = problem_response(400, "`bytes` and `digest` must be as a counter's `path` has them");
  if (ill_formed) return std::nullopt;
  if (!mark) return call.parameters.front();
  std::optional<std::string> found;
  const auto outcome = find(call.parameters.front(), *mark, found);
  if (outcome != engine::AdminQueries::Outcome::answered)
    problem = problem_of_search(outcome);
  else if (!found)
    problem = problem_response(404, "no counter's name begins so and has that length and digest");
  return found;
}

engine::AdminQueries::Outcome CounterRoutes::find(const std::string& beginning,
                                                  const wire::NameMark& mark,
                                                  std::optional<std::string>& found) {
  const auto until = std::chrono::steady_clock::now() + find_limit;
  const auto policy = deps_.live.shown();
  const auto live = counters(*policy);
  std::string after, from;
  for (;;) {
    store::ScanPage stored;
    const auto outcome = deps_.queries.list(searched(policy, live), beginning, after,
                                            base::bounds::admin_page_max, from, stored);
    if (outcome != engine::AdminQueries::Outcome::answered) return outcome;
    if (stored.failed) return engine::AdminQueries::Outcome::failed;
    for (std::string& name : stored.keys) {
      if (!mark.fits(name)) continue;
      found = std::move(name);
      return outcome;
    }
    if (stored.more || stored.keys.size() == base::bounds::admin_page_max) {
      after = std::move(stored.keys.back());
      from = stored.again;
    } else if (!stored.rest.empty()) {
      after.clear();
      from = stored.rest;
    } else {
      return outcome;
    }
    if (std::chrono::steady_clock::now() > until) return engine::AdminQueries::Outcome::late;
  }
}

HttpResponse CounterRoutes::one(const Admin::Call& call, CounterQuery::Change change,
                                int64_t used) {
  HttpResponse problem;
  const auto stored = meant_by(call, problem);
  if (!stored) return problem;
  const auto policy = deps_.live.shown();
  const auto live = counters(*policy);
  auto asked = states(*live, {&*stored, 1});
  std::optional<Json> before;
  if (change != CounterQuery::Change::none && deps_.changes != nullptr && !asked.empty()) {
    const auto looked = std::make_shared<CounterQuery>(policy, states(*live, {&*stored, 1}));
    if (deps_.queries.ask(looked) == engine::AdminQueries::Outcome::answered &&
        looked->counters().front().error == request::Error::none)
      before = levels_of(looked->counters().front());
  }
  if (asked.empty())
    return problem_response(
        404,
        "no live rule has counters of such names; a counter's name is its rule's prefix, the "
        "actor and the rule's suffix, as `sluice counters`, GET /v1/counters and POST /v1/explain "
        "spell them");
  const auto query = std::make_shared<CounterQuery>(policy, std::move(asked), change, used);
  const auto outcome = deps_.queries.ask(query);
  if (outcome != engine::AdminQueries::Outcome::answered) return problem_of(outcome);
  const CounterState& answer = query->counters().front();
  if (answer.error != request::Error::none)
    return problem_response(503, std::string(deps_.store.message_for(answer.error)));
  if (answer.moved)
    return problem_response(409, "the override of this actor changed meanwhile; ask again");
  if (query->denied()) {
    const bool by_rule = std::any_of(
        answer.limits.begin(), answer.limits.end(),
        [](const CounterLimit& one) { return one.limit.algorithm == limit::Algorithm::deny; });
    return problem_response(
        409, by_rule ? "this actor is denied whatever its counter holds, which stays as it is"
                     : "the limits of this counter changed meanwhile; ask again");
  }
  if (query->too_much())
    return problem_response(422, "`used` must be 0 to " + std::to_string(query->most()) +
                                     ", which is what a fresh counter has");
  if (change != CounterQuery::Change::none && deps_.changes != nullptr) {
    live::Change told{.what = change == CounterQuery::Change::set ? "counter set" : "counter reset",
                      .by = call.by};
    told.about = to_json(answer);
    told.about.erase("limits");
    if (before) told.before = *before;
    told.after = levels_of(answer);
    deps_.changes->add(std::move(told));
  }
  Json json = to_json(answer);
  for (const auto& [name, held] : held_of({&*stored, 1}))
    put_held(json, "limits", answer.limits, held);
  return json_response(200, json);
}

namespace {

// Has nothing been taken of it, and does no override stand in place of its limits?
bool is_fresh(const Json& counter) {
  if (counter.contains("problem") || counter.contains("override")) return false;
  for (const Json& limit : counter["limits"]) {
    const int64_t most =
        limit.contains("burst") ? limit["burst"].get<int64_t>() : limit["quota"].get<int64_t>();
    if (!limit["allowed"].get<bool>() || limit["remaining"].get<int64_t>() < most) return false;
  }
  return true;
}

}  // namespace

// The counters of one actor, by the names that every live rule would give them: no table is looked
// through. A counter that is as a fresh one is left out.
HttpResponse CounterRoutes::list_of_actor(const std::string& actor) {
  const auto policy = deps_.live.shown();
  const auto live = counters(*policy);
  std::vector<std::string> names;
  const auto add = [&](const request::Space& space, std::string_view key) {
    names.push_back(space.prefix + std::string(key) + space.suffix);
  };
  std::string several;
  base::Arena texts;
  // The keys in the spaces that overrides have, by the prefix of these.
  std::unordered_map<std::string_view, std::string> overridden;
  for (const policy::RuleSet::DialectRules& list : policy->rules->lists()) {
    const policy::OwnRules* const keys = list.own();
    for (const policy::Rule& rule : list.rules()) {
      if (rule.space == nullptr || rule.mode == policy::Mode::off) continue;
      const auto key = policy::actor_named(actor, rule.actor);
      // The name of an actor of several keys may be that of several actors of one.
      if (!key && several.empty()) several = key.problem().text;
      if (!key || !*key) continue;
      if (keys == nullptr) {
        add(*rule.space, **key);
        if (list.dialect().override_space != nullptr) overridden.emplace(rule.space->prefix, **key);
        continue;
      }
      texts.clear();
      const auto number = static_cast<uint32_t>(&rule - list.rules().data());
      if (const auto found = keys->key_of(number, **key, texts)) add(*rule.space, *found);
    }
  }
  uint64_t version = 0;
  if (deps_.overrides != nullptr)
    for (const request::Space* space : deps_.overrides->spaces(version))
      if (const auto at = overridden.find(space->prefix); at != overridden.end())
        add(*space, at->second);
  if (names.empty() && !several.empty()) return problem_response(400, "`actor`: " + several);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const bool cut = names.size() > actor_names_max;
  if (cut) names.resize(actor_names_max);
  Json list = Json::array();
  const auto held = held_of(names);
  for (size_t at = 0; at < names.size(); at += counters_asked_max) {
    const auto some = std::span(names).subspan(at, std::min(counters_asked_max, names.size() - at));
    Items items;
    std::string told;
    if (const auto problem = show(policy, *live, some, held, items, told)) return *problem;
    for (Json& one : items.take())
      if (!is_fresh(one)) list.push_back(std::move(one));
  }
  Json json{{"counters", std::move(list)}};
  if (cut) json["cut"] = true;
  return json_response(200, json);
}

HttpResponse CounterRoutes::list(const HttpRequest& request) {
  if (const auto actor = wire::query_value(request.query, "actor")) {
    if (wire::query_value(request.query, "prefix") || wire::query_value(request.query, "after"))
      return problem_response(400, "`actor` excludes `prefix` and `after`");
    return list_of_actor(*actor);
  }
  const auto limit = wire::query_value(request.query, "limit");
  const auto count = limit ? base::parse_count(*limit) : page_default;
  auto end = from_token(wire::query_value(request.query, "after").value_or(""));
  if (!count || *count < 1 || *count > base::bounds::admin_page_max || !end)
    return problem_response(400, "`limit` must be 1 to " +
                                     std::to_string(base::bounds::admin_page_max) +
                                     ", `after` the `next` of the page before");
  if (end->mark) {
    // Where it has gone meanwhile, those that begin as it did are listed again.
    std::optional<std::string> whole;
    const auto found = find(end->after, *end->mark, whole);
    if (found != engine::AdminQueries::Outcome::answered) return problem_of_search(found);
    if (whole) end->after = std::move(*whole);
  }
  const auto policy = deps_.live.shown();
  const auto live = counters(*policy);
  store::ScanPage stored;
  // One more, to know whether there is one.
  const auto listed = deps_.queries.list(searched(policy, live),
                                         wire::query_value(request.query, "prefix").value_or(""),
                                         end->after, *count + 1, end->from, stored);
  if (listed != engine::AdminQueries::Outcome::answered) return problem_of(listed);
  if (stored.unknown) return problem_response(400, "`after` must be the `next` of the page before");
  if (stored.failed) return problem_of_search(engine::AdminQueries::Outcome::failed);

  bool more = stored.more;
  if (stored.keys.size() > *count) {
    stored.keys.pop_back();
    more = true;
  }
  Items items;
  std::string told;  // the last name that the page has
  const auto held = held_of(stored.keys);
  for (size_t at = 0; at < stored.keys.size() && !items.is_full();) {
    size_t some = 0, bytes = 0;
    while (at + some < stored.keys.size() && some < counters_asked_max &&
           (some == 0 || bytes + stored.keys[at + some].size() <= names_asked_bytes_max))
      bytes += stored.keys[at + some++].size();
    const std::span<const std::string> names = std::span(stored.keys).subspan(at, some);
    if (const auto problem = show(policy, *live, names, held, items, told)) return *problem;
    at += some;
  }
  Json json{{"counters", Json::array()}};
  if (items.is_full())
    json["next"] = to_token(told, stored.again);
  else if (more)
    json["next"] = to_token(stored.keys.back(), stored.again);
  else if (!stored.rest.empty())
    json["next"] = to_token("", stored.rest);
  json["counters"] = items.take();
  if (!stored.rest.empty()) json["cut"] = true;
  return json_response(200, json);
}

std::optional<HttpResponse> CounterRoutes::show(
    const std::shared_ptr<const live::LivePolicy>& policy, const LiveCounters& live,
    std::span<const std::string> names, const store::HoldBook::OfCounters& held, Items& items,
    std::string& told) {
  auto some = states(live, names);
  if (some.empty()) return std::nullopt;
  const auto query = std::make_shared<CounterQuery>(policy, std::move(some));
  const auto outcome = deps_.queries.ask(query);
  if (outcome != engine::AdminQueries::Outcome::answered) return problem_of(outcome);
  for (const CounterState& counter : query->counters()) {
    // One that is none hides no other.
    const bool unreadable =
        counter.error == request::Error::wrong_type || counter.error == request::Error::no_number;
    if (counter.error != request::Error::none && !unreadable)
      return problem_response(503, std::string(deps_.store.message_for(counter.error)));
    if (counter.moved) continue;
    Json json = to_json(counter);
    if (unreadable) json["problem"] = deps_.store.message_for(counter.error);
    if (const auto its = held.find(counter.stored); its != held.end())
      put_held(json, "limits", counter.limits, its->second);
    if (!items.add(std::move(json))) break;
    told = counter.stored;
  }
  return std::nullopt;
}

}  // namespace sluice::admin
