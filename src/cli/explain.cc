#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/units.h"
#include "cli/admin_port.h"
#include "cli/admin_words.h"
#include "cli/arguments.h"
#include "cli/definitions.h"
#include "cli/inspect.h"
#include "cli/moment.h"
#include "config/screen_text.h"
#include "config/settings.h"
#include "limit/aligned_window.h"
#include "limit/limit.h"
#include "limit/shown.h"
#include "live/window_json.h"
#include "policy/explanation.h"
#include "protocol/protocol.h"

namespace sluice::cli {

// The explanation of one request, as a text for people and as JSON. Pure functions.

// When it is asked. `told`: --at says so; then all windows of the clock are told, else those of the
// calendar alone.
struct Moment {
  base::Time time;
  bool told = false;
};

// `unmatched`: the answer to a request to which no rule applies, as in policy::Dialect.
std::string to_text(const policy::Explanation& explanation, std::string_view unmatched,
                    const Pairs& request, Moment at, bool coloured);
nlohmann::ordered_json to_json(const policy::Explanation& explanation, const Pairs& request,
                               Moment at);

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
  if (limit.algorithm == Algorithm::concurrency) return limit::places_text(limit);
  std::string text = std::to_string(limit.quota) + " per " + limit::window_text(limit);
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

void append_applied(std::string& out, const RuleExplanation& e, Moment at, bool coloured) {
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
    if (const auto n = e.rule->overdraft_of(i)) out += ", owes at most " + std::to_string(*n);
    if (const auto unit = e.rule->unit_of(i); !unit.empty()) out += ", in " + std::string(unit);
    const limit::Limit& limit = e.rule->limits[i];
    if (limit.algorithm != Algorithm::aligned_window || (!limit.calendar && !at.told)) continue;
    const auto window = limit::aligned_window::window_of(limit, at.time);
    out += "\n        window: from " + base::format_rfc3339({window.start_us}) + " to " +
           base::format_rfc3339({window.end_us}) + ", " +
           base::format_duration({window.end_us - window.start_us});
  }
  out += "\n";
  if (e.counter.empty()) return;
  out += "      actor: " + words_for_actor(e) + "\n";
  out += "      counter: " + printable(e.counter) + "\n";
  if (!e.rule->fair_by.empty())
    out += "      waiting: in turn by " + in_ticks(e.rule->fair_by) + "\n";
}

void append(std::string& out, const RuleExplanation& e, Moment at, bool coloured) {
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
    append_applied(out, e, at, coloured);
  }
}

nlohmann::ordered_json json_of(const RuleExplanation& e, Moment at) {
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
      json["limits"].push_back(
          {{"algorithm", limit::name_of(limit.algorithm)}, {"quota", limit.quota}});
      live::put_lengths_us(json["limits"].back(), limit::shown(limit, at.time));
      live::put_calendar(json["limits"].back(), limit);
      live::put_window(json["limits"].back(), limit, at.time, at.told);
      if (limit::has(rule.counts, i)) json["limits"].back()["over"] = "count";
      if (const auto n = rule.overdraft_of(i)) json["limits"].back()["overdraft"] = *n;
      if (const auto unit = rule.unit_of(i); !unit.empty()) json["limits"].back()["unit"] = unit;
    }
    json["actor"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < rule.actor.size(); ++i) {
      json["actor"].push_back({{"key", rule.actor[i]}, {"value", nullptr}});
      if (e.actor_values[i]) json["actor"].back()["value"] = *e.actor_values[i];
    }
    if (!e.actor.empty()) json["actor_name"] = e.actor;
    json["counter"] = nullptr;
    if (!e.counter.empty()) json["counter"] = e.counter;
    if (!rule.fair_by.empty()) json["fair_by"] = rule.fair_by;
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
                    const Pairs& request, Moment at, bool coloured) {
  std::string out = "request:";
  for (const auto& [key, value] : request) out += " " + printable(key) + "=" + printable(value);
  out += "\n\n";
  for (const RuleExplanation& e : explanation.reached) append(out, e, at, coloured);
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

nlohmann::ordered_json to_json(const policy::Explanation& explanation, const Pairs& request,
                               Moment at) {
  nlohmann::ordered_json json;
  json["request"] = nlohmann::ordered_json::object();
  for (const auto& [key, value] : request) json["request"][key] = value;
  json["rules"] = nlohmann::ordered_json::array();
  json["decided"] = decided(explanation);
  for (const RuleExplanation& e : explanation.reached) json["rules"].push_back(json_of(e, at));
  json["unreached"] = explanation.unreached;
  if (!explanation.note.empty()) json["note"] = explanation.note;
  return json;
}

// `sluice explain` for a running server: with its rules, overrides and counters, instead of a
// file's rules.

// The words key=value of the arguments are the request; `protocol` is its protocol, if one is
// named. Returns the exit status.
int explain_live(const AdminFlags& flags, std::optional<protocol::Protocol> protocol,
                 const Arguments& arguments, config::CommandIo& io);

namespace {

std::string shown(const Json& json, const char* key) {
  return config::on_screen(text_field(json, key));
}

std::string place_words(const Json& rule) {
  const std::string file = shown(rule, "file");
  return file.empty() ? "" : " " + file + ":" + std::to_string(integer_field(rule, "line"));
}

std::string mismatch_words(const Json& mismatch) {
  const std::string key = shown(mismatch, "key");
  const Json& value = field(mismatch, "value");
  return key + "=" + shown(mismatch, "pattern") + " does not fit: " +
         (value.is_string() ? "it is " + config::on_screen(value.get<std::string>())
                            : "the request has no " + key);
}

std::string rule_line(const Json& rule) {
  std::string text = "rule " + shown(rule, "rule") + " (" + shown(rule, "dialect") + ")" +
                     place_words(rule) + ": ";
  const std::string mode = shown(rule, "mode");
  if (mode != "enforce") text += mode + ", ";
  if (const std::string error = shown(rule, "error"); !error.empty()) return text + error;
  if (true_field(rule, "over")) return text + "has ended";
  if (!true_field(rule, "applies"))
    return text + (field(rule, "mismatch").is_object() ? mismatch_words(field(rule, "mismatch"))
                                                       : "does not apply");
  text += true_field(rule, "has_say") ? "applies and decides" : "applies";
  for (const Json& one : list_field(rule, "decisions"))
    text += "; " + std::string(true_field(one, "allowed") ? "allows" : "denies") + ": " +
            level_words(one);
  if (const std::string id = shown(rule, "override"); !id.empty()) text += " (override " + id + ")";
  if (const std::string counter = shown(rule, "counter"); !counter.empty())
    text += "\n  counter " + counter;
  if (const Json& holds = field(rule, "holds"); holds.is_object()) {
    const int64_t count = integer_field(holds, "count");
    text += "\n  held by " + std::to_string(count) + (count == 1 ? " hold" : " holds") +
            (count == 1 ? ", which ends in " : ", which end in ") +
            seconds_words(field(holds, "first_expires_in")) +
            (count == 1 ? "" : " to " + seconds_words(field(holds, "last_expires_in")));
  }
  if (const std::string key = shown(rule, "fair_by"); !key.empty())
    text += "\n  waiting: in turn by " + key;
  for (const Json& one : list_field(rule, "began_fresh"))
    if (one.is_string())
      text += "\n  by the last reload, " + config::on_screen(one.get<std::string>());
  if (const std::string actor = shown(rule, "actor"); !actor.empty()) text += "\n  actor " + actor;
  return text;
}

// `protocol`: null: none was named.
std::string verdict_line(const Json& verdict, const protocol::Description* protocol) {
  if (const std::string error = text_field(verdict, "error"); !error.empty())
    return "It would fail: " + error;
  if (!true_field(verdict, "matched"))
    return protocol == nullptr
               ? "No rule decides it; what is answered depends on the protocol (--protocol names "
                 "one) and on `unmatched`."
               : "No rule decides it." +
                     (protocol->dialect == nullptr || protocol->dialect->unmatched.empty()
                          ? std::string()
                          : " " + std::string(protocol->dialect->unmatched)) +
                     " (A listener's `unmatched` goes before that.)";
  if (true_field(verdict, "allowed"))
    return "It would be allowed: " + std::to_string(integer_field(verdict, "remaining")) +
           " left behind it.";
  const Json& wait = field(verdict, "retry_after");
  return "It would be denied" + (wait.is_null()
                                     ? std::string(", and waiting does not help.")
                                     : "; it could be allowed in " + seconds_words(wait) + ".");
}

}  // namespace

int explain_live(const AdminFlags& flags, std::optional<protocol::Protocol> protocol,
                 const Arguments& arguments, config::CommandIo& io) {
  const auto pairs = pairs_of(arguments.positional());
  if (!pairs) return arguments.misused(pairs.problem().text, io);
  const protocol::Description* const named = protocol ? &describe(*protocol) : nullptr;
  const std::string_view name = named != nullptr ? named->name : protocol::all().front()->name;
  Json body{{"protocol", name}, {"descriptor", Json::array()}};
  for (const auto& [key, value] : *pairs)
    body["descriptor"].push_back({{"key", key}, {"value", value}});
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->ask("POST", "/v1/explain", body);
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  for (const Json& rule : list_field(reply.json, "rules")) io.out << rule_line(rule) << '\n';
  if (const int64_t behind = integer_field(reply.json, "unreached"); behind > 0)
    io.out << base::counted(static_cast<uint64_t>(behind), "rule") << " behind "
           << (behind == 1 ? "is" : "are") << " not reached.\n";
  io.out << config::on_screen(verdict_line(field(reply.json, "verdict"), named)) << std::endl;
  return config::exit_ok;
}

namespace {

constexpr const char* about_explain =
    "Says, rule by rule in their order, whether a rule of a policy applies to a\n"
    "request and why not, which one decides, and which counter would be charged.\n"
    "Nothing is charged. With --policy a file answers; with --live or --admin a running\n"
    "server, by its rules, overrides and counters as they are now.";

std::string footer_of_explain() {
  std::string examples;
  for (const protocol::Protocol protocol : config::with_policy_files()) {
    const protocol::PolicyFormat& format = *describe(protocol).policy;
    examples += "  sluice explain --policy " + std::string(format.file) + " " +
                std::string(format.request) + "\n";
  }
  return "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
         "\n"
         "Example:\n" +
         examples +
         "\n"
         "  sluice explain --admin 127.0.0.1:8380 " +
         std::string(describe(config::with_policy_files().front()).policy->request) + "\n";
}

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names;
  for (const protocol::Description* one : protocol::all()) names.push_back(one->name);
  return names;
}

std::string protocol_help() {
  std::string text = "Whose request it is: " + config::one_of(protocol_names());
  const auto all = config::with_policy_files();
  text += "; default " + std::string(describe(all.front()).name);
  for (size_t i = 1; i < all.size(); ++i)
    text += ", " + std::string(describe(all[i]).name) + " where the policy has " +
            std::string(describe(all[i]).policy->rules) + " alone";
  return wrapped(text);
}

// The protocol whose rules these are, if they are all of one protocol; otherwise the first
// protocol.
protocol::Protocol usual_protocol(const policy::RuleSet& rules) {
  const auto all = config::with_policy_files();
  std::vector<protocol::Protocol> with_rules;
  for (const protocol::Protocol protocol : all)
    if (!rules.rules(protocol::dialect_of(protocol)).empty()) with_rules.push_back(protocol);
  return with_rules.size() == 1 && rules.native_rules().empty() ? with_rules.front() : all.front();
}

// The answer to a request that no rule decides: that of the protocol's listeners, or of the
// protocol if the file has none of it. `unmatched`: the answers of the file's listeners. Where the
// protocol is a default that none of them serves, all are named.
std::string unmatched_words(protocol::Protocol protocol, bool was_named,
                            const Unmatched& unmatched) {
  const protocol::Description& its = describe(protocol);
  std::string answers, all;
  const auto append = [](std::string& words, const std::string& more) {
    words += (words.empty() ? "" : "; ") + more;
  };
  for (const auto& [served, answer] : unmatched) {
    append(all, served + ": " + answer);
    if (served == its.name) append(answers, answer);
  }
  if (!answers.empty()) return answers;
  if (!was_named && !all.empty()) return all;
  return its.dialect != nullptr ? std::string(its.dialect->unmatched) : std::string();
}

}  // namespace

int explain(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice explain --policy FILE|--admin ADDRESS [options] key=value...",
                      about_explain, footer_of_explain(),
                      {"explained", "the policy cannot be used"});
  std::optional<std::string> path, protocol_name;
  FileFlags flags;
  bool json = false;
  arguments.add_option("--policy", path, "The policy, or a sluice.yaml that names one", "FILE");
  add_file_flags(arguments, flags);
  arguments.add_option("--protocol", protocol_name, protocol_help(),
                       type_of_values(protocol_names()));
  AdminFlags admin;
  std::optional<std::string> at_text;
  arguments.add_option("--at", at_text,
                       "The time for which windows of the clock and of the calendar are told,\n"
                       "and rules that end: as 2026-12-01T08:30:00Z; default now. Not of a\n"
                       "running server",
                       "TIME");
  bool live = false;
  arguments.add_flag("--live", live,
                     "Ask a running server in place of --policy: its rules, overrides and\n"
                     "counters, of which nothing is taken");
  add_admin_flags(arguments, admin);
  if (const auto status = arguments.parse(words, io)) return *status;
  std::optional<config::FileKind> kind;
  if (flags.as && !(kind = config::kind_named(*flags.as)))
    return arguments.misused(unknown_kind(*flags.as), io);
  json = admin.json;
  live |= admin.admin.has_value();
  if (live && path)
    return arguments.misused("--policy FILE and a running server exclude each other", io);
  std::optional<protocol::Protocol> protocol;
  if (protocol_name && !(protocol = protocol::find(*protocol_name)))
    return arguments.misused(
        "--protocol must be " + protocol::joined_names(" or ") + ", not `" + *protocol_name + "`",
        io);
  Moment at{base::Clock().now()};
  if (at_text) {
    if (live)
      return arguments.misused("--at is of --policy: a running server tells its windows of now",
                               io);
    const auto moment = parse_moment(*at_text);
    if (!moment)
      return arguments.misused(
          "--at must be a time like 2026-12-01T08:30:00Z, not `" + *at_text + "`", io);
    at = {*moment, true};
  }
  if (live) return explain_live(admin, protocol, arguments, io);
  if (!path) return arguments.misused("--policy FILE, --admin ADDRESS or --live is required", io);
  const auto pairs = pairs_of(arguments.positional());
  if (!pairs) return arguments.misused(pairs.problem().text, io);

  request::Spaces spaces;
  base::Diagnostics diagnostics;
  Unmatched unmatched;
  const auto rules = inspect(*path, kind, flags, spaces, diagnostics, &unmatched);
  tell(diagnostics, io);
  if (!rules) return config::exit_failure;
  std::vector<request::Entry> descriptor;
  for (const auto& [key, value] : *pairs) descriptor.push_back({key, value});
  if (!protocol) protocol = usual_protocol(*rules);
  if (const policy::Dialect* const its = protocol::dialect_of(*protocol);
      its != nullptr && its->arrange != nullptr)
    its->arrange(descriptor);
  const auto explanation = policy::explain(*rules, protocol::dialect_of(*protocol),
                                           {.descriptor = descriptor, .now = at.time});
  io.out << (json ? to_text(to_json(explanation, *pairs, at))
                  : to_text(explanation,
                            unmatched_words(*protocol, protocol_name.has_value(), unmatched),
                            *pairs, at, io.out_colour))
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
