#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>

#include "base/rfc3339.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/admin_words.h"
#include "cli/definitions.h"
#include "cli/inspect.h"
#include "cli/moment.h"
#include "cli/terminal.h"
#include "config/screen_text.h"
#include "config/settings.h"
#include "limit/calendar.h"
#include "protocol/protocol.h"
#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr const char* about_override =
    "Gives one actor of a rule, or those that a pattern names, a limit of their own in a running "
    "server,\n"
    "for good or until a time; lists and removes such overrides. They are live at once.";

std::string footer_of_override() {
  return admin_footer(
      "What to do:\n"
      "  set       give an actor a limit; again for the same rule and actor: another one\n"
      "  list      those that there are, of a --rule, --dialect or --actor; none is not an error\n"
      "  show ID   one of them\n"
      "  remove ID..., or the one of a --rule and --actor\n"
      "Many at once: POST /v1/overrides of the admin port takes a list of them.\n"
      "\n"
      "Of a rule with several limits each limit that is set replaces the one of the same "
      "--window;\n"
      "the others stay the rule's. --all-limits replaces all of them, as --deny and --unlimited "
      "do.\n"
      "\n"
      "Examples:\n"
      "  sluice override set --rule user --actor alice --quota 100 --window 1h\n"
      "  sluice override set --rule api --actor tenant=acme --actor 'api=*' --quota 50 --window 1s "
      "--burst 100 --until 2030-12-01T00:00Z --comment 'ticket 4711'\n"
      "  sluice override set --rule 'method=GET path=/pantry/cookies ip=*' --actor 10.0.0.7 "
      "--quota 100 --window 1h --for 3d\n"
      "  sluice override set --rule user --actor mallory --deny --for 3d\n"
      "  sluice override set --rule user --actor bob --limit '{\"quota\":5,\"window\":\"1s\"}' "
      "--limit '{\"quota\":100,\"window\":\"1h\"}'\n"
      "  sluice override list --rule user\n"
      "  sluice override remove o-94be2314d8f67cef\n"
      "  sluice override remove --rule user --actor alice\n"
      "  sluice override list --json --limit 1000000",
      "done", "the server refuses it, or has no such override");
}

struct OverrideFlags {
  AdminFlags admin;
  std::optional<std::string> dialect, rule, quota, window, algorithm, burst, lease, max_lease,
      until, length, comment;
  // Beside a window of the calendar, in the order of calendar_flags.
  std::array<std::optional<std::string>, std::size(limit::calendar_keys)> calendar;
  std::vector<std::string> actors, limits;
  bool all_limits = false, deny = false, unlimited = false;
  std::string listed = "100";
};

// Of limit::calendar_keys, in their order.
struct CalendarFlag {
  const char *flag, *help, *type;
};

constexpr CalendarFlag calendar_flags[] = {
    {"--time-zone", "Of a window of the calendar: whose clock, as Europe/Berlin; default UTC",
     "ZONE"},
    {"--week-starts", "Of --window week: the day, as sunday; default monday", "DAY"},
    {"--month-day", "Of --window month: the day, 1 to 31; default 1", "N"},
    {"--year-day", "Of --window year: the day, as 04-06; default 01-01", "MM-DD"},
    {"--starts-at", "Of a window of the calendar: the time of day, as 06:00; default 00:00",
     "HH:MM"}};
static_assert(std::size(calendar_flags) == std::size(limit::calendar_keys));

// The names of dialects that the server accepts.
std::vector<std::string_view> dialect_names() {
  std::vector<std::string_view> names{"native"};
  for (const protocol::Description* protocol : protocol::all()) names.push_back(protocol->name);
  return names;
}

void add_flags(Arguments& arguments, OverrideFlags& asked) {
  arguments.add_option("--rule", asked.rule, "The rule, by its name, else its pattern", "RULE");
  arguments.add_option(
      "--dialect", asked.dialect,
      wrapped(config::one_of(dialect_names()) + ", where several have such a rule"),
      type_of_values(dialect_names()));
  arguments.add_option("--actor", asked.actors,
                       "Whose counter: the actor as `top` and `counters` show it, or KEY=VALUE\n"
                       "for each key that the rule counts by, repeatable; none where the rule has\n"
                       "one counter for all. In a value `*` stands for any characters, a network\n"
                       "is cidr(10.0.0.0/8), a list [alice, bob], a text as it stands exact(a*)",
                       "ACTOR");
  arguments.add_option("--quota", asked.quota, "Units allowed per window", "N");
  arguments.add_option("--window", asked.window,
                       "Length of time, as 1s, 5m, 1h, 30d, or hour, day, week, month or year of\n"
                       "the calendar",
                       "DURATION");
  for (size_t i = 0; i < std::size(calendar_flags); ++i)
    arguments.add_option(calendar_flags[i].flag, asked.calendar[i], calendar_flags[i].help,
                         calendar_flags[i].type);
  arguments.add_option("--burst", asked.burst, "The most units at one instant", "N");
  arguments.add_option("--algorithm", asked.algorithm,
                       "As in policies: token_bucket, fixed_window, aligned_window,\n"
                       "sliding_window, sliding_log, fixed_bucket or concurrency; default:\n"
                       "that of the limit that it replaces, token_bucket with --burst or where\n"
                       "that is not clear",
                       "token_bucket|fixed_window|aligned_window|sliding_window|sliding_log|"
                       "fixed_bucket|concurrency");
  arguments.add_option("--lease", asked.lease, "In place of --window: how long a place is held",
                       "DURATION");
  arguments.add_option("--max-lease", asked.max_lease,
                       "The longest lease that a holder may ask for; default --lease", "DURATION");
  arguments.add_option("--limit", asked.limits,
                       "In place of these: a limit as JSON, repeatable, as one group;\n"
                       "of `list`: how many at most, default " +
                           asked.listed,
                       "JSON|N");
  arguments.add_flag("--all-limits", asked.all_limits,
                     "Replace all limits of the rule, not only those of the same windows");
  arguments.add_flag("--deny", asked.deny, "In place of a limit: never");
  arguments.add_flag("--unlimited", asked.unlimited, "In place of a limit: always");
  arguments.add_option("--until", asked.until, "When it ends, as 2030-12-01T00:00Z; default never",
                       "TIME");
  arguments.add_option("--for", asked.length, "In place of --until: after so long, as 3d",
                       "DURATION");
  arguments.add_option("--comment", asked.comment, "Why it is there", "TEXT");
  add_admin_flags(arguments, asked.admin);
}

// Puts a count into the limit, as the server accepts it.
base::Done put_count(const std::optional<std::string>& text, const char* name, Json& limit) {
  if (!text) return {};
  const auto count = base::parse_count(*text);
  if (!count)
    return base::Problem{std::string("--") + name + " must be a number, not `" + *text + "`"};
  limit[name] = *count;
  return {};
}

// Puts the limits into the body; returns the problem with them, or "".
std::string put_limits(const OverrideFlags& asked, Json& body) {
  const bool numbers =
      asked.quota || asked.window || asked.burst || asked.algorithm || asked.lease ||
      asked.max_lease ||
      std::ranges::any_of(asked.calendar, [](const auto& one) { return one.has_value(); });
  const int ways = (numbers ? 1 : 0) + (asked.limits.empty() ? 0 : 1) + (asked.deny ? 1 : 0) +
                   (asked.unlimited ? 1 : 0);
  if (ways != 1)
    return "exactly one is required of --quota (with --window), --limit JSON, --deny and "
           "--unlimited";
  if (asked.deny || asked.unlimited) {
    if (asked.all_limits) return "--deny and --unlimited replace all limits without --all-limits";
    body[asked.deny ? "deny" : "unlimited"] = true;
    return "";
  }
  if (!numbers) {
    if (asked.all_limits) body["all_limits"] = true;
    body["limits"] = Json::array();
    for (const std::string& text : asked.limits) {
      Json limit = Json::parse(text, nullptr, false);
      if (!limit.is_object())
        return "--limit must be JSON, as '{\"quota\":5,\"window\":\"1s\"}', not `" + text + "`";
      body["limits"].push_back(std::move(limit));
    }
    return "";
  }
  if (!asked.quota) return "a limit needs its units: add `--quota N`";
  Json limit = Json::object();
  if (base::Done put = put_count(asked.quota, "quota", limit); !put)
    return std::move(put).problem().text;
  if (asked.window) limit["window"] = *asked.window;
  for (size_t i = 0; i < asked.calendar.size(); ++i)
    if (asked.calendar[i]) limit[std::string(limit::calendar_keys[i])] = *asked.calendar[i];
  if (asked.algorithm) limit["algorithm"] = *asked.algorithm;
  if (asked.lease) limit["lease"] = *asked.lease;
  if (asked.max_lease) limit["max_lease"] = *asked.max_lease;
  if (base::Done put = put_count(asked.burst, "burst", limit); !put)
    return std::move(put).problem().text;
  body["limit"] = std::move(limit);
  if (asked.all_limits) body["all_limits"] = true;
  return "";
}

// Puts the actor into the body. Whether the rule needs one is checked by the server.
std::string put_actor(const OverrideFlags& asked, Json& body) {
  if (asked.actors.empty()) return "";
  if (asked.actors.size() == 1) {  // the server knows whether it is KEY=VALUE
    body["actor"] = asked.actors.front();
    return "";
  }
  body["actor"] = Json::object();
  for (const std::string& actor : asked.actors) {
    const size_t cut = actor.find('=');
    if (cut == std::string::npos)
      return "of several --actor each must be KEY=VALUE, and `" + actor +
             "` has no `=`; several actors of one key are a list: `--actor '[alice, bob]'`";
    const std::string key = actor.substr(0, cut);
    if (body["actor"].contains(key)) return "--actor has `" + key + "` twice";
    body["actor"][key] = actor.substr(cut + 1);
  }
  return "";
}

std::string put_end(const OverrideFlags& asked, Json& body) {
  if (asked.until && asked.length) return "--until and --for exclude each other";
  if (asked.until) {
    const auto until = parse_moment(*asked.until);
    if (!until)
      return "--until must be a moment as 2030-12-01T00:00Z, not `" + *asked.until +
             "`; for a length of time write `--for 3d`";
    body["until"] = base::format_rfc3339(*until);
  }
  if (asked.length) {
    const auto length = base::parse_duration(*asked.length);
    constexpr int64_t length_max_us = int64_t{100} * 366 * 86'400 * 1'000'000;
    if (!length || length->us <= 0 || length->us > length_max_us)
      return "--for must be a length of time as 3d, not `" + *asked.length + "`";
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    // Rounded up to a full second, so that it does not end early.
    const int64_t end_us = now.count() + length->us + 999'999;
    body["until"] = base::format_rfc3339({end_us - end_us % 1'000'000});
  }
  return "";
}

void append_line(std::string& out, const char* title, const std::string& text) {
  if (!text.empty()) out += config::fitted(title, 10) + config::on_screen(text) + "\n";
}

// The text that says when the override ends or ended; "": it never ends.
std::string end_words(const Json& override_) {
  const std::string until = text_field(override_, "until");
  return true_field(override_, "ended") ? until + " (ended)" : until;
}

// The text that says which of the rule's limits it replaces; "": the answer does not say.
std::string replaced_words(const Json& override_) {
  if (!field(override_, "all_limits").is_boolean()) return "";
  if (true_field(override_, "all_limits")) return "all limits of the rule";
  std::string windows;
  bool others = false;
  for (const Json& limit : list_field(override_, "limits")) {
    if (true_field(limit, "of_rule")) {
      others = true;
      continue;
    }
    const std::string window = text_field(limit, "window");
    windows += (windows.empty() ? "" : " and ") + (window.empty() ? "at a time" : "per " + window);
  }
  return "the rule's limit " + windows + (others ? "; its others stay" : "");
}

// The text for the list's column. Only native rules have several limits.
std::string listed_limits(const Json& override_) {
  const Json& limits = list_field(override_, "limits");
  const std::string words = limits_words(limits);
  const bool bare = limits.size() == 1 && words.starts_with("always ");
  const bool all =
      true_field(override_, "all_limits") && !bare && text_field(override_, "dialect") == "native";
  return words + (all ? " (all limits)" : "");
}

std::string message_for(const Json& override_) {
  std::string out;
  append_line(out, "id", text_field(override_, "id"));
  append_line(out, "rule", text_field(override_, "rule"));
  append_line(out, "protocol", text_field(override_, "dialect"));
  append_line(out, "actor", actor_words(field(override_, "actor")));
  append_line(out, "limits", limits_words(list_field(override_, "limits")));
  append_line(out, "replaces", replaced_words(override_));
  const std::string until = end_words(override_);
  append_line(out, "until", until.empty() ? "it is removed" : until);
  append_line(out, "created", text_field(override_, "created"));
  append_line(out, "comment", text_field(override_, "comment"));
  if (!field(override_, "applies").is_null() && !true_field(override_, "applies"))
    append_line(out, "applies", "no: the live policy has no such rule");
  if (field(override_, "kept").is_boolean() && !true_field(override_, "kept"))
    append_line(out, "kept", "no: a restart of the server forgets it");
  return out;
}

int report_one(const AdminPort::Reply& reply, const OverrideFlags& asked, config::CommandIo& io) {
  if (const auto ended = end_without_words(reply, asked.admin.json, io)) return *ended;
  io.out << message_for(reply.json) << std::flush;
  return config::exit_ok;
}

int set(AdminPort& port, const OverrideFlags& asked, const Json& body, config::CommandIo& io) {
  auto reply = port.ask("POST", "/v1/overrides", body);
  // The server names the limit's keys; a user who gave options needs the option.
  if (!reply.is_done() && asked.quota && !asked.window &&
      reply.problem.find("window") != std::string::npos)
    reply.problem += " (here: `--window 1s`)";
  return report_one(reply, asked, io);
}

int list(AdminPort& port, const OverrideFlags& asked, size_t count, config::CommandIo& io) {
  std::string target = "/v1/overrides?", filter;
  const auto only = [&](const char* key, const std::string& value) {
    if (!target.ends_with('?')) target += '&';
    target += std::string(key) + '=' + wire::percent_encoded(value);
    filter += std::string(" --") + key + " '" + config::on_screen(value) + "'";
  };
  if (asked.rule) only("rule", *asked.rule);
  if (asked.dialect) only("dialect", *asked.dialect);
  if (!asked.actors.empty()) only("actor", asked.actors.front());
  Json all = Json::array();
  const auto last = read_pages(port, target, "overrides", count, all);
  if (!last.is_done()) return report_failure(last, asked.admin.json, io);
  const std::string next = text_field(last.json, "next");
  if (asked.admin.json) {
    Json json{{"total", field(last.json, "total")},
              {"kept", field(last.json, "kept")},
              {"overrides", all}};
    if (!next.empty()) json["next"] = next;
    io.out << to_text(json) << std::flush;
    return config::exit_ok;
  }
  if (all.empty()) {
    note(filter.empty() ? "there are no overrides" : "no override matches" + filter, io);
    return config::exit_ok;
  }
  Table table({{"ID"},
               {"RULE", false, true},
               {"ACTOR", false, true},
               {"LIMITS", false, true},
               {"UNTIL"},
               {"COMMENT", false, true}});
  for (const Json& one : all) {
    const bool applies = field(one, "applies").is_null() || true_field(one, "applies");
    table.add({text_field(one, "id"), text_field(one, "rule") + (applies ? "" : " (not live)"),
               actor_words(field(one, "actor")), listed_limits(one), end_words(one),
               text_field(one, "comment")});
  }
  io.out << table.text(io) << std::flush;
  if (!next.empty())
    note(
        std::to_string(integer_field(last.json, "total")) + " in all; --limit N lists more of them",
        io);
  return config::exit_ok;
}

std::string override_path(const std::string& id) {
  return "/v1/overrides/" + wire::percent_encoded(id);
}

// If the server refuses to remove one, perhaps because it does not exist, that is reported, and the
// others are removed nevertheless. If no server can be reached, the rest is not tried.
int remove(AdminPort& port, const OverrideFlags& asked, const Words& ids, config::CommandIo& io) {
  const bool json = asked.admin.json;
  Json removed = Json::array(), refused = Json::array();
  AdminPort::Reply first;  // the first refusal
  for (const std::string& id : ids) {
    auto reply = port.ask("DELETE", override_path(id), nullptr);
    if (reply.is_done()) {
      removed.push_back(id);
      if (!json) io.out << config::on_screen(id) << ": removed" << std::endl;
      continue;
    }
    reply.problem = id + ": " + reply.problem;
    if (reply.kind == AdminPort::Reply::Kind::unasked)
      return report_failure(reply, json, io, {{"removed", removed}, {"refused", refused}});
    if (!json) report_failure(reply, json, io);
    if (refused.empty()) first = std::move(reply);
    refused.push_back(id);
  }
  if (json && !refused.empty())
    return report_failure(first, json, io, {{"removed", removed}, {"refused", refused}});
  if (json) io.out << to_text({{"removed", removed}}) << std::flush;
  return refused.empty() ? config::exit_ok : config::exit_failure;
}

// Finds the override of that rule and actor, for `remove`; its id is put into `ids`. Otherwise:
// the failure, which was reported.
std::optional<int> find_one(AdminPort& port, const OverrideFlags& asked, Words& ids,
                            config::CommandIo& io) {
  std::string target = "/v1/overrides?rule=" + wire::percent_encoded(*asked.rule);
  if (asked.dialect) target += "&dialect=" + wire::percent_encoded(*asked.dialect);
  target += "&actor=" + wire::percent_encoded(asked.actors.front());
  Json found = Json::array();
  auto reply = read_pages(port, target, "overrides", 2, found);
  if (reply.is_done() && found.size() != 1) {
    reply.kind = AdminPort::Reply::Kind::refused;
    reply.status = 0;  // the server did not refuse
    reply.problem =
        found.empty()
            ? "no override has that rule and actor; `sluice override list` shows all overrides"
            : "several rules of that name have an override of that actor: add "
              "`--dialect`, or name the ID that `sluice override list` shows";
  }
  if (reply.is_done()) {
    ids.push_back(text_field(found.front(), "id"));
    return std::nullopt;
  }
  return report_failure(reply, asked.admin.json, io);
}

struct Action {
  const char* name;
  size_t words_min, words_max;
  const char* wants;
  std::string_view options;  // that the action has, besides those of every command
};
constexpr Action actions[] = {
    {"set", 0, 0, "wants no word behind it, only options",
     " --rule --dialect --actor --quota --window --burst --algorithm --lease --max-lease --limit "
     "--all-limits --deny "
     "--unlimited --until --for --comment --time-zone --week-starts --month-day --year-day "
     "--starts-at "},
    {"list", 0, 0, "wants no word behind it, only options", " --rule --dialect --actor --limit "},
    {"show", 1, 1, "wants one ID", ""},
    {"remove", 0, 1000, "wants one ID or more, or --rule and --actor",
     " --rule --dialect --actor "}};

// An option that was given although the action does not have it; "": none was.
std::string stray_option(const Arguments& arguments, const Action& action) {
  constexpr std::string_view known =
      " --help --admin --token-file --ca --cert --key --timeout --json ";
  for (const std::string& name : arguments.given()) {
    const std::string word = ' ' + name + ' ';
    if (known.find(word) == known.npos && action.options.find(word) == action.options.npos)
      return name;
  }
  return "";
}

// Makes the body of `set`; returns the problem with it, or "".
std::string put_body(const OverrideFlags& asked, Json& body) {
  if (!asked.rule) return "set needs the rule: add `--rule RULE`";
  // In JSON, bytes that are not UTF-8 would become another name of a rule or an actor.
  Words texts = asked.actors;
  texts.insert(texts.end(), {*asked.rule, asked.comment.value_or("")});
  for (const std::string& text : texts)
    if (!base::utf8::is_valid(text)) return "`" + config::on_screen(text) + "` is not UTF-8";
  if (asked.dialect) body["dialect"] = *asked.dialect;
  body["rule"] = *asked.rule;
  if (auto problem = put_actor(asked, body); !problem.empty()) return problem;
  if (auto problem = put_limits(asked, body); !problem.empty()) return problem;
  if (auto problem = put_end(asked, body); !problem.empty()) return problem;
  if (asked.comment) body["comment"] = *asked.comment;
  return "";
}

}  // namespace

int override_limits(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice override set|list|show|remove [options] [ID]", about_override,
                      footer_of_override());
  OverrideFlags asked;
  add_flags(arguments, asked);
  std::vector<std::string_view> names;
  for (const Action& a : actions) names.emplace_back(a.name);
  arguments.set_words(names);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  const Words& said = arguments.positional();
  if (said.empty())
    return arguments.misused("the first word must be set, list, show or remove", io);
  const std::string& name = said.front();
  if (name == "load")
    return arguments.misused(
        "there is no `override load`: send a list of overrides to the admin port, as `curl "
        "http://127.0.0.1:8380/v1/overrides --json @overrides.json` does; docs/tasks.md says what "
        "to make of `list --json`",
        io);
  const auto* const action = std::find_if(std::begin(actions), std::end(actions),
                                          [&](const Action& a) { return name == a.name; });
  if (action == std::end(actions))
    return arguments.misused("there is no `override " + name + "`" + did_you_mean(name, names), io);
  const size_t count = said.size() - 1;
  if (count < action->words_min || count > action->words_max)
    return arguments.misused(name + " " + action->wants, io);
  if (const auto stray = stray_option(arguments, *action); !stray.empty())
    return arguments.misused(name + " does not accept " + stray, io);
  if ((name == "list" || name == "remove") && asked.actors.size() > 1)
    return arguments.misused(name + " takes one --actor; join several values by `|`", io);
  const bool is_described = asked.rule || asked.dialect || !asked.actors.empty();
  if (name == "remove" && (count > 0 ? is_described : !asked.rule || asked.actors.empty()))
    return arguments.misused(name + " " + action->wants, io);
  if (std::find(said.begin(), said.end(), "") != said.end())
    return arguments.misused(name + " " + action->wants + ", not an empty word", io);

  int ending = config::exit_ok;
  Json body = Json::object();
  std::optional<size_t> listed = size_t{100};
  if (name == "set") {
    if (const auto problem = put_body(asked, body); !problem.empty())
      return arguments.misused(problem, io);
  } else if (name == "list" && !asked.limits.empty()) {
    if (!(listed = listed_of(asked.limits.back(), arguments, io, ending))) return ending;
  }
  auto port = AdminPort::open(asked.admin, arguments, io, ending);
  if (!port) return ending;
  if (name == "set") return set(*port, asked, body, io);
  if (name == "list") return list(*port, asked, *listed, io);
  if (name == "show") return report_one(port->get(override_path(said[1])), asked, io);
  Words ids(said.begin() + 1, said.end());
  if (ids.empty())
    if (const auto failed = find_one(*port, asked, ids, io)) return *failed;
  return remove(*port, asked, ids, io);
}

}  // namespace sluice::cli
