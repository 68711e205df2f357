#include "admin/explain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "admin/admin_json.h"
#include "admin/counters.h"
#include "base/bounds.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/units.h"
#include "engine/verdict.h"
#include "live/override_registry.h"
#include "policy/actor_name.h"
#include "policy/explanation.h"
#include "protocol/protocol.h"

namespace sluice::admin {

ExplainQuery::ExplainQuery(std::shared_ptr<const live::LivePolicy> policy, ExplainedRequest request)
    : engine::AdminQuery(std::move(policy)), request_(std::move(request)) {
  looked_at_ = {.verb = request::Verb::would_take, .cost = request_.cost};
  for (const auto& [key, value] : request_.descriptor) entries_.push_back({key, value});
  if (request_.dialect != nullptr && request_.dialect->arrange != nullptr)
    request_.dialect->arrange(entries_);
}

policy::Matching ExplainQuery::matching() const {
  return {.descriptor = entries_, .request = looked_at_, .limits = request_.limits, .now = now_};
}

bool ExplainQuery::next(policy::Plan& its_plan, const engine::QueryContext& asking) {
  if (std::exchange(asked_, true)) {
    read(its_plan, asking.store);
    return false;
  }
  now_ = asking.now;
  plan(its_plan, asking.overrides);
  return true;
}

void ExplainQuery::plan(policy::Plan& plan, const policy::Overrides* overrides) {
  policy::Matching its = matching();
  its.overrides = overrides;
  policy().rules->match(request_.dialect, its, plan);
  for (const auto& step : plan.steps(plan.parts().front())) {
    policy::Override::Terms terms;
    const bool has_one =
        step.override_id != 0 && overrides->find(step.rule->id, step.actor, now_, terms);
    own_.push_back(has_one && terms.id == step.override_id ? terms.own : policy::OwnLimits{0});
  }
  // Shadow rules take first, each by itself. One that shares a counter has taken by then.
  const request::Batch batch = plan.batch();
  const auto counter_of = [](const request::Charge& charge) {
    return std::tuple(charge.space, charge.key, charge.limits_id);
  };
  std::map<decltype(counter_of({})), uint8_t> takes;
  for (const request::Group& group : batch.groups) {
    const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
    for (request::Charge& charge : charges)
      if (const auto one = takes.find(counter_of(charge)); one != takes.end())
        charge.before = one->second;
    uint8_t& count = takes[counter_of(charges.front())];
    if (count < UINT8_MAX) ++count;
  }
}

void ExplainQuery::read(const policy::Plan& plan, const store::Store& store) {
  const auto& part = plan.parts().front();
  for (const auto& step : plan.steps(part)) {
    ExplainedStep& one = steps_.emplace_back();
    one.rule = step.rule;
    one.override_id = step.override_id;
    one.actor = policy::actor_name(step.actor, step.rule->actor);
    const request::Charge& charge = plan.charge(step);
    if (charge.keeps_limits || limit::is_counted(charge.limits))
      one.counter = charge.space->prefix + std::string(charge.key) + charge.space->suffix;
    const request::Group& group = plan.group(step);
    if (group.error != request::Error::none) {
      one.error = store.message_for(group.error);
      continue;
    }
    const auto decisions = plan.decisions(step);
    const auto limits = limits_of(charge, decisions);
    for (size_t i = 0; i < decisions.size(); ++i) {
      const limit::Decision& d = decisions[i];
      const auto own = own_[steps_.size() - 1];
      const bool of_rule = own != 0 && (own >> i & 1) == 0;
      one.decisions.push_back({limits[i], d.allowed, d.remaining, d.retry_after, d.reset_after,
                               of_rule, now_, charge.overdraft_of(i)});
    }
  }
  const request::Verdict verdict = engine::verdict_of(plan, part, store);
  verdict_.error = verdict.error;
  if (!verdict.error.empty() || !verdict.matched) return;
  verdict_.matched = true;
  verdict_.allowed = verdict.allowed;
  verdict_.retry_after = verdict.allowed ? base::Duration{} : base::never;
  verdict_.reset_after = {};
  if (verdict.tightest == nullptr) return;
  verdict_.remaining = verdict.tightest->remaining;
  verdict_.reset_after = verdict.tightest->reset_after;
  if (!verdict.allowed) verdict_.retry_after = verdict.tightest->retry_after;
}

// POST /v1/explain: what the body asks, and the answer as JSON.

using wire::HttpResponse;

namespace {

// Rules that do not apply, of which the first so many are listed.
constexpr size_t listed_max = 1000;

bool brings_limits(const policy::Dialect* dialect) {
  return dialect != nullptr && dialect->brings_limits();
}

class Body {
 public:
  explicit Body(const policy::RuleSet& rules) : rules_(rules) {}

  base::Result<ExplainedRequest> read(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object())
      return fail("the body must be a JSON object: {\"protocol\": \"" +
                  std::string(protocol::all().front()->name) + "\", \"descriptor\": {...}}");
    ExplainedRequest request;
    bool has_protocol = false;
    for (const auto& [key, value] : json.items()) {
      if (key == "protocol") {
        const auto its =
            value.is_string() ? protocol::find(value.get_ref<const std::string&>()) : std::nullopt;
        if (!its) return fail_protocol();
        request.dialect = protocol::dialect_of(*its);
        has_protocol = true;
      } else if (key == "descriptor") {
        if (base::Done done = read_descriptor(value, request.descriptor); !done)
          return std::move(done).problem();
      } else if (key == "cost") {
        // What is compared with an int64_t is read as one.
        const bool fits = value.is_number_unsigned()
                              ? value.get<uint64_t>() <= uint64_t{base::bounds::quota_max}
                              : value.is_number_integer() && value >= -base::bounds::quota_max;
        if (!fits) return fail("`cost` must be a whole number up to 2^53");
        request.cost = value.get<int64_t>();
      } else if (key != "limits") {
        return fail("`" + key +
                    "` is not a known key; known here: protocol, descriptor, cost, limits");
      }
    }
    if (!has_protocol) return fail_protocol();
    if (request.cost < 0 && !brings_limits(request.dialect))
      return fail("only " + protocol::names_bringing_limits() + "'s `cost` may be below 0");
    if (json.contains("limits"))
      if (base::Done done = read_limits(json["limits"], request); !done)
        return std::move(done).problem();
    return request;
  }

 private:
  static base::Problem fail(std::string problem) { return {std::move(problem)}; }

  static base::Problem fail_protocol() {
    return fail("`protocol` must be " + protocol::joined_names(" or "));
  }

  static base::Done read_descriptor(const Json& json,
                                    std::vector<std::pair<std::string, std::string>>& out) {
    if (json.size() > base::bounds::descriptor_entries_max)
      return fail("a request has at most " + std::to_string(base::bounds::descriptor_entries_max) +
                  " entries");
    bool good = json.is_object() || json.is_array();
    if (json.is_object()) {
      for (const auto& [key, value] : json.items()) {
        good = good && value.is_string();
        if (good) out.emplace_back(key, value.get<std::string>());
      }
    }
    for (size_t i = 0; good && json.is_array() && i < json.size(); ++i) {
      const Json& entry = json[i];
      good = entry.is_object() && entry.size() == 2 && entry.contains("key") &&
             entry.contains("value") && entry["key"].is_string() && entry["value"].is_string();
      if (good)
        out.emplace_back(entry["key"].get<std::string>(), entry["value"].get<std::string>());
    }
    if (!good)
      return fail(
          "`descriptor` must be {\"KEY\": \"VALUE\", ...}, or [{\"key\": K, \"value\": V}, ...]");
    return {};
  }

  // One for each of some windows of the rule's space.
  base::Done read_limits(const Json& json, ExplainedRequest& request) const {
    const auto rules = rules_.rules(request.dialect);
    if (!brings_limits(request.dialect) || rules.empty())
      return fail("only requests of " + protocol::names_bringing_limits() +
                  "'s bring `limits` along");
    const auto quota_max = static_cast<uint64_t>(request.dialect->request_quota_max);
    const auto& windows = rules.front().space->windows;
    bool good = json.is_array();
    for (size_t i = 0; good && i < json.size(); ++i) {
      const Json& one = json[i];
      good = one.is_object() && one.contains("quota") && one["quota"].is_number_unsigned() &&
             one["quota"].get<uint64_t>() >= 1 && one["quota"].get<uint64_t>() <= quota_max &&
             one.contains("window") && one["window"].is_string();
      const auto window =
          good ? base::parse_duration(one["window"].get<std::string>()) : std::nullopt;
      good = window && std::find(windows.begin(), windows.end(), *window) != windows.end() &&
             std::none_of(request.limits.begin(), request.limits.end(),
                          [&](const limit::Limit& other) { return other.window == *window; });
      if (!good) break;
      const auto quota = one["quota"].get<int64_t>();
      request.limits.push_back({limit::Algorithm::token_bucket, quota, *window, quota});
    }
    std::sort(request.limits.begin(), request.limits.end(),
              [](const limit::Limit& a, const limit::Limit& b) { return a.window < b.window; });
    if (!good) {
      std::string known;
      for (const base::Duration window : windows)
        known += (known.empty() ? "" : ", ") + base::spell_duration(window);
      return fail("`limits` must be [{\"quota\": 1 to " + std::to_string(quota_max) +
                  ", \"window\": W}, ...], W one of " + known + ", each once");
    }
    return {};
  }

  const policy::RuleSet& rules_;
};

Json to_json(const policy::RuleExplanation& e, const policy::Dialect& dialect,
             const std::vector<ExplainedStep>& steps, const live::LivePolicy& policy) {
  Json json{{"dialect", dialect.name},
            {"rule", dialect.rule_name(*e.rule)},
            {"file", e.rule->file},
            {"line", e.rule->line},
            {"mode", e.off                                  ? "off"
                     : e.rule->mode == policy::Mode::shadow ? "shadow"
                                                            : "enforce"},
            {"applies", e.applies()},
            {"has_say", e.has_say}};
  if (e.over) json["over"] = true;
  if (!e.error.empty()) json["error"] = e.error;
  if (e.mismatch) {
    json["mismatch"] = {{"key", e.mismatch->condition->key},
                        {"pattern", e.mismatch->condition->pattern.text()},
                        {"value", nullptr}};
    if (e.mismatch->value) put_text(json["mismatch"], "value", "value_bytes", *e.mismatch->value);
  }
  if (!e.applies()) return json;
  if (policy.fresh != nullptr)
    for (const policy::FreshStart& one : *policy.fresh)
      if (one.rule == e.rule) json["began_fresh"].push_back(base::printable(to_text(one)));
  const auto step = std::find_if(steps.begin(), steps.end(),
                                 [&](const ExplainedStep& one) { return one.rule == e.rule; });
  json["decisions"] = Json::array();
  if (step == steps.end()) return json;
  if (!step->counter.empty()) put_name(json, step->counter);
  put_text(json, "actor", "actor_bytes", step->actor);
  if (!e.rule->fair_by.empty()) json["fair_by"] = e.rule->fair_by;
  if (step->override_id != 0) json["override"] = live::id_text(step->override_id);
  if (!step->error.empty()) json["error"] = step->error;
  for (const CounterLimit& one : step->decisions) json["decisions"].push_back(to_json(one));
  return json;
}

Json to_json(const ExplainedVerdict& verdict) {
  Json json{{"allowed", verdict.allowed},
            {"matched", verdict.matched},
            {"remaining", verdict.remaining},
            {"retry_after", seconds_of(verdict.retry_after)},
            {"reset_after", seconds_of(verdict.reset_after)}};
  if (!verdict.error.empty()) json["error"] = verdict.error;
  return json;
}

}  // namespace

HttpResponse CounterRoutes::explain(const wire::HttpRequest& request) {
  const auto policy = deps_.live.shown();
  auto asked = Body(*policy->rules).read(request.body);
  if (!asked) return problem_response(422, asked.problem().text);
  const policy::Dialect* const dialect = asked->dialect;
  const int64_t cost = asked->cost;
  const auto query = std::make_shared<ExplainQuery>(policy, *std::move(asked));
  const auto outcome = deps_.queries.ask(query);
  if (outcome != engine::AdminQueries::Outcome::answered) return problem_of(outcome);

  std::vector<std::string> names;
  for (const ExplainedStep& step : query->steps())
    if (!step.counter.empty()) names.push_back(step.counter);
  const auto held = held_of(names);
  Items items;
  size_t passed = 0, unlisted = 0;
  const size_t unreached = policy::explain_each(
      *policy->rules, dialect, query->matching(), [&](policy::RuleExplanation&& e) {
        const bool told = e.applies() || !e.error.empty();
        if (items.is_full() || (!told && ++passed > listed_max)) return void(++unlisted);
        Json json =
            to_json(e, e.native ? policy::native_dialect : *dialect, query->steps(), *policy);
        for (const ExplainedStep& step : query->steps())
          if (const auto its = held.find(step.counter); step.rule == e.rule && its != held.end())
            put_held(json, "decisions", step.decisions, its->second, cost);
        if (!items.add(std::move(json))) ++unlisted;
      });
  Json json{{"rules", items.take()}};
  json["unreached"] = unreached;
  if (unlisted > 0) json["unlisted"] = unlisted;
  json["verdict"] = to_json(query->verdict());
  return json_response(200, json);
}

}  // namespace sluice::admin
