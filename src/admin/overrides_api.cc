#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "admin/routes.h"
#include "base/bounds.h"
#include "base/diagnostic.h"
#include "base/units.h"
#include "policy/actor_name.h"
#include "policy/dialect.h"
#include "protocol/protocol.h"

namespace sluice::admin {

using wire::HttpRequest;
using wire::HttpResponse;

namespace {

constexpr size_t overrides_page_default = 100;

Json shown(const live::StoredOverride& one, const live::OverrideRegistry& registry) {
  Json json = to_json(one, registry.spaces(), registry.applies(*one.rule));
  if (one.until <= registry.now()) json["ended"] = true;
  return json;
}

HttpResponse refusal(live::OverrideProblem problem) {
  if (!problem.field.empty()) problem.more["field"] = problem.field;
  return problem_response(problem.status,
                          problem.field.empty() ? problem.why : problem.field + ": " + problem.why,
                          problem.more);
}

// The algorithm of the rule's limits, where they have one in common that an override can have with
// nothing but a quota and a window.
limit::Algorithm usual_of(const policy::Rule& rule, const policy::Dialect& dialect) {
  using limit::Algorithm;
  if (dialect.override_algorithm) return *dialect.override_algorithm;
  Algorithm usual = Algorithm::token_bucket;
  for (const limit::Limit& limit : rule.limits) {
    if (!limit::has_counter(limit.algorithm) || limit.algorithm == Algorithm::fixed_bucket ||
        limit.algorithm != rule.limits.front().algorithm)
      return Algorithm::token_bucket;
    usual = limit.algorithm;
  }
  return usual;
}

std::string dialect_names() {
  std::string names(policy::native_dialect.name);
  for (const policy::Dialect* one : protocol::dialects()) names.append(", ").append(one->name);
  return names;
}

// Which rule is meant: by its name, else by what else its dialect calls it.
class Resolver {
 public:
  explicit Resolver(const policy::RuleSet& rules) : rules_(rules) {}

  live::OverrideProblem find(const Json& body, std::shared_ptr<const live::NamedRule>& found) {
    const auto rule = body.find("rule"), dialect = body.find("dialect");
    if (rule == body.end() || !rule->is_string())
      return {422, "rule",
              "must be the name of a rule, as `sluice rules` or GET /v1/rules tells it"};
    std::pair<std::string, std::string> asked{"", rule->get<std::string>()};
    if (dialect != body.end()) {
      if (!dialect->is_string() ||
          protocol::find_dialect(dialect->get_ref<const std::string&>()) == nullptr)
        return {422, "dialect", "must be one of " + dialect_names()};
      asked.first = dialect->get<std::string>();
    }
    auto& memo = known_[asked];
    if (memo == nullptr) {
      std::vector<std::shared_ptr<const live::NamedRule>> all =
          candidates(asked.first, asked.second);
      if (all.empty())
        return {422, "rule",
                "there is no rule `" + asked.second + "`" +
                    (asked.first.empty() ? "" : " of " + asked.first) +
                    "; `sluice rules` or GET /v1/rules says which there are"};
      if (all.size() > 1) {
        live::OverrideProblem several{409, "rule", "is the name of several rules; say which"};
        several.more["candidates"] = Json::array();
        for (const auto& one : all)
          several.more["candidates"].push_back({{"dialect", one->dialect}, {"rule", one->name}});
        return several;
      }
      memo = all.front();
    }
    found = memo;
    return {};
  }

  // An actor that is the name of one of the rule's counters would have no effect.
  live::OverrideProblem check_counter(const Json& body, const live::NamedRule& named) const {
    const auto at = body.find("actor");
    if (at == body.end() || !at->is_string()) return {};
    const std::string& written = at->get_ref<const std::string&>();
    const auto rule = rules_of_.find(named.id);
    if (rule == rules_of_.end()) return {};
    const std::string actor = actor_of_counter(*rule->second.front(), *named.rules_of, written);
    if (actor.empty()) return {};
    return {422, "actor",
            "is the name of a counter; its actor is `" + actor + "`, and `exact(" + written +
                ")` is that text"};
  }

  // An override that none of the rules matches would have no effect.
  live::OverrideProblem check_match(std::span<const std::string> values,
                                    const live::NamedRule& named) const {
    std::string why;
    const auto rules = rules_of_.find(named.id);
    if (rules == rules_of_.end()) return {};
    for (const policy::Rule* const rule : rules->second) {
      why = policy::why_unmatched(values, *rule);
      if (why.empty()) return {};
    }
    return {422, "actor", std::move(why)};
  }

 private:
  // The name of the actor whose counter of the rule is called so, wholly or without its space;
  // empty: it is none.
  std::string actor_of_counter(const policy::Rule& rule, const policy::Dialect& dialect,
                               std::string_view written) const {
    if (rule.space == nullptr) return {};
    const auto& [prefix, suffix] = std::tie(rule.space->prefix, rule.space->suffix);
    const bool is_whole = !prefix.empty() && written.size() > prefix.size() + suffix.size() &&
                          written.starts_with(prefix) && written.ends_with(suffix);
    std::string_view key = written;
    if (is_whole) key = key.substr(prefix.size(), key.size() - prefix.size() - suffix.size());
    const policy::OwnRules* const names = rules_.own_rules(&dialect);
    if (names == nullptr) return is_whole ? policy::actor_name(key, rule.actor) : std::string();
    base::Arena texts;
    const auto number = static_cast<uint32_t>(&rule - rules_.rules(&dialect).data());
    const auto actor = names->actor_in(number, key, texts);
    return actor ? policy::actor_name(*actor, rule.actor) : std::string();
  }

  std::vector<std::shared_ptr<const live::NamedRule>> candidates(const std::string& dialect,
                                                                 const std::string& name) {
    std::vector<std::shared_ptr<const live::NamedRule>> by_name, otherwise;
    live::each_rule(rules_, [&](const policy::Rule& rule, const policy::Dialect& its) {
      if (!dialect.empty() && its.name != dialect) return;
      const bool fits = its.rule_name(rule) == name;
      const bool also = its.is_also_called != nullptr && its.is_also_called(rule, name);
      if (!fits && !also) return;
      rules_of_[rule.id].push_back(&rule);
      auto& list = fits ? by_name : otherwise;
      if (std::any_of(list.begin(), list.end(),
                      [&](const auto& one) { return one->id == rule.id; }))
        return;  // rules that share their counters have one name
      auto one = std::make_shared<live::NamedRule>();
      one->dialect = its.name;
      one->rules_of = &its;
      one->name = its.rule_name(rule);
      one->actor = rule.actor;
      if (its.override_space != nullptr) one->prefix = rule.space->prefix;
      one->id = rule.id;
      one->usual = usual_of(rule, its);
      if (its.merges_overrides) one->limits = rule.limits;
      list.push_back(std::move(one));
    });
    return by_name.empty() ? otherwise : by_name;
  }

  const policy::RuleSet& rules_;
  // By their ids; of those that were asked for.
  std::unordered_map<uint64_t, std::vector<const policy::Rule*>> rules_of_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const live::NamedRule>> known_;
};

live::OverrideProblem read_one(const Json& body, Resolver& resolver,
                               live::OverrideRegistry& registry, live::OverrideRequest& asked) {
  static constexpr std::array<std::string_view, 10> keys = {
      "dialect",   "rule", "actor", "limit",      "limits",
      "unlimited", "deny", "until", "all_limits", "comment"};
  if (!body.is_object()) return {422, "", "must be an object"};
  for (const auto& [key, value] : body.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string_view near = base::nearest_word(key, {keys.begin(), keys.end()});
    return {422, key,
            "is not a field of an override" +
                (near.empty() ? std::string() : "; did you mean `" + std::string(near) + "`?")};
  }
  std::vector<std::string> values;
  live::StoredOverride& one = asked.one;
  if (auto problem = resolver.find(body, one.rule)) return problem;
  if (auto problem = live::read_actor(body, one.rule->actor, values)) return problem;
  if (auto problem = resolver.check_counter(body, *one.rule)) return problem;
  if (auto problem = resolver.check_match(values, *one.rule)) return problem;
  if (auto problem = live::read_limits(body, *one.rule, asked.limits, one.persisted_own))
    return problem;
  if (auto problem = live::read_until(body, registry.now(), one.until)) return problem;
  if (auto problem = live::read_comment(body, one.comment)) return problem;
  one.actor = policy::key_text(values);
  return {};
}

HttpResponse post(const HttpRequest& request, live::OverrideRegistry& registry,
                  const live::Live& live, const std::string& by) {
  const Json body = Json::parse(request.body, nullptr, false);
  if (body.is_discarded())
    return problem_response(400, "the body is not JSON; send an override, or a list of them");
  const bool many = body.is_array();
  if (many && (body.empty() || body.size() > base::bounds::overrides_per_request_max))
    return problem_response(422, "a list must have 1 to " +
                                     std::to_string(base::bounds::overrides_per_request_max) +
                                     " overrides");
  const auto policy = live.shown();
  Resolver resolver(*policy->rules);
  std::vector<live::OverrideRequest> all(many ? body.size() : 1);
  for (size_t i = 0; i < all.size(); ++i) {
    auto problem = read_one(many ? body[i] : body, resolver, registry, all[i]);
    if (!problem) continue;
    if (many) {
      const std::string place = "[" + std::to_string(i) + "]";
      problem.field = problem.field.empty() ? place : place + "." + problem.field;
    }
    return refusal(std::move(problem));
  }
  std::vector<bool> fresh;
  if (auto problem = registry.set(all, fresh, by)) return refusal(std::move(problem));
  const bool any_fresh = std::find(fresh.begin(), fresh.end(), true) != fresh.end();
  Json answer = Json::object();
  if (many) {
    answer["overrides"] = Json::array();
    for (const live::OverrideRequest& asked : all)
      answer["overrides"].push_back(shown(asked.one, registry));
  } else {
    answer = shown(all.front().one, registry);
  }
  answer["kept"] = registry.is_persisted();
  return json_response(any_fresh ? 201 : 200, answer);
}

HttpResponse list(const HttpRequest& request, const live::OverrideRegistry& registry) {
  const auto wanted = [&](const char* key) { return wire::query_value(request.query, key); };
  const auto limit_text = wanted("limit"), after_text = wanted("after");
  const auto max = limit_text ? base::parse_count(*limit_text) : overrides_page_default;
  if (!max || *max < 1 || *max > base::bounds::admin_page_max)
    return problem_response(400,
                            "`limit` must be 1 to " + std::to_string(base::bounds::admin_page_max));
  const auto after = after_text ? live::parse_id(*after_text) : uint64_t{0};
  if (!after) return problem_response(400, "`after` must be the `next` of the page before");
  const auto dialect = wanted("dialect"), rule = wanted("rule"), actor = wanted("actor");
  // What the name that is asked for means for each rule; empty: it does not fit the rule's keys.
  std::unordered_map<const live::NamedRule*, std::optional<std::string>> actors;
  const auto actor_of = [&](const live::NamedRule& its) {
    const auto [at, is_new] = actors.try_emplace(&its);
    if (!is_new) return at->second;
    if (const auto values = policy::read_actor_name(*actor, its.actor))
      at->second = policy::key_text(*values);
    return at->second;
  };
  std::function<bool(const live::StoredOverride&)> filter;
  if (dialect || rule || actor)
    filter = [&](const live::StoredOverride& one) {
      return (!dialect || one.rule->dialect == *dialect) && (!rule || one.rule->name == *rule) &&
             (!actor || one.actor == *actor || one.actor == actor_of(*one.rule));
    };
  const auto page = registry.list(*after, *max, filter);
  Items items;
  for (const live::StoredOverride& one : page.items)
    if (!items.add(shown(one, registry))) break;
  const size_t listed = items.size();
  Json json{{"total", page.total}, {"kept", registry.is_persisted()}, {"overrides", items.take()}};
  if (page.more || listed < page.items.size())
    json["next"] = live::id_text(page.items[listed - 1].id());
  return json_response(200, json);
}

HttpResponse get(const std::string& name, const live::OverrideRegistry& registry) {
  const auto id = live::parse_id(name);
  const auto one = id ? registry.find(*id) : std::nullopt;
  if (!one) return problem_response(404, "no override has that id");
  return json_response(200, shown(*one, registry));
}

HttpResponse erase(const std::string& name, live::OverrideRegistry& registry,
                   const std::string& by) {
  const auto id = live::parse_id(name);
  if (!id) return problem_response(404, "no override has that id");
  live::StoredOverride was;
  if (auto problem = registry.remove(*id, was, by)) return refusal(std::move(problem));
  return json_response(200, shown(was, registry));
}

}  // namespace

void add_overrides(Admin& admin, live::OverrideRegistry& registry, const live::Live& live) {
  using Call = Admin::Call;
  admin.add({.method = "GET", .path = "/v1/overrides", .slow = true, .handler = [&](const Call& c) {
               return list(c.request, registry);
             }});
  admin.add(
      {.method = "POST", .path = "/v1/overrides", .slow = true, .handler = [&](const Call& c) {
         return post(c.request, registry, live, c.by);
       }});
  admin.add(
      {.method = "GET", .path = "/v1/overrides/{id}", .slow = true, .handler = [&](const Call& c) {
         return get(c.parameters[0], registry);
       }});
  admin.add({.method = "DELETE",
             .path = "/v1/overrides/{id}",
             .slow = true,
             .handler = [&](const Call& c) { return erase(c.parameters[0], registry, c.by); }});
}

}  // namespace sluice::admin
