#include "cli/explanation.h"

#include "base/printable.h"
#include "cli/units.h"

namespace sluice::cli {
namespace {

using base::printable;
using limit::Algorithm;

std::string in_ticks(std::string_view text) {
  return "`" + printable(text) + "`";
}

std::string words_for(const limit::Limit& limit) {
  switch (limit.algorithm) {
    case Algorithm::unlimited:
      return "always allowed";
    case Algorithm::deny:
      return "always denied";
    case Algorithm::fixed_window:
      break;
  }
  return std::to_string(limit.quota) + " per " + format_duration(limit.window);
}

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::unlimited:
      return "unlimited";
    case Algorithm::deny:
      return "deny";
    case Algorithm::fixed_window:
      break;
  }
  return "fixed_window";
}

std::string words_for_actor(const RuleExplanation& e) {
  if (e.rule->actor.empty()) return "one counter for all";
  if (!e.actor_value)
    return "by " + in_ticks(e.rule->actor) +
           ", which the request lacks: the counter of the empty one";
  return "by " + in_ticks(e.rule->actor) + ", here " + in_ticks(*e.actor_value);
}

std::string words_for(const policy::Mismatch& mismatch) {
  const std::string& key = mismatch.condition->key;
  const std::string wanted = in_ticks(mismatch.condition->pattern.text());
  if (!mismatch.value)
    return "the request has no " + in_ticks(key) + ", and the rule wants " + wanted;
  return in_ticks(key) + " is " + in_ticks(*mismatch.value) + ", and the rule wants " + wanted;
}

void append_applied(std::string& out, const RuleExplanation& e, bool coloured) {
  out += e.decides ? paint("applies and decides", green, coloured)
                   : paint("applies in shadow", yellow, coloured) +
                         ": it is charged, and the search goes on";
  out += "\n      limit: " + words_for(e.rule->limit) + "\n";
  if (e.counter.empty()) return;
  out += "      actor: " + words_for_actor(e) + "\n";
  out += "      counter: " + printable(e.counter) + "\n";
}

void append(std::string& out, const RuleExplanation& e, bool coloured) {
  const policy::Rule& rule = *e.rule;
  out += rule.file + ":" + std::to_string(rule.line) + ": " +
         paint("[" + printable(rule.pattern) + "]", 0, coloured);
  if (!rule.name.empty()) out += " " + printable(rule.name);
  if (!rule.comment.empty()) out += " (" + printable(rule.comment) + ")";
  out += "\n    ";
  if (!e.error.empty()) {
    out += paint("cannot be evaluated", red, coloured) +
           ", so the request fails: " + printable(e.error) + "\n";
  } else if (e.mismatch) {
    out += "does not apply: " + words_for(*e.mismatch) + "\n";
  } else {
    append_applied(out, e, coloured);
  }
}

nlohmann::ordered_json json_of(const RuleExplanation& e) {
  const policy::Rule& rule = *e.rule;
  nlohmann::ordered_json json{
      {"file", rule.file}, {"line", rule.line}, {"pattern", rule.pattern}, {"name", rule.name}};
  json["applies"] = e.error.empty() && !e.mismatch;
  json["decides"] = e.decides;
  if (!e.error.empty()) {
    json["error"] = e.error;
  } else if (e.mismatch) {
    json["mismatch"] = {{"key", e.mismatch->condition->key},
                        {"wants", e.mismatch->condition->pattern.text()}};
    json["mismatch"]["has"] = nullptr;
    if (e.mismatch->value) json["mismatch"]["has"] = *e.mismatch->value;
  } else {
    json["mode"] = rule.mode == policy::Mode::shadow ? "shadow" : "enforce";
    json["limit"] = {{"algorithm", name_of(rule.limit.algorithm)},
                     {"quota", rule.limit.quota},
                     {"window_us", rule.limit.window.us}};
    json["actor"] = nullptr;
    if (!rule.actor.empty()) {
      json["actor"] = {{"key", rule.actor}, {"value", nullptr}};
      if (e.actor_value) json["actor"]["value"] = *e.actor_value;
    }
    json["counter"] = nullptr;
    if (!e.counter.empty()) json["counter"] = e.counter;
  }
  return json;
}

}  // namespace

Explanation explain(const policy::RuleSet& rules, const Pairs& request) {
  std::vector<limit::Entry> descriptor;
  for (const auto& [key, value] : request) descriptor.push_back({key, value});
  // What is charged is read from the plan that a server would settle, so that both agree.
  policy::Plan plan;
  rules.match(policy::Dialect::divvy, descriptor, 1, plan);
  const auto charges = plan.batch().charges;
  const auto steps = plan.steps(plan.parts().front());
  size_t step = 0;

  Explanation explanation;
  const auto all = rules.rules(policy::Dialect::divvy);
  for (const policy::Rule& rule : all) {
    RuleExplanation& e = explanation.reached.emplace_back();
    e.rule = &rule;
    e.mismatch = policy::mismatch(rule, descriptor, e.error);
    if (!e.error.empty()) break;
    if (e.mismatch) continue;
    for (const auto& [key, value] : request)
      if (key == rule.actor && !rule.actor.empty()) e.actor_value = value;
    if (step < steps.size() && steps[step].rule == &rule) {
      const limit::Group& group = plan.group(steps[step++]);
      if (group.charge_count > 0 && rule.space != nullptr &&
          limit::has_counter(rule.limit.algorithm))
        e.counter =
            rule.space->prefix + std::string(charges[group.charge_first].key) + rule.space->suffix;
    }
    e.decides = rule.mode == policy::Mode::enforce;
    if (e.decides) break;
  }
  explanation.unreached = all.size() - explanation.reached.size();
  return explanation;
}

std::string to_text(const Explanation& explanation, const Pairs& request, bool coloured) {
  std::string out = "request:";
  for (const auto& [key, value] : request) out += " " + printable(key) + "=" + printable(value);
  out += "\n\n";
  for (const RuleExplanation& e : explanation.reached) append(out, e, coloured);
  if (explanation.reached.empty() ||
      (!explanation.reached.back().decides && explanation.reached.back().error.empty()))
    out += paint("No rule decides it.", red, coloured) +
           " Divvy's protocol answers `OK false 0 -1`.\n";
  if (explanation.unreached > 0)
    out += counted(explanation.unreached, "rule") + " behind it " +
           (explanation.unreached == 1 ? "is" : "are") + " not reached.\n";
  return out;
}

nlohmann::ordered_json to_json(const Explanation& explanation, const Pairs& request) {
  nlohmann::ordered_json json;
  json["request"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : request) json["request"][key] = value;
  json["rules"] = nlohmann::ordered_json::array();
  json["decided"] = !explanation.reached.empty() && explanation.reached.back().decides;
  for (const RuleExplanation& e : explanation.reached) json["rules"].push_back(json_of(e));
  json["unreached"] = explanation.unreached;
  return json;
}

}  // namespace sluice::cli
