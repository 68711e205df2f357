#include "policy/read/native.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bounds.h"
#include "base/ip_address.h"
#include "base/units.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "policy/actor_name.h"
#include "policy/read/native_text.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/regex.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using limit::Algorithm;

constexpr std::array<std::string_view, 7> algorithms = {
    "token_bucket", "fixed_window", "aligned_window", "sliding_window",
    "sliding_log",  "fixed_bucket", "concurrency"};

std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (const Algorithm a :
       {Algorithm::token_bucket, Algorithm::fixed_window, Algorithm::aligned_window,
        Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::fixed_bucket,
        Algorithm::concurrency})
    if (name_of(a) == name) return a;
  return std::nullopt;
}

// A number from 1 to quota_max; empty: it is not one, which is reported.
std::optional<int64_t> units(std::string_view key, YamlNode node, YamlReader& reader) {
  static const std::string range = "1 to " + std::to_string(base::bounds::quota_max);
  if (!reader.has_text(key, node)) return std::nullopt;
  const auto n = base::parse_count(node.text());
  if (!n) {
    reader.error(key, node, in_ticks(node.text()) + " is not a whole number of units",
                 "write " + range + ", as in 100, 10_000, 5k or 2M");
  } else if (*n == 0) {
    reader.error(key, node, "0 units would refuse everything",
                 "write 1 or more, or `deny: true` in place of the limit");
  } else if (*n > uint64_t{base::bounds::quota_max}) {
    reader.error(key, node, in_ticks(node.text()) + " is more than units are counted to",
                 "write " + range + ", or `unlimited: true` in place of the limit");
  } else {
    return static_cast<int64_t>(*n);
  }
  return std::nullopt;
}

void read_overdraft(YamlNode node, YamlReader& reader, int64_t& overdraft) {
  constexpr std::string_view key = "overdraft";
  static const std::string range = "0 to " + std::to_string(limit::Overdrafts::none);
  if (!reader.has_text(key, node)) return;
  const auto n = base::parse_count(node.text());
  if (!n)
    reader.error(key, node, in_ticks(node.text()) + " is not a whole number of units",
                 "write the most units that may be owed, " + range +
                     ", as in 0, 500 or 2M, or take it out for no such bound");
  else if (*n > uint64_t{limit::Overdrafts::none})
    reader.error(key, node, in_ticks(node.text()) + " is more than units are counted to",
                 "write " + range + ", or take it out for no such bound");
  else
    overdraft = static_cast<int64_t>(*n);
}

// `key`: "window", which may be a word of the calendar as well, or another length of time.
std::optional<base::Duration> length_of(std::string_view key, YamlNode node, YamlReader& reader) {
  const bool is_window = key == "window";
  const std::string text(node.text());
  const auto length = base::parse_duration(text);
  const bool is_count = !length && base::parse_count(text).has_value();
  if (is_count && (text.back() < '0' || text.back() > '9')) {
    const std::string number = text.substr(0, text.size() - 1);
    reader.error(
        key, node,
        in_ticks(text.substr(number.size())) + " in " + in_ticks(text) + " is not a unit of time",
        (text.back() == 'M' ? "write " + in_ticks(number + "m") + " if minutes are meant" +
                                  (is_window ? ", `month` for a month of the calendar; " : "; ")
                            : std::string()) +
            "units are us, ms, s, m, h, d");
  } else if (is_count) {
    reader.error(
        key, node, in_ticks(text) + " has no unit",
        "write " + in_ticks(text + "s") + " if seconds are meant; units are us, ms, s, m, h, d");
  } else if (!length) {
    reader.error(
        key, node, in_ticks(text) + " is not a length of time",
        std::string("write a whole number and us, ms, s, m, h or d, as in `250ms` or `1h`") +
            (is_window ? ", or one of the calendar: `hour`, `day`, `week`, `month` or "
                         "`year`"
                       : ""));
  } else if (length->us == 0) {
    reader.error(key, node, "must be longer than 0", "write `1us` or more");
  } else if (length->us > base::bounds::window_us_max) {
    reader.error(key, node,
                 in_ticks(text) + " is beyond 36600d (100 years), the longest " +
                     std::string(is_window ? "window" : "lease"),
                 "shorten it");
  } else {
    return length;
  }
  return std::nullopt;
}

// The nodes beside `window`, in the order of limit::calendar_keys.
using CalendarNodes = std::array<YamlNode, std::size(limit::calendar_keys)>;

void tell(const limit::CalendarProblem& problem, const CalendarNodes& nodes, YamlNode window,
          YamlReader& reader) {
  const auto* const at = std::ranges::find(limit::calendar_keys, problem.key);
  const YamlNode node = at == std::end(limit::calendar_keys)
                            ? window
                            : nodes[static_cast<size_t>(at - std::begin(limit::calendar_keys))];
  reader.error(problem.key, node ? node : window, problem.message, problem.remedy);
}

// The window of a limit, which becomes an aligned_window if it is of the calendar. `has_algorithm`:
// the limit names its algorithm.
void read_window(YamlNode window, const CalendarNodes& nodes, bool has_algorithm,
                 limit::Limit& limit, YamlReader& reader) {
  if (!reader.has_text("window", window)) return;
  limit::CalendarWords words;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    if (!reader.has_text(limit::calendar_keys[i], nodes[i])) return;
    *words.find(limit::calendar_keys[i]) = nodes[i].text();
  }
  const auto unit = limit::calendar_unit(window.text());
  if (!unit) {
    if (const auto length = length_of("window", window, reader)) {
      limit.window = *length;
      if (const auto problem = limit::beside_length(words)) tell(*problem, nodes, window, reader);
    }
    return;
  }
  if (has_algorithm && limit.algorithm != Algorithm::aligned_window) {
    reader.error("window", window,
                 in_ticks(window.text()) + " is a window of the calendar, which " +
                     std::string(name_of(limit.algorithm)) +
                     " cannot have: its windows are of one length, and those of the calendar "
                     "are not",
                 "take the algorithm out, or write a length of time, as in `30d`");
    return;
  }
  limit.algorithm = Algorithm::aligned_window;
  limit.window = limit::Calendar::nominal(*unit);
  limit::Calendar::Terms terms;
  if (const auto problem = limit::read_calendar(*unit, words, terms))
    return tell(*problem, nodes, window, reader);
  const limit::Calendar::Made its = limit::Calendar::of(terms);
  limit.calendar = its.calendar;
  if (!limit.calendar) tell(limit::problem_of(its.fault, terms, true), nodes, window, reader);
}

// The nodes of a limit that are read by its algorithm.
struct LengthNodes {
  YamlNode window, lease, max_lease;
  CalendarNodes calendar{};
};

// The lease of places, in place of a window.
void read_lease(YamlNode node, const LengthNodes& nodes, limit::Limit& limit, YamlReader& reader) {
  if (nodes.window)
    reader.error("window", nodes.window,
                 "has no meaning for concurrency: a place is out until it is given back, or until "
                 "the end of its lease",
                 "write `lease` in place of it");
  for (size_t i = 0; i < nodes.calendar.size(); ++i)
    if (nodes.calendar[i])
      reader.error(limit::calendar_keys[i], nodes.calendar[i],
                   "belongs to a window of the calendar", "take it out");
  if (!nodes.lease)
    reader.error("limit", node, "has no lease",
                 "add `lease: 30s`, the length of time after which a place comes back that nobody "
                 "gives back");
  else if (reader.has_text("lease", nodes.lease))
    if (const auto length = length_of("lease", nodes.lease, reader)) limit.window = *length;
  limit.burst = limit.window.us;
  if (!nodes.max_lease || !reader.has_text("max_lease", nodes.max_lease)) return;
  const auto longest = length_of("max_lease", nodes.max_lease, reader);
  if (!longest) return;
  if (longest->us < limit.window.us)
    reader.error("max_lease", nodes.max_lease,
                 in_ticks(nodes.max_lease.text()) + " is shorter than the lease",
                 "write the longest lease that a holder may ask for, " +
                     in_ticks(nodes.lease.text()) + " or more");
  limit.burst = std::max(limit.window.us, longest->us);
}

// May a limit say that its units are these? Otherwise that is reported.
bool is_sound_unit(YamlNode node, const limit::Limit& limit, YamlReader& reader) {
  constexpr std::string_view key = "unit";
  constexpr size_t bytes_max = 64;
  // As the files of others have it: what a window is there.
  static constexpr std::pair<std::string_view, std::string_view> times[] = {
      {"second", "1s"}, {"minute", "1m"},   {"hour", "1h"},  {"day", "1d"},
      {"week", "7d"},   {"month", "month"}, {"year", "year"}};
  if (!reader.has_text(key, node)) return false;
  const std::string_view text = node.text();
  std::string_view word = text;
  if (word.ends_with('s')) word.remove_suffix(1);
  const auto* const time =
      std::ranges::find(times, word, &std::pair<std::string_view, std::string_view>::first);
  if (time != std::end(times))
    reader.error(key, node,
                 in_ticks(text) + " is a length of time, and `unit` says what the quota counts",
                 "write `window: " + std::string(time->second) + "`");
  else if (!sound_rule_name(text) || text.size() > bytes_max)
    reader.error(key, node, in_ticks(text) + " cannot name what the quota counts",
                 "use 1 to " + std::to_string(bytes_max) +
                     " letters, digits, `_`, `-` or `.`, as in `tokens`");
  else if (limit.algorithm == Algorithm::concurrency)
    reader.error(key, node, "has no meaning for concurrency, which answers tell in places",
                 "take it out");
  else if (text == limit::places_unit)
    reader.error(key, node, in_ticks(text) + " is the unit of places",
                 "write `algorithm: concurrency` for so many at a time, or another unit");
  else
    return true;
  return false;
}

}  // namespace

limit::Limit read_limit(YamlNode node, YamlReader& reader, OfRule* of_rule) {
  static constexpr std::array<std::string_view, 14> keys = {
      "quota",       "window",    "burst",    "algorithm", "lease", "max_lease", "time_zone",
      "week_starts", "month_day", "year_day", "starts_at", "over",  "overdraft", "unit"};
  const auto known = std::span(keys).first(of_rule != nullptr ? keys.size() : keys.size() - 3);
  limit::Limit limit{.algorithm = Algorithm::token_bucket};
  YamlNode quota, burst, algorithm, over, overdraft, unit;
  LengthNodes lengths;
  auto& [window, lease, max_lease, calendar] = lengths;
  for (const auto& [key, value] : reader.entries("limit", node, known)) {
    const std::string_view name = key.text();
    const auto* const at = std::ranges::find(limit::calendar_keys, name);
    if (at != std::end(limit::calendar_keys)) {
      calendar[static_cast<size_t>(at - std::begin(limit::calendar_keys))] = value;
      continue;
    }
    (name == "quota"       ? quota
     : name == "window"    ? window
     : name == "burst"     ? burst
     : name == "lease"     ? lease
     : name == "max_lease" ? max_lease
     : name == "over"      ? over
     : name == "overdraft" ? overdraft
     : name == "unit"      ? unit
                           : algorithm) = value;
  }
  if (!node.is_map()) return limit;  // was reported above
  if (over && reader.has_text("over", over)) {
    static constexpr std::array<std::string_view, 2> words = {"refuse", "count"};
    const std::string_view word = over.text();
    if (word == "count")
      of_rule->counts = true;
    else if (word != "refuse")
      reader.error("over", over, in_ticks(word) + " is not a way to go on past the limit",
                   known_words(word, words));
  }
  if (overdraft) read_overdraft(overdraft, reader, of_rule->overdraft);

  if (algorithm && reader.has_text("algorithm", algorithm)) {
    const std::string_view name = algorithm.text();
    if (const auto named = algorithm_named(name))
      limit.algorithm = *named;
    else if (name.starts_with("gcra"))  // in the spelling of the commands as well
      reader.error("algorithm", algorithm, in_ticks(name) + " is not an algorithm of policies",
                   "write `token_bucket`, which makes the same promise in exact arithmetic");
    else
      reader.error("algorithm", algorithm, in_ticks(name) + " is not an algorithm",
                   known_words(name, algorithms));
  }
  if (!quota)
    reader.error("limit", node, "has no quota", "add `quota: N`, the units that a window allows");
  else if (const auto n = units("quota", quota, reader))
    limit.quota = *n;
  const bool is_places = limit.algorithm == Algorithm::concurrency;
  for (const auto& [key, value] : {std::pair("lease", lease), std::pair("max_lease", max_lease)})
    if (value && !is_places)
      reader.error(key, value, "belongs to algorithm concurrency",
                   "take it out, or write `algorithm: concurrency` for places that come back");
  if (is_places) {
    read_lease(node, lengths, limit, reader);
  } else if (limit.algorithm == Algorithm::fixed_bucket) {
    if (window)
      reader.error(
          "window", window,
          "has no effect on a fixed_bucket: its units come back only by being put back",
          "take it out, or write `algorithm: token_bucket` to have them come back in time");
    for (size_t i = 0; i < calendar.size() && !window; ++i)
      if (calendar[i])
        reader.error(limit::calendar_keys[i], calendar[i], "belongs to a window of the calendar",
                     "take it out");
  } else if (!window)
    reader.error("limit", node, "has no window",
                 "add `window: 1s`, the length of time that the quota is for");
  else
    read_window(window, calendar, static_cast<bool>(algorithm), limit, reader);
  if (burst) {
    const auto n = units("burst", burst, reader);
    if (limit.algorithm != Algorithm::token_bucket)
      reader.error("burst", burst,
                   "is a token bucket's, and this is a " + std::string(name_of(limit.algorithm)),
                   "take it out, or write `algorithm: token_bucket`");
    else if (n)
      limit.burst = *n;
  } else if (is_bucket(limit)) {
    limit.burst = limit.quota;
  }
  if (unit && is_sound_unit(unit, limit, reader)) of_rule->unit = unit;
  return limit;
}

namespace {

using limit::Algorithm;

constexpr std::array<std::string_view, 13> rule_keys = {
    "name", "comment", "match", "actor",          "limit",   "limits", "unlimited",
    "deny", "mode",    "then",  "on_store_error", "reserve", "fair_by"};

// Escapes the separators of the parts of a stored name, so that different lists have different
// texts.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\' || c == ' ' || c == '=' || c == ']' || c == ',' || c == ':') out += '\\';
    out += c;
  }
}

// A list is written as its values in order, in brackets, which no escaped text contains.
void append_pattern(std::string& out, const Pattern& pattern) {
  if (pattern.alternatives().empty()) return append_escaped(out, pattern.text());
  std::vector<std::string> sorted;
  for (const Pattern& one : pattern.alternatives())
    append_escaped(sorted.emplace_back(), one.text());
  std::sort(sorted.begin(), sorted.end());
  out += '[';
  for (const std::string& one : sorted) out += (&one == &sorted.front() ? "" : ",") + one;
  out += ']';
}

// The pattern in a spelling that does not depend on the order of its keys: the counters of rules
// without a name are stored under it.
std::string canonical_pattern(const Rule& rule) {
  std::vector<const Condition*> sorted;
  for (const Condition& condition : rule.conditions) sorted.push_back(&condition);
  std::sort(sorted.begin(), sorted.end(),
            [](const Condition* a, const Condition* b) { return a->key < b->key; });
  std::string text = "[";
  for (const Condition* condition : sorted) {
    if (text.size() > 1) text += ' ';
    append_escaped(text, condition->key);
    text += '=';
    append_pattern(text, condition->pattern);
  }
  return text + "]";
}

// The suffix says what a stored counter counts: by which keys. It has nothing of the limits,
// because counters outlive a change of these (limit/carry_list.h).
std::string space_suffix(const Rule& rule) {
  std::string suffix;
  for (const std::string& actor : rule.actor) {
    suffix += suffix.empty() ? ':' : ',';
    append_escaped(suffix, actor);
  }
  if (suffix.empty()) suffix = ':';
  return suffix;
}

class NativeReader {
 public:
  NativeReader(const YamlDocument& document, std::string_view file, request::Spaces& spaces,
               RuleSet& rules, base::Diagnostics& diagnostics)
      : reader_(file, document, diagnostics), file_(file), spaces_(spaces), rules_(rules) {
    for (const Rule& rule : rules.native_rules())
      names_.emplace(rule.name.empty() ? canonical_pattern(rule) : rule.name, rule.line);
  }

  void document(YamlNode root) {
    if (root.is_null()) return missing();
    if (!root.is_map()) {
      reader_.error("the file", root, "must be a map of keys to values",
                    "native rules are the list under its key `rules`");
      return;
    }
    YamlNode rules;
    constexpr std::string_view known[] = {"rules"};
    for (const auto& [key, value] : reader_.entries("the file", root)) {
      if (key.text() != known[0]) {
        if (!base::nearest_word(key.text(), {known[0]}).empty())
          reader_.error(key.text(), key, "is not a known key", known_words(key.text(), known));
        continue;
      }
      rules = value;
      if (!value.is_list() || value.size() == 0) {
        reader_.error("rules", value.line() > 0 ? value : key,
                      "must be a list with at least one rule",
                      "write `rules: [{ match: { ip: \"*\" }, actor: ip, limit: { quota: 100, "
                      "window: 1s } }]`");
        return;
      }
    }
    rules ? list(rules) : missing();
  }

 private:
  void missing() {
    reader_.error("rules", {}, "is missing: no request would meet a rule", "add `rules: [...]`");
  }

  void list(YamlNode rules) {
    const size_t before = rules_.written();
    if (rules.size() > base::bounds::rules_max - std::min(base::bounds::rules_max, before)) {
      reader_.error("rules", rules,
                    "more than " + std::to_string(base::bounds::rules_max) + " rules in all",
                    "join rules that differ in a value only into one with a `*`");
      return;
    }
    size_t number = 0;
    for (YamlNode item = rules.first_child(); item && !reader_.is_over(); item = item.next()) {
      ++number;
      const std::string_view name = name_in(item);
      reader_.set_context("rule " + (name.empty() ? std::to_string(number) : std::string(name)));
      if (item.is_map())
        rule(item);
      else
        reader_.error("", item, "must be a map of keys to values",
                      "write `- match: { ip: \"*\" }` and so on");
    }
    reader_.set_context("");
  }

  // A name for messages about a rule that has not been read: its `name`, if that is a text.
  static std::string_view name_in(YamlNode rule) {
    if (!rule.is_map()) return {};
    for (YamlNode key = rule.first_child(); key; key = key.next().next())
      if (key.text() == "name" && sound_rule_name(key.next().text())) return key.next().text();
    return {};
  }

  void rule(YamlNode node) {
    const std::vector<YamlReader::Entry> entries = reader_.entries("", node, rule_keys);
    fields_.fill({});
    for (const auto& [key, value] : entries) {
      const auto at = std::find(rule_keys.begin(), rule_keys.end(), key.text());
      fields_[static_cast<size_t>(at - rule_keys.begin())] = value;
    }
    Rule rule;
    rule.file = std::string(file_);
    rule.line = node.line();
    read_name(rule);
    const bool sound_match = read_match(rule);
    if (sound_match || !rule.name.empty())
      reader_.set_context(rule.name.empty() ? "rule [" + shortened(rule.pattern, 200) + "]"
                                            : "rule " + rule.name);
    if (const YamlNode comment = field("comment");
        comment && !comment.is_null() && reader_.has_text("comment", comment))
      rule.comment = std::string(comment.text());
    read_actor(rule);
    read_limits(node, rule);
    static constexpr std::array<std::string_view, 3> modes = {"enforce", "shadow", "off"};
    rule.mode = static_cast<Mode>(choice("mode", modes));
    static constexpr std::array<std::string_view, 2> thens = {"stop", "continue"};
    rule.then = static_cast<Then>(choice("then", thens));
    static constexpr std::array<std::string_view, 4> fallbacks = {"error", "deny", "local",
                                                                  "allow"};
    rule.on_store_error = static_cast<request::OnError>(choice("on_store_error", fallbacks));
    if (const YamlNode reserve = field("reserve")) read_reserve(reserve, rule.reserve);
    check_actor(rule);
    read_fair_by(rule);
    const std::string canonical = canonical_pattern(rule);
    if (sound_match || !rule.name.empty()) check_unique(node, rule, canonical);
    rule.intern(spaces_, spaces_.hold("native:" + (rule.name.empty() ? canonical : rule.name) + ":",
                                      space_suffix(rule)));
    rules_.add(native_dialect, std::move(rule));
  }

  // What reservations of the rule may do.
  void read_reserve(YamlNode node, request::HoldTerms& terms) {
    static constexpr std::array<std::string_view, 4> keys = {"max_ttl", "max_fraction", "on_expiry",
                                                             "late_commit"};
    static constexpr std::array<std::string_view, 2> ends = {"release", "keep"},
                                                     lates = {"charge", "ignore"};
    for (const auto& [key, value] : reader_.entries("reserve", node, keys)) {
      const std::string_view name = key.text();
      if (!reader_.has_text(name, value)) continue;
      const std::string_view text = value.text();
      const auto is_one_of = [&, its = value](std::span<const std::string_view> words) {
        const bool is = std::ranges::find(words, text) != words.end();
        if (!is) reader_.error(name, its, in_ticks(text) + " is unknown", known_words(text, words));
        return is;
      };
      if (name == "max_ttl") {
        const auto length = base::parse_duration(std::string(text));
        if (length && length->us > 0 && length->us <= base::bounds::hold_us_max)
          terms.ttl_max = *length;
        else
          reader_.error(name, value, in_ticks(text) + " is not how long a reservation may be held",
                        "write a length of time of at most `1d`, as in `10m`");
      } else if (name == "max_fraction") {
        if (const auto part = request::HoldTerms::fraction_of(text))
          terms.fraction = *part;
        else
          reader_.error(name, value, in_ticks(text) + " is not a part of a limit",
                        "write a number above 0 and at most 1, with up to 6 digits, as in `0.5`");
      } else if (name == "on_expiry") {
        if (is_one_of(ends)) terms.keeps = text == "keep";
      } else if (is_one_of(lates)) {
        terms.ignores_late = text == "ignore";
      }
    }
  }

  YamlNode field(std::string_view key) const {
    const auto at = std::find(rule_keys.begin(), rule_keys.end(), key);
    return fields_[static_cast<size_t>(at - rule_keys.begin())];
  }

  void read_name(Rule& rule) {
    const YamlNode node = field("name");
    if (!node || !reader_.has_text("name", node)) return;
    if (sound_rule_name(node.text()))
      rule.name = std::string(node.text());
    else
      reader_.error("name", node, in_ticks(node.text()) + " cannot name a rule",
                    "use 1 to 255 letters, digits, `_`, `-` or `.`");
  }

  // False: there is an error in it, so the rule's conditions are not complete.
  bool read_match(Rule& rule) {
    const YamlNode node = field("match");
    bool sound = true;
    if (node && !node.is_null() && !node.is_map()) {
      reader_.error("match", node, "must be a map of keys to values or patterns",
                    "write `match: { method: GET, path: \"/api/*\" }`");
      sound = false;
    } else if (node.is_map()) {
      const auto entries = reader_.entries("match", node);
      if (entries.size() > base::bounds::descriptor_entries_max)
        reader_.error("match", node,
                      "asks for " + std::to_string(entries.size()) +
                          " entries; a request has at most " +
                          std::to_string(base::bounds::descriptor_entries_max),
                      "remove conditions");
      for (const auto& [key, value] : entries) sound &= condition(key, value, rule);
    }
    if (rule.pattern.empty()) rule.pattern = "any";
    return sound;
  }

  bool condition(YamlNode key, YamlNode value, Rule& rule) {
    const std::string name(key.text());
    if (name.empty()) {
      reader_.error("match", key, "has an empty key, which no request can have", "name the key");
      return false;
    }
    const auto pattern = value.is_list() ? list_of_values(name, value) : value_of(name, key, value);
    if (!pattern) return false;
    rule.pattern += (rule.pattern.empty() ? "" : " ") + name + "=" + pattern->text();
    rule.conditions.push_back({name, *pattern});
    return true;
  }

  // Reads `[GET, POST]`. Empty, here and below: it has an error, which is reported.
  std::optional<Pattern> list_of_values(const std::string& name, YamlNode list) {
    if (list.size() == 0 || list.size() > list_values_max) {
      reader_.error("match: " + name, list,
                    list.size() == 0
                        ? "is an empty list, which no request fits"
                        : "has " + std::to_string(list.size()) + " values; a list has at most " +
                              std::to_string(list_values_max),
                    list.size() == 0 ? "name the values, as in `[GET, POST]`"
                                     : "write a rule for each part of them");
      return std::nullopt;
    }
    std::vector<Pattern> all;
    for (YamlNode item = list.first_child(); item; item = item.next()) {
      auto one = value_of(name, item, item);
      if (!one) return std::nullopt;
      if (one->regex() != nullptr) {
        reader_.error("match: " + name, item, "is an expression in a list",
                      "write the other values into the expression, as `a|b`, or a rule for each");
        return std::nullopt;
      }
      if (std::ranges::any_of(all, [&](const Pattern& it) { return it.text() == one->text(); }))
        reader_.warning("match: " + name, item, in_ticks(one->text()) + " is named twice",
                        "name it once");
      else
        all.push_back(std::move(*one));
    }
    return Pattern::any_of(std::move(all));
  }

  std::optional<Pattern> value_of(const std::string& name, YamlNode key, YamlNode value) {
    if (!value.is_scalar()) {
      // A plain `null` or no value: what the user meant is unknown.
      const bool null = value.is_null();
      reader_.error("match: " + name, value.line() > 0 ? value : key,
                    null ? "has no value" : "must be a value or pattern, or a list of them",
                    null ? "write \"*\" for any value, \"\" for an empty one, quotes around null"
                         : "write `[GET, POST]` for one of several");
      return std::nullopt;
    }
    const std::string_view text = value.text();
    if (text.starts_with(network_begin)) return network_of(name, value, text);
    if (text.starts_with(expression_begin)) return expression_of(name, value, text);
    if (text.find('/') != text.npos && base::parse_ip_network(text))
      reader_.warning("match: " + name, value,
                      in_ticks(text) + " is compared as a text, not as a network",
                      "write `cidr(" + std::string(text) + ")` for the addresses of the network");
    return Pattern::wildcard(std::string(text));
  }

  std::optional<Pattern> network_of(const std::string& name, YamlNode value,
                                    std::string_view text) {
    NetworkProblem problem;
    const auto network = network_named(text, problem);
    if (network) return Pattern::in_network("cidr(" + to_text(*network) + ")", *network);
    reader_.error("match: " + name, value, problem.message, problem.remedy);
    return std::nullopt;
  }

  // Reads `regex(/^a.*b/i)`.
  std::optional<Pattern> expression_of(const std::string& name, YamlNode value,
                                       std::string_view text) {
    const size_t end = text.rfind('/');
    const auto regex = [&]() -> base::Result<std::shared_ptr<const Regex>> {
      if (!text.ends_with(')') || end < expression_begin.size())
        return base::Problem{"has no `/` and `)` at its end"};
      return Regex::javascript(text.substr(expression_begin.size(), end - expression_begin.size()),
                               text.substr(end + 1, text.size() - end - 2));
    }();
    if (regex) return Pattern::regex(std::string(text), *regex);
    reader_.error("match: " + name, value,
                  in_ticks(text) + " is not an expression: " + regex.problem().text,
                  "write one as JavaScript has it, as in `regex(/^a[0-9]+$/i)`");
    return std::nullopt;
  }

  void read_actor(Rule& rule) {
    const YamlNode node = field("actor");
    if (!node) return;
    if (!node.is_list()) {
      if (reader_.has_text("actor", node)) rule.actor = {std::string(node.text())};
      return;
    }
    if (node.size() == 0 || node.size() > base::bounds::descriptor_entries_max) {
      reader_.error(
          "actor", node,
          node.size() == 0 ? "is an empty list" : "names more keys than a request can have",
          node.size() == 0 ? "take it out for one counter for all" : "name fewer");
      return;
    }
    for (YamlNode item = node.first_child(); item; item = item.next()) {
      if (!reader_.has_text("actor", item)) continue;
      std::string key(item.text());
      if (std::find(rule.actor.begin(), rule.actor.end(), key) != rule.actor.end())
        reader_.error("actor", item, in_ticks(key) + " is named twice", "name it once");
      else
        rule.actor.push_back(std::move(key));
    }
  }

  void read_limits(YamlNode node, Rule& rule) {
    std::string chosen;
    size_t count = 0;
    YamlNode last;
    for (const std::string_view key : {"limit", "limits", "unlimited", "deny"}) {
      const YamlNode one = field(key);
      if (!one) continue;
      chosen += (count++ == 0 ? "`" : ", `") + std::string(key) + "`";
      if (std::pair(last.line(), last.column()) < std::pair(one.line(), one.column())) last = one;
    }
    if (count != 1)
      reader_.error("", count > 0 && last ? last : node,
                    count == 0 ? "has no limit" : "has " + chosen + " at once",
                    "write exactly one of `limit: { quota: N, window: 1s }`, `limits: [...]`, "
                    "`unlimited: true` and `deny: true`");
    limit::Overdrafts overdrafts;
    if (const YamlNode one = field("limit")) add_limit(one, rule, overdrafts);
    if (const YamlNode many = field("limits")) read_limit_list(many, rule, overdrafts);
    if (overdrafts.has_any())
      rule.overdrafts = std::make_shared<const limit::Overdrafts>(overdrafts);
    // The largest quota is always left, so that this limit is never the tightest of several.
    if (is_set("unlimited")) rule.limits = {{Algorithm::unlimited, base::bounds::quota_max, {}}};
    if (is_set("deny")) rule.limits = {{Algorithm::deny, 0, {}}};
  }

  void add_limit(YamlNode node, Rule& rule, limit::Overdrafts& overdrafts) {
    OfRule its;
    rule.limits.push_back(read_limit(node, reader_, &its));
    // A rule with `limit` and `limits` has an error, and may have one more.
    if (overdrafts.count < limit::slots_max) overdrafts.add(rule.limits.back(), its.overdraft);
    if (its.counts)
      rule.counts = static_cast<limit::LimitMask>(rule.counts | 1u << (rule.limits.size() - 1));
    if (!its.unit) return;
    if (rule.unit.empty())
      rule.unit = its.unit.text();
    else if (rule.unit != its.unit.text())
      reader_.error("unit", its.unit,
                    in_ticks(its.unit.text()) + " beside " + in_ticks(rule.unit) +
                        ": each cost counts for all limits of the rule alike",
                    "write one unit, or put the limit into another rule, with `then: continue` in "
                    "this one");
  }

  void read_limit_list(YamlNode node, Rule& rule, limit::Overdrafts& overdrafts) {
    if (!node.is_list() || node.size() == 0 || node.size() > limit::slots_max) {
      reader_.error(
          "limits", node,
          node.is_list() && node.size() > 0
              ? "has " + std::to_string(node.size()) + " limits; a rule has at most " +
                    std::to_string(limit::slots_max)
              : "must be a list of limits",
          node.is_list() && node.size() > 0
              ? "give the rule `then: continue` and put the others into the next one"
              : "write `limits: [{ quota: 10, window: 1s }, { quota: 100, window: 1m }]`");
      return;
    }
    for (YamlNode item = node.first_child(); item; item = item.next())
      add_limit(item, rule, overdrafts);
    if (limit::cells(rule.limits) > limit::cells_max)
      reader_.error(
          "limits", node, "need more memory than one counter may have",
          "have at most two of algorithm sliding_log or concurrency with a quota of 32 or "
          "more, and put "
          "others into a rule behind `then: continue`");
  }

  bool is_set(std::string_view key) {
    const YamlNode node = field(key);
    if (!node) return false;
    if (node.is_scalar() && node.is_plain() && node.text() == "true") return true;
    reader_.error(key, node, "can only be `true`",
                  "write `" + std::string(key) + ": true`, or take it out");
    return false;
  }

  // The index of the word that the key has; 0 if the key is missing.
  size_t choice(std::string_view key, std::span<const std::string_view> words) {
    const YamlNode node = field(key);
    if (!node || !reader_.has_text(key, node)) return 0;
    const auto at = std::find(words.begin(), words.end(), node.text());
    if (at != words.end()) return static_cast<size_t>(at - words.begin());
    reader_.error(key, node, in_ticks(node.text()) + " is unknown",
                  known_words(node.text(), words));
    return 0;
  }

  void check_actor(const Rule& rule) {
    if (!limit::is_counted(rule.limits)) return;
    std::vector<std::string_view> keys;
    for (const Condition& condition : rule.conditions) keys.push_back(condition.key);
    for (const std::string& actor : rule.actor) {
      if (std::find(keys.begin(), keys.end(), actor) != keys.end()) continue;
      const std::string_view nearest = base::nearest_word(actor, keys);
      reader_.warning("actor", field("actor"),
                      in_ticks(actor) +
                          " is not a key of this rule's match; all requests without it "
                          "share one counter",
                      nearest.empty() ? "match it with `" + shortened(actor, 64) +
                                            ": \"*\"`, or leave it if that is meant"
                                      : "did you mean `" + std::string(nearest) + "`?");
    }
  }

  void read_fair_by(Rule& rule) {
    const YamlNode node = field("fair_by");
    if (!node || !reader_.has_text("fair_by", node)) return;
    const std::string key(node.text());
    rule.fair_by = key;
    if (std::find(rule.actor.begin(), rule.actor.end(), key) != rule.actor.end()) {
      reader_.warning("fair_by", node,
                      "each counter has one value of " + in_ticks(key) +
                          ", as it is in this rule's actor; waiting requests are served in "
                          "order of arrival",
                      "name another key, or take `fair_by` out");
      return;
    }
    std::vector<std::string_view> keys;
    for (const Condition& condition : rule.conditions) keys.push_back(condition.key);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return;
    const std::string_view nearest = base::nearest_word(key, keys);
    reader_.warning("fair_by", node,
                    in_ticks(key) +
                        " is not a key of this rule's match; all requests without it "
                        "share one turn",
                    nearest.empty() ? "match it with `" + shortened(key, 64) +
                                          ": \"*\"`, or leave it if that is meant"
                                    : "did you mean `" + std::string(nearest) + "`?");
  }

  // Two rules must not share counters, and only a name distinguishes two rules with one pattern.
  void check_unique(YamlNode node, const Rule& rule, const std::string& canonical) {
    const bool named = !rule.name.empty();
    const auto [first, fresh] = names_.try_emplace(named ? rule.name : canonical, rule.line);
    if (fresh) return;
    const std::string line = std::to_string(first->second);
    if (named)
      reader_.error("name", field("name"),
                    in_ticks(rule.name) + " is already the name of the rule on line " + line,
                    "give each rule a name of its own");
    else
      reader_.error("", node,
                    "the rule on line " + line + " has the same match, and neither has a name",
                    "give both a name, under which their counters are kept apart");
  }

  YamlReader reader_;
  std::string_view file_;
  request::Spaces& spaces_;
  RuleSet& rules_;
  std::array<YamlNode, rule_keys.size()> fields_;  // of the rule being read
  // The lines of the rules by name; rules without one by their pattern in brackets, which no name
  // contains.
  std::unordered_map<std::string, size_t> names_;
};

}  // namespace

bool sound_rule_name(std::string_view name) {
  constexpr size_t name_bytes_max = 255;
  return !name.empty() && name.size() <= name_bytes_max && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

void read_native(const YamlDocument& document, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  NativeReader(document, file, spaces, rules, diagnostics).document(document.root());
  // In the order of the file; diagnostics about the whole file are last.
  std::stable_sort(diagnostics.begin() + static_cast<ptrdiff_t>(before), diagnostics.end(),
                   [](const base::Diagnostic& a, const base::Diagnostic& b) {
                     return std::pair(a.line - 1, a.column) < std::pair(b.line - 1, b.column);
                   });
}

void read_native(std::string_view text, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics) {
  YamlDocument document;
  if (const auto error = parse_yaml(text, document))
    diagnostics.push_back(to_diagnostic(*error, file));
  else
    read_native(document, file, spaces, rules, diagnostics);
}

namespace {

constexpr size_t findings_max = 100;
constexpr size_t alternatives_max = 16;  // the most alternatives of a list that are tried
constexpr size_t text_max = 128;         // the most bytes of a text with stars that is searched
// The cost of making up a request and matching it, in steps (base::bounds::review_steps_max).
constexpr size_t steps_of_request = 200;

// Finds a value that matches two texts with stars, by trying all ways to walk through both.
class CommonText {
 public:
  CommonText(const Pattern& a, const Pattern& b)
      : a_(a), b_(b), seen_((a.text().size() + 1) * (b.text().size() + 1)) {}

  std::optional<std::string> find() {
    if (!walk(0, 0)) return std::nullopt;
    std::ranges::reverse(value_);
    return value_;
  }

 private:
  static bool is_star(const Pattern& p, size_t at) {
    return at < p.text().size() && !p.exact() && p.text()[at] == '*';
  }
  // Appends the value that matches the texts from these two places on, last byte first. False:
  // there is none.
  bool walk(size_t i, size_t j) {
    const bool a_ends = i == a_.text().size(), b_ends = j == b_.text().size();
    if (a_ends && b_ends) return true;
    const size_t place = i * (b_.text().size() + 1) + j;
    if (seen_[place]) return false;
    seen_[place] = true;
    const bool a_star = is_star(a_, i), b_star = is_star(b_, j);
    if (a_star && walk(i + 1, j)) return true;
    if (b_star && walk(i, j + 1)) return true;
    if (a_star && !b_ends && !b_star && walk(i, j + 1)) return push(b_.text()[j]);
    if (b_star && !a_ends && !a_star && walk(i + 1, j)) return push(a_.text()[i]);
    if (a_star || b_star || a_ends || b_ends || a_.text()[i] != b_.text()[j]) return false;
    return walk(i + 1, j + 1) && push(a_.text()[i]);
  }
  bool push(char c) {
    value_ += c;
    return true;
  }

  const Pattern &a_, &b_;
  std::vector<bool> seen_;
  std::string value_;
};

std::string in_place_of_stars(std::string_view text, std::string_view by) {
  std::string filled;
  for (const char c : text)
    if (c == '*')
      filled += by;
    else
      filled += c;
  return filled;
}

std::span<const Pattern> alternatives_of(const Pattern& pattern) {
  const auto all = pattern.alternatives();
  return all.empty() ? std::span(&pattern, 1) : all.first(std::min(all.size(), alternatives_max));
}

// A value of the entry `key` that matches both patterns. Where any value matches, it is made from
// the key, so that different keys have different values.
std::optional<std::string> common_value(const Pattern& one, const Pattern& other,
                                        const std::string& key) {
  for (const Pattern& a : alternatives_of(one))
    for (const Pattern& b : alternatives_of(other)) {
      for (const Pattern* p : {&a, &b})
        for (std::string value : {in_place_of_stars(p->text(), key), p->sample()})
          if (a.matches(value) && b.matches(value)) return value;
      if (a.text().size() > text_max || b.text().size() > text_max) continue;
      auto value = CommonText(a, b).find();
      if (value && a.matches(*value) && b.matches(*value)) return value;
    }
  return std::nullopt;
}

bool is_charged(const Rule& rule, Shadow shadow) {
  return (rule.mode == Mode::enforce ||
          (rule.mode == Mode::shadow && shadow == Shadow::as_enforced)) &&
         limit::is_counted(rule.limits);
}

class Search {
 public:
  Search(const RuleSet& rules, Shadow shadow) : rules_(rules), shadow_(shadow) {}

  std::vector<RulesApart> all() {
    const auto rules = rules_.native_rules();
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!is_charged(rules[i], shadow_) || rules[i].then == Then::stop) continue;
      for (size_t j = i + 1; j < rules.size(); ++j) {
        if (found_.size() == findings_max || ++steps_ > base::bounds::review_steps_max)
          return std::move(found_);
        if (is_charged(rules[j], shadow_) && rules[i].actor != rules[j].actor)
          two(rules[i], rules[j]);
      }
    }
    return std::move(found_);
  }

 private:
  void two(const Rule& a, const Rule& b) {
    if (a.conditions.size() + b.conditions.size() > base::bounds::group_charges_max) return;
    if (is_known(a, b) || !make_request(a, b)) return;
    steps_ += steps_of_request;
    plan_.clear();
    rules_.match(
        nullptr,
        {.descriptor = descriptor_, .request = {.scope = request::RuleScope::native, .tag = {}}},
        plan_);
    const Plan::RequestPlan& part = plan_.parts().back();
    if (!part.error.empty()) return;
    std::vector<Plan::RuleMatch> steps;
    for (const Plan::RuleMatch& step : plan_.steps(part))
      if (is_charged(*step.rule, shadow_)) steps.push_back(step);
    // Shadow rules come first in a plan, and do not stop it.
    std::ranges::sort(steps, {}, [](const auto& step) { return step.rule->number; });
    RulesApart group;
    bool apart = false;
    for (const Plan::RuleMatch& step : steps) {
      apart |= plan_.charge(step).key != plan_.charge(steps.front()).key;
      group.push_back(step.rule);
      if (step.rule->then == Then::stop) break;
    }
    if (apart) found_.push_back(std::move(group));
  }

  bool is_known(const Rule& a, const Rule& b) const {
    return std::ranges::any_of(found_, [&](const RulesApart& group) {
      return std::ranges::find(group, &a) != group.end() &&
             std::ranges::find(group, &b) != group.end();
    });
  }

  // Makes a request in descriptor_ to which both rules may apply. False: it found none.
  bool make_request(const Rule& a, const Rule& b) {
    values_.clear();
    for (const Condition& condition : a.conditions) {
      const auto at = std::ranges::find(b.conditions, condition.key, &Condition::key);
      if (!add_value(condition, at == b.conditions.end() ? condition.pattern : at->pattern))
        return false;
    }
    for (const Condition& condition : b.conditions)
      if (!has_value(condition.key) && !add_value(condition, condition.pattern)) return false;
    for (const Rule* rule : {&a, &b})
      for (const std::string& key : rule->actor)
        if (!has_value(key)) values_.emplace_back(key, "some " + key);
    descriptor_.clear();
    for (const auto& [key, value] : values_) descriptor_.push_back({key, value});
    return true;
  }
  bool add_value(const Condition& condition, const Pattern& other) {
    const Pattern& one = condition.pattern;
    // A shortcut: most rules differ in an exact text.
    if (one.exact() && other.exact() && one.text() != other.text()) return false;
    auto value = common_value(one, other, condition.key);
    if (value) values_.emplace_back(condition.key, *std::move(value));
    return value.has_value();
  }
  bool has_value(std::string_view key) const {
    return std::ranges::any_of(values_, [&](const auto& one) { return one.first == key; });
  }

  const RuleSet& rules_;
  const Shadow shadow_;
  std::vector<RulesApart> found_;
  Plan plan_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<request::Entry> descriptor_;
  size_t steps_ = 0;
};

}  // namespace

std::vector<RulesApart> rules_apart(const RuleSet& rules, Shadow shadow) {
  return Search(rules, shadow).all();
}

std::string names_of(const RulesApart& apart) {
  std::string names;
  for (const Rule* rule : apart)
    names += (names.empty() ? "" : ", ") + title_of(*rule) + " (line " +
             std::to_string(rule->line) + ")";
  return names;
}

void refuse_apart(const std::vector<RulesApart>& all, StoreIsRead read,
                  base::Diagnostics& diagnostics) {
  for (RulesApart apart : all) {
    const Rule& last = *apart.back();
    apart.pop_back();
    diagnostics.push_back(
        {.file = last.file,
         .line = last.line,
         .subject = title_of(last),
         .message = "settles together with " + names_of(apart) +
                    " and does not count by the same actor: their counters are in different slots "
                    "of the Redis Cluster, and `store.redis.across_slots` is `refuse`",
         .remedy = std::string("write `across_slots: settle`") +
                   (read == StoreIsRead::at_start
                        ? " and restart the server, which reads the settings of the store only "
                          "at its start"
                        : "") +
                   ", have them count by the same actor, or have no request meet them together"});
  }
}

void warn_of_shadow_apart(const RuleSet& rules, base::Diagnostics& diagnostics) {
  for (RulesApart& apart : rules_apart(rules, Shadow::as_enforced)) {
    const auto shadow = std::ranges::find(apart, Mode::shadow, &Rule::mode);
    if (shadow == apart.end()) continue;
    const Rule& rule = **shadow;
    apart.erase(shadow);
    diagnostics.push_back(
        {.severity = base::Diagnostic::Severity::warning,
         .file = rule.file,
         .line = rule.line,
         .subject = title_of(rule),
         .message = "is refused without `mode: shadow`: it then settles together with " +
                    names_of(apart) +
                    " and does not count by the same actor, and `store.redis.across_slots` is "
                    "`refuse`",
         .remedy = "write `across_slots: settle` and restart the server before the rule decides, "
                   "or have them count by the same actor"});
  }
}

}  // namespace sluice::policy
