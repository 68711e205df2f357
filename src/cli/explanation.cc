#include "cli/explanation.h"

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"

namespace sluice::cli {
namespace {

using base::printable;
using limit::Algorithm;
using policy::RuleExplanation;

std::string in_ticks(std::string_view text) {
  return "`" + printable(text) + "`";
}

std::string words_for(const limit::Limit& limit) {
  if (limit.algorithm == Algorithm::unlimited) return "always allowed";
  if (limit.algorithm == Algorithm::deny) return "always denied";
  if (limit.algorithm == Algorithm::fixed_bucket)
    return std::to_string(limit.quota) + " at a time, fixed_bucket";
  std::string text = std::to_string(limit.quota) + " per " + format_duration(limit.window);
  if (limit.algorithm == Algorithm::fixed_window) return text;
  text += ", " + std::string(limit::name_of(limit.algorithm));
  if (limit.burst > 0) text += ", burst " + std::to_string(limit.burst);
  return text;
}

std::string words_for_actor(const RuleExplanation& e) {
  if (e.rule->actor.empty()) return "one counter for all";
  std::string text = "by ";
  for (size_t i = 0; i < e.rule->actor.size(); ++i) {
    text += (i == 0 ? "" : ", then ") + in_ticks(e.rule->actor[i]);
    text += e.actor_values[i] ? ", here " + in_ticks(*e.actor_values[i])
                              : ", which the request lacks: the counter of the empty one";
  }
  const bool is_value = e.actor_values.size() == 1 && e.actor_values[0].value_or("") == e.actor;
  return is_value || e.actor.empty() ? text : text + "; its name is " + in_ticks(e.actor);
}

std::string words_for(const policy::Mismatch& mismatch) {
  const std::string& key = mismatch.condition->key;
  const std::string wanted = in_ticks(mismatch.condition->pattern.text());
  if (!mismatch.value)
    return "the request has no " + in_ticks(key) + ", and the rule wants " + wanted;
  return in_ticks(key) + " is " + in_ticks(*mismatch.value) + ", and the rule wants " + wanted;
}

void append_applied(std::string& out, const RuleExplanation& e, bool coloured) {
  if (e.ends)
    out += config::paint("applies and decides", config::green, coloured);
  else if (e.has_say)
    out += config::paint("applies", config::green, coloured) + ": it and later rules must allow";
  else
    out += config::paint("applies in shadow", config::yellow, coloured) +
           ": it is charged, and the search goes on";
  for (size_t i = 0; i < e.rule->limits.size(); ++i) {
    out += "\n      limit: " + words_for(e.rule->limits[i]);
    if (limit::has(e.rule->counts, i)) out += ", counts what it refuses";
  }
  out += "\n";
  if (e.counter.empty()) return;
  out += "      actor: " + words_for_actor(e) + "\n";
  out += "      counter: " + printable(e.counter) + "\n";
}

void append(std::string& out, const RuleExplanation& e, bool coloured) {
  const policy::Rule& rule = *e.rule;
  out += rule.file + ":" + std::to_string(rule.line) + ": " +
         config::paint("[" + printable(rule.pattern) + "]", 0, coloured);
  if (!rule.name.empty()) out += " " + printable(rule.name);
  if (!rule.comment.empty()) out += " (" + printable(rule.comment) + ")";
  out += "\n    ";
  if (e.off) {
    out += "is switched off\n";
  } else if (e.over) {
    out += "does not apply: its time is over\n";
  } else if (!e.error.empty()) {
    out += config::paint("cannot be evaluated", config::red, coloured) +
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
  json["applies"] = e.applies();
  json["decides"] = e.ends;
  json["mode"] = rule.mode == policy::Mode::shadow ? "shadow" : e.off ? "off" : "enforce";
  json["then"] = rule.then == policy::Then::stop ? "stop" : "continue";
  if (!e.error.empty()) {
    json["error"] = e.error;
  } else if (e.mismatch) {
    json["mismatch"] = {{"key", e.mismatch->condition->key},
                        {"wants", e.mismatch->condition->pattern.text()}};
    json["mismatch"]["has"] = nullptr;
    if (e.mismatch->value) json["mismatch"]["has"] = *e.mismatch->value;
  } else {
    json["limits"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < rule.limits.size(); ++i) {
      const limit::Limit& limit = rule.limits[i];
      json["limits"].push_back({{"algorithm", limit::name_of(limit.algorithm)},
                                {"quota", limit.quota},
                                {"window_us", limit.window.us},
                                {"burst", limit.burst}});
      if (limit::has(rule.counts, i)) json["limits"].back()["over"] = "count";
    }
    json["actor"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < rule.actor.size(); ++i) {
      json["actor"].push_back({{"key", rule.actor[i]}, {"value", nullptr}});
      if (e.actor_values[i]) json["actor"].back()["value"] = *e.actor_values[i];
    }
    if (!e.actor.empty()) json["actor_name"] = e.actor;
    json["counter"] = nullptr;
    if (!e.counter.empty()) json["counter"] = e.counter;
  }
  return json;
}

bool decided(const policy::Explanation& explanation) {
  if (explanation.reached.empty() || !explanation.reached.back().error.empty()) return false;
  return std::any_of(explanation.reached.begin(), explanation.reached.end(),
                     [](const RuleExplanation& e) { return e.has_say; });
}

}  // namespace

std::string to_text(const policy::Explanation& explanation, std::string_view unmatched,
                    const Pairs& request, bool coloured) {
  std::string out = "request:";
  for (const auto& [key, value] : request) out += " " + printable(key) + "=" + printable(value);
  out += "\n\n";
  for (const RuleExplanation& e : explanation.reached) append(out, e, coloured);
  if (!decided(explanation) &&
      (explanation.reached.empty() || explanation.reached.back().error.empty()))
    out += config::paint("No rule decides it.", config::red, coloured) +
           (unmatched.empty() ? "" : " ") + std::string(unmatched) + "\n";
  if (!explanation.note.empty()) out += printable(explanation.note) + "\n";
  if (explanation.unreached > 0)
    out += base::counted(explanation.unreached, "rule") + " behind it " +
           (explanation.unreached == 1 ? "is" : "are") + " not reached.\n";
  return out;
}

nlohmann::ordered_json to_json(const policy::Explanation& explanation, const Pairs& request) {
  nlohmann::ordered_json json;
  json["request"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : request) json["request"][key] = value;
  json["rules"] = nlohmann::ordered_json::array();
  json["decided"] = decided(explanation);
  for (const RuleExplanation& e : explanation.reached) json["rules"].push_back(json_of(e));
  json["unreached"] = explanation.unreached;
  if (!explanation.note.empty()) json["note"] = explanation.note;
  return json;
}

}  // namespace sluice::cli
