#include "live/override_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <forward_list>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/units.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "live/live_policy.h"
#include "policy/actor_name.h"
#include "policy/read/native.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "wire/json.h"

namespace sluice::live {

using limit::Algorithm;
using limit::Limit;

namespace {

constexpr int persisted_version = 1;
constexpr std::string_view id_prefix = "o-";

OverrideProblem wrong(std::string field, std::string why, unsigned status = 422) {
  return {status, std::move(field), std::move(why)};
}

// A limit's members as the reader of native policies takes them, beside what only answers have. Of
// an algorithm that is not said: the usual one, unless a burst means a bucket.
policy::YamlDocument members_of(const wire::Json& json, Algorithm usual) {
  using Kind = policy::YamlDocument::Kind;
  const auto said = json.find("algorithm");
  const bool is_fixed_bucket = said != json.end() && said->is_string() &&
                               said->get_ref<const std::string&>() == "fixed_bucket";
  std::vector<policy::YamlDocument::Member> members;
  std::forward_list<std::string> numbers;
  for (const auto& [key, value] : json.items()) {
    if (key == "of_rule" || (key == "window_ms" && json.contains("window")) ||
        (key == "lease_ms" && json.contains("lease")) || (key == "burst" && is_fixed_bucket))
      continue;
    if (value.is_null())
      members.push_back({key, Kind::null});
    else if (value.is_structured())
      members.push_back({key, value.is_array() ? Kind::list : Kind::map});
    else if (value.is_string())
      members.push_back({key, Kind::scalar, value.get_ref<const std::string&>()});
    else
      members.push_back({key, Kind::scalar, numbers.emplace_front(value.dump())});
  }
  const auto window = json.find("window");
  const bool of_calendar = window != json.end() && window->is_string() &&
                           limit::calendar_unit(window->get_ref<const std::string&>());
  if (said == json.end() && json.contains("lease"))
    members.push_back({"algorithm", Kind::scalar, limit::name_of(Algorithm::concurrency)});
  else if (said == json.end() && !json.contains("burst") && !of_calendar)
    members.push_back({"algorithm", Kind::scalar, limit::name_of(usual)});
  return policy::YamlDocument(members);
}

// As native policies are read, with the same words for what is wrong.
OverrideProblem read_limit(const wire::Json& json, const std::string& field, Algorithm usual,
                           Limit& limit) {
  if (!json.is_object())
    return wrong(field, "must be an object, as {\"quota\": 100, \"window\": \"1s\"}");
  const auto algorithm = json.find("algorithm");
  const bool is_text = algorithm != json.end() && algorithm->is_string();
  for (const Algorithm bare : {Algorithm::unlimited, Algorithm::deny}) {
    if (!is_text || algorithm->get_ref<const std::string&>() != limit::name_of(bare)) continue;
    // Its quota means nothing; but answers have it.
    for (const auto& [key, value] : json.items())
      if (key != "algorithm" && key != "quota")
        return wrong(field + "." + key,
                     "has no effect on `" + std::string(limit::name_of(bare)) + "`; take it out");
    limit = {bare, bare == Algorithm::deny ? 0 : base::bounds::quota_max, {}};
    return {};
  }
  for (const char* key : {"over", "overdraft", "unit"})
    if (json.contains(key))
      return wrong(field + "." + key, "is the rule's, and holds for its overrides; take it out");
  base::Diagnostics diagnostics;
  const policy::YamlDocument document = members_of(json, usual);
  policy::YamlReader reader("", document, diagnostics);
  limit = policy::read_limit(document.root(), reader);
  for (const base::Diagnostic& d : diagnostics) {
    if (d.severity != base::Diagnostic::Severity::error) continue;
    const bool whole = d.subject.empty() || d.subject == "limit";
    return wrong(whole ? field : field + "." + d.subject,
                 d.message + (d.remedy.empty() ? "" : "; " + d.remedy));
  }
  return {};
}

}  // namespace

// Whatever the rule: what stands in place of its limits must be what its counters can hold.
OverrideProblem check_limits(std::span<const Limit> limits, const policy::Dialect* dialect) {
  if (limits.empty() || limits.size() > limit::slots_max)
    return wrong("limits", "is to have 1 to " + std::to_string(limit::slots_max) + " limits");
  if (!limit::is_counted(limits) && limits.size() == 1) return {};
  if (std::any_of(limits.begin(), limits.end(),
                  [](const Limit& l) { return !limit::has_counter(l.algorithm); }))
    return wrong("limits", "`unlimited` and `deny` stand alone");
  if (limit::cells(limits) > limit::cells_max)
    return wrong("limits",
                 "need more memory than one counter may have; have at most two of algorithm "
                 "sliding_log or concurrency with a quota of 32 or more");
  if (dialect == nullptr || dialect->check_override == nullptr) return {};
  if (auto problem = dialect->check_override(limits))
    return wrong(std::move(problem->field), std::move(problem->why));
  return {};
}

namespace {

OverrideProblem check_size(std::span<const std::string> values) {
  size_t bytes = 0;
  for (const std::string& value : values) bytes += value.size();
  if (bytes > base::bounds::override_actor_bytes_max)
    return wrong("actor", "has " + std::to_string(bytes) + " bytes; " +
                              std::to_string(base::bounds::override_actor_bytes_max) +
                              " is the most");
  return {};
}

}  // namespace

std::vector<std::string> StoredOverride::values() const {
  return policy::key_values(actor, rule->actor.size()).value_or(std::vector<std::string>());
}

uint64_t StoredOverride::id() const {
  const std::array digests = {rule->id, base::digest(actor)};
  return base::digest_of(digests);
}

std::string id_text(uint64_t id) {
  return std::string(id_prefix) + hash_text(id);
}

std::optional<uint64_t> parse_id(std::string_view text) {
  if (!text.starts_with(id_prefix)) return std::nullopt;
  text.remove_prefix(id_prefix.size());
  uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, id, 16);
  if (problem != std::errc{} || at != end || id_text(id).substr(id_prefix.size()) != text)
    return std::nullopt;
  return id;
}

OverrideProblem intern(OverrideRequest& asked, request::Spaces& spaces, size_t most) {
  StoredOverride& one = asked.one;
  one.limits = one.persisted_limits = spaces.hold_limits(asked.limits, most);
  one.own = one.persisted_own;
  one.space = {};
  bool room = static_cast<bool>(one.limits);
  const policy::Dialect* const dialect = one.rule->rules_of;
  if (room && dialect != nullptr && dialect->override_space != nullptr &&
      limit::is_counted(asked.limits)) {
    one.space = dialect->override_space(spaces, one.rule->prefix, asked.limits.front(), most);
    room = static_cast<bool>(one.space);
  }
  if (room) return {};
  return wrong(
      "limits",
      "are not among the " + std::to_string(most) +
          " different ones that are known, which is the most; use some that rules or other "
          "overrides have, or ask again when those that nothing has any more are forgotten",
      507);
}

namespace {

// May the one replace the other? Places are known by their algorithm, whatever the lease.
bool is_of_window(const Limit& a, const Limit& b) {
  const bool of_places =
      a.algorithm == Algorithm::concurrency || b.algorithm == Algorithm::concurrency;
  return of_places ? limit::same_kind(a, b) : limit::same_window(a, b);
}

}  // namespace

std::optional<MergedLimits> merge_limits(std::span<const Limit> of_rule, std::span<const Limit> own,
                                         size_t& wrong) {
  MergedLimits merged{{of_rule.begin(), of_rule.end()}, 0};
  for (wrong = 0; wrong < own.size(); ++wrong) {
    const Limit& one = own[wrong];
    size_t of_window = 0, of_both = 0, at = 0, at_both = 0;
    for (size_t i = 0; i < of_rule.size(); ++i) {
      if (!has_counter(of_rule[i].algorithm) || !is_of_window(of_rule[i], one)) continue;
      ++of_window;
      at = i;
      if (of_rule[i].algorithm != one.algorithm) continue;
      ++of_both;
      at_both = i;
    }
    if (of_window > 1) at = at_both;
    if (of_window == 0 || (of_window > 1 && of_both != 1)) return std::nullopt;
    const auto bit = static_cast<policy::OwnLimits>(1u << at);
    if ((merged.own & bit) != 0) return std::nullopt;
    merged.own |= bit;
    merged.limits[at] = one;
  }
  return merged;
}

std::vector<Limit> own_limits(std::span<const Limit> limits, policy::OwnLimits own) {
  std::vector<Limit> list;
  for (size_t i = 0; i < limits.size(); ++i)
    if ((own >> i & 1) != 0) list.push_back(limits[i]);
  return list;
}

std::string window_words(std::span<const Limit> limits) {
  std::string words;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (i > 0) words += i + 1 < limits.size() ? ", " : " and ";
    const bool has_window = limits[i].window.us > 0;
    if (limits[i].algorithm == Algorithm::concurrency) {
      words += "none (concurrency)";
      continue;
    }
    words += has_window ? exact_window_text(limits[i]) : "none";
    const bool shared = std::count_if(limits.begin(), limits.end(), [&](const Limit& other) {
                          return is_of_window(other, limits[i]);
                        }) > 1;
    if (shared || !has_window)
      words += " (" + std::string(limit::name_of(limits[i].algorithm)) + ")";
  }
  return words;
}

policy::Override compiled(const StoredOverride& one, const request::Spaces& spaces) {
  policy::Override made;
  made.rule = one.rule->id;
  made.actor = one.values();
  made.set = one.created;
  made.terms.id = one.id();
  made.terms.until = one.until;
  made.terms.limits_id = one.limits.id();
  made.terms.limits = spaces.limits(one.limits.id());
  made.terms.own = one.own;
  made.terms.space = one.space.get();
  return made;
}

namespace {

// The algorithm of the limit that this one replaces; nothing: that is not known by its window.
std::optional<Algorithm> algorithm_replaced(const wire::Json& json,
                                            std::span<const Limit> of_rule) {
  const auto at = json.is_object() ? json.find("window") : json.end();
  if (at == json.end() || !at->is_string()) return std::nullopt;
  const auto window = base::parse_duration(at->get_ref<const std::string&>());
  std::optional<Algorithm> found;
  for (const Limit& one : of_rule) {
    if (!window || !limit::has_counter(one.algorithm) || one.calendar ||
        one.algorithm == Algorithm::concurrency || one.window != *window)
      continue;
    if (found && *found != one.algorithm) return std::nullopt;
    found = one.algorithm;
  }
  return found;
}

// Puts the rule's other limits beside those of a request, where it replaces only some. `field_of`
// names the place of each of the request's.
template <class FieldOf>
OverrideProblem merge(const NamedRule& rule, std::vector<Limit>& limits, policy::OwnLimits& own,
                      FieldOf&& field_of) {
  own = 0;
  if (rule.limits.empty()) return {};
  size_t at = 0;
  if (auto merged = merge_limits(rule.limits, limits, at)) {
    limits = std::move(merged->limits);
    own = merged->own;
    return {};
  }
  if (rule.limits.size() == 1) return {};  // it is clear which one is meant
  const auto same_window = [&](const Limit& one) { return is_of_window(one, limits[at]); };
  const bool is_known = std::any_of(rule.limits.begin(), rule.limits.end(), same_window);
  return wrong(field_of(at) + ".window",
               (is_known ? "does not tell which limit of the rule is meant: "
                         : "is that of none of the rule's limits: ") +
                   std::string("their windows are ") + window_words(rule.limits) +
                   "; give one of these" + (is_known ? " and its algorithm, each once" : "") +
                   ", or replace all limits of the rule (\"all_limits\": true, --all-limits)");
}

}  // namespace

OverrideProblem read_limits(const wire::Json& body, const NamedRule& rule,
                            std::vector<Limit>& limits, policy::OwnLimits& own) {
  own = 0;
  static constexpr std::array<const char*, 4> keys = {"limit", "limits", "unlimited", "deny"};
  const auto given =
      std::count_if(keys.begin(), keys.end(), [&](const char* key) { return body.contains(key); });
  if (given != 1)
    return wrong(given == 0 ? "limit" : "limits",
                 "write exactly one of \"limit\": {\"quota\": N, \"window\": \"1s\"}, \"limits\": "
                 "[...], \"unlimited\": true and \"deny\": true");
  const bool all = body.contains("all_limits") && body.at("all_limits") == true;
  if (body.contains("all_limits") && !body.at("all_limits").is_boolean())
    return wrong("all_limits", "can only be true or false");
  for (const Algorithm bare : {Algorithm::unlimited, Algorithm::deny}) {
    const std::string key(limit::name_of(bare));
    if (!body.contains(key)) continue;
    if (body.at(key) != true) return wrong(key, "can only be true");
    limits = {{bare, bare == Algorithm::deny ? 0 : base::bounds::quota_max, {}}};
    return check_limits(limits, rule.rules_of);
  }
  if (body.contains("limit")) {
    limits.resize(1);
    const Algorithm usual = algorithm_replaced(body.at("limit"), rule.limits).value_or(rule.usual);
    if (auto problem = read_limit(body.at("limit"), "limit", usual, limits[0])) return problem;
    if (!all)
      if (auto problem = merge(rule, limits, own, [](size_t) { return std::string("limit"); }))
        return problem;
    auto problem = check_limits(limits, rule.rules_of);
    if (problem.field.starts_with("limits[0]"))
      problem.field.replace(0, sizeof "limits[0]" - 1, "limit");
    else if (problem)
      problem.field = "limit";
    return problem;
  }
  const wire::Json& list = body.at("limits");
  if (!list.is_array() || list.empty() || list.size() > limit::slots_max)
    return wrong("limits",
                 "must be a list of 1 to " + std::to_string(limit::slots_max) + " limits");
  const auto field_of = [](size_t i) { return "limits[" + std::to_string(i) + "]"; };
  std::vector<size_t> places;
  for (size_t i = 0; i < list.size(); ++i) {
    // As answers have those that stay the rule's: an answer may be sent back.
    if (!all && list[i].is_object() && list[i].value("of_rule", wire::Json()) == true) continue;
    places.push_back(i);
    const Algorithm usual = algorithm_replaced(list[i], rule.limits).value_or(rule.usual);
    if (auto problem = read_limit(list[i], field_of(i), usual, limits.emplace_back()))
      return problem;
  }
  if (limits.empty()) return wrong("limits", "has only limits that stay the rule's");
  if (!all)
    if (auto problem = merge(rule, limits, own, [&](size_t i) { return field_of(places[i]); }))
      return problem;
  return check_limits(limits, rule.rules_of);
}

namespace {

// Reads a value of one key: a text, or a list of texts. Gives its name.
OverrideProblem read_value(const wire::Json& json, const std::string& field, std::string& name) {
  const bool is_text = json.is_string();
  const auto is_string = [](const wire::Json& one) { return one.is_string(); };
  if ((!is_text && !json.is_array()) || !std::all_of(json.begin(), json.end(), is_string))
    return wrong(field, "must be a text, or a list of texts");
  const std::vector<std::string> list(json.begin(), json.end());
  const auto value =
      is_text ? policy::ActorValue::read(list.front()) : policy::ActorValue::of_list(list);
  if (!value) return wrong(field, value.problem().text);
  name = value->name();
  return {};
}
}  // namespace

OverrideProblem read_actor(const wire::Json& body, std::span<const std::string> keys,
                           std::vector<std::string>& values) {
  const auto names = [&] {
    std::string all;
    for (const std::string& key : keys) all += (all.empty() ? "`" : ", `") + key + "`";
    return all;
  };
  const auto at = body.find("actor");
  if (at == body.end()) {
    if (keys.empty()) return {};
    return wrong("actor", "is missing; the rule's actor is " + names());
  }
  if (at->is_string()) {
    auto read = policy::read_actor_name(at->get_ref<const std::string&>(), keys);
    if (!read) return wrong("actor", read.problem().text);
    values = *std::move(read);
    return check_size(values);
  }
  if (at->is_array() && keys.size() == 1) {
    if (auto problem = read_value(*at, "actor", values.emplace_back())) return problem;
    return check_size(values);
  }
  if (!at->is_object())
    return wrong("actor", keys.size() > 1 ? "must be a text, or an object with the keys " + names()
                                          : "must be a text, a list of texts, or an object");
  for (const auto& [key, value] : at->items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    return wrong("actor." + key, keys.empty()
                                     ? "the rule has no actor, all requests share one counter"
                                     : "is not a key of the rule's actor, which is " + names());
  }
  for (const std::string& key : keys) {
    if (!at->contains(key)) return wrong("actor." + key, "is missing; `*` stands for any value");
    if (auto problem = read_value(at->at(key), "actor." + key, values.emplace_back()))
      return problem;
  }
  return check_size(values);
}

OverrideProblem read_until(const wire::Json& body, base::Time now, base::Time& until) {
  until = {INT64_MAX};
  const auto at = body.find("until");
  if (at == body.end() || at->is_null()) return {};
  const auto time = at->is_string() ? base::parse_rfc3339(at->get_ref<const std::string&>())
                                    : std::optional<base::Time>();
  if (!time)
    return wrong("until", "must be a time as \"2026-11-27T00:00:00Z\"; leave it out for ever");
  if (*time <= now) return wrong("until", "has passed: here it is " + base::format_rfc3339(now));
  until = *time;
  return {};
}

OverrideProblem read_comment(const wire::Json& body, std::string& comment) {
  comment.clear();
  const auto at = body.find("comment");
  if (at == body.end() || at->is_null()) return {};
  if (!at->is_string()) return wrong("comment", "must be a text");
  comment = at->get<std::string>();
  if (comment.size() <= base::bounds::override_comment_bytes_max) return {};
  return wrong("comment", "has " + std::to_string(comment.size()) + " bytes; " +
                              std::to_string(base::bounds::override_comment_bytes_max) +
                              " is the most");
}

wire::Json to_json(const limit::Limit& limit) {
  wire::Json json{{"algorithm", limit::name_of(limit.algorithm)}, {"quota", limit.quota}};
  if (limit.calendar) {
    // As policies spell it, so that it can be sent again.
    json["window"] = name_of(limit.calendar.unit());
    for (const auto& [key, value] : limit.calendar.members()) json[std::string(key)] = value;
  } else if (limit.algorithm == Algorithm::concurrency) {
    json["lease"] = base::spell_duration(limit.window);
    json["lease_ms"] = static_cast<double>(limit.window.us) / 1000;
    json["max_lease"] = base::spell_duration({limit.burst});
    return json;
  } else if (limit.window.us > 0) {
    json["window"] = base::spell_duration(limit.window);
    json["window_ms"] = static_cast<double>(limit.window.us) / 1000;
  }
  if (limit.burst > 0) json["burst"] = limit.burst;
  return json;
}

wire::Json to_json(const StoredOverride& one, const request::Spaces& spaces, bool applies) {
  wire::Json json{
      {"id", id_text(one.id())}, {"dialect", one.rule->dialect}, {"rule", one.rule->name}};
  json["actor"] = policy::override_name(one.actor, one.rule->actor);
  json["limits"] = wire::Json::array();
  const auto limits = spaces.limits(one.limits.id());
  for (size_t i = 0; i < limits.size(); ++i) {
    wire::Json limit = to_json(limits[i]);
    if (one.own != 0 && (one.own >> i & 1) == 0) limit["of_rule"] = true;
    json["limits"].push_back(std::move(limit));
  }
  json["all_limits"] = one.own == 0;
  if (one.until.us != INT64_MAX) json["until"] = base::format_rfc3339(one.until);
  if (!one.comment.empty()) json["comment"] = one.comment;
  json["created"] = base::format_rfc3339({one.created.us / 1'000'000 * 1'000'000});
  json["applies"] = applies;
  return json;
}

std::string persisted_text(const StoredOverride& one, std::span<const Limit> limits) {
  wire::Json json{{"v", persisted_version},      {"dialect", one.rule->dialect},
                  {"rule", one.rule->name},      {"entries", one.rule->actor},
                  {"actor", one.actor},          {"limits", wire::Json::array()},
                  {"created_us", one.created.us}};
  for (const Limit& limit : limits)
    json["limits"].push_back(
        {limit.calendar ? limit.calendar.text() : std::string(limit::name_of(limit.algorithm)),
         limit.quota, limit.window.us, limit.burst});
  if (one.until.us != INT64_MAX) json["until_us"] = one.until.us;
  if (!one.comment.empty()) json["comment"] = one.comment;
  if (!one.rule->prefix.empty()) json["prefix"] = one.rule->prefix;
  for (size_t i = 0; i < limits.size(); ++i)
    if ((one.persisted_own >> i & 1) != 0) json["replaces"].push_back(i);
  return json.dump(-1, ' ', false, wire::Json::error_handler_t::replace);
}

namespace {

// What stands in a kept text, taken as it is read: a document made of a million of them would be
// most of a start's time. What is of another kind than it should be counts as missing.
struct Persisted {
  struct Numbers {
    std::string name;
    std::array<int64_t, 3> values{};
    size_t size = 0;  // 4: it is whole
  };
  std::optional<int64_t> version, until_us, created_us;
  std::optional<std::string> dialect, rule, actor, comment, prefix;
  std::optional<std::vector<std::string>> entries;
  std::optional<std::vector<Numbers>> limits;
  uint64_t replaces = 0;  // bit i: `limits[i]` is its own
  bool entries_are_texts = true, replaces_are_numbers = true, is_object = false;
};

class PersistedReader {
 public:
  explicit PersistedReader(Persisted& kept) : kept_(kept) {}

  bool key(std::string& name) {
    if (path_ == "{") key_ = std::move(name);
    return true;
  }
  bool string(std::string& text) {
    if (path_ == "{") {
      if (auto* const field = text_field()) *field = std::move(text);
    } else if (path_ == "{[" && key_ == "entries") {
      kept_.entries->push_back(std::move(text));
    } else if (Persisted::Numbers* const limit = open_limit();
               limit != nullptr && limit->size == 0) {
      limit->name = std::move(text);
      limit->size = 1;
    } else {
      return odd();
    }
    return true;
  }
  bool number_integer(int64_t n) {
    Persisted::Numbers* const limit = open_limit();
    if (path_ == "{") {
      if (auto* const field = number_field()) *field = n;
    } else if (path_ == "{[" && key_ == "replaces") {
      if (n < 0 || n >= int64_t{limit::slots_max}) return odd();
      kept_.replaces |= uint64_t{1} << n;
    } else if (limit != nullptr && limit->size >= 1 && limit->size <= limit->values.size()) {
      limit->values[limit->size++ - 1] = n;
    } else {
      return odd();
    }
    return true;
  }
  bool number_unsigned(uint64_t n) { return number_integer(static_cast<int64_t>(n)); }
  bool null() { return odd(); }
  bool boolean(bool) { return odd(); }
  bool number_float(double, const std::string&) { return odd(); }
  bool binary(wire::Json::binary_t&) { return odd(); }
  bool start_object(size_t) {
    odd();
    kept_.is_object = kept_.is_object || path_.empty();
    path_ += '{';
    return true;
  }
  bool start_array(size_t) {
    if (path_ == "{" && key_ == "entries") kept_.entries.emplace();
    if (path_ == "{" && key_ == "limits") kept_.limits.emplace();
    if (path_ == "{[" && key_ == "limits")
      kept_.limits->emplace_back();
    else
      odd();
    path_ += '[';
    return true;
  }
  bool end_object() { return end_array(); }
  bool end_array() {
    path_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const wire::Json::exception&) { return false; }

 private:
  std::optional<std::string>* text_field() {
    return key_ == "dialect"   ? &kept_.dialect
           : key_ == "rule"    ? &kept_.rule
           : key_ == "actor"   ? &kept_.actor
           : key_ == "comment" ? &kept_.comment
           : key_ == "prefix"  ? &kept_.prefix
                               : nullptr;
  }
  std::optional<int64_t>* number_field() {
    return key_ == "v"            ? &kept_.version
           : key_ == "until_us"   ? &kept_.until_us
           : key_ == "created_us" ? &kept_.created_us
                                  : nullptr;
  }
  Persisted::Numbers* open_limit() {
    return path_ == "{[[" && key_ == "limits" ? &kept_.limits->back() : nullptr;
  }
  // Something that has no business where it stands.
  bool odd() {
    if (path_.size() < 2) return true;
    if (key_ == "entries") kept_.entries_are_texts = false;
    if (key_ == "replaces") kept_.replaces_are_numbers = false;
    if (key_ != "limits" || !kept_.limits) return true;
    if (kept_.limits->empty() || path_ == "{[") kept_.limits->emplace_back();
    kept_.limits->back().size = SIZE_MAX;
    return true;
  }

  Persisted& kept_;
  std::string path_;  // what is open: '{' and '['
  std::string key_;   // of the outermost object
};

// One of `persisted_text`. False: it is none that could be served.
bool read_persisted_limit(const Persisted::Numbers& kept, Limit& limit) {
  if (kept.size != 1 + kept.values.size()) return false;
  bool known = false;
  for (const Algorithm a :
       {Algorithm::unlimited, Algorithm::deny, Algorithm::fixed_window, Algorithm::aligned_window,
        Algorithm::token_bucket, Algorithm::sliding_window, Algorithm::sliding_log,
        Algorithm::fixed_bucket, Algorithm::concurrency}) {
    if (limit::name_of(a) != kept.name) continue;
    limit.algorithm = a;
    known = true;
  }
  limit.quota = kept.values[0];
  limit.window = {kept.values[1]};
  limit.burst = kept.values[2];
  if (const auto terms = limit::parse_calendar(kept.name)) {
    known = true;
    limit.algorithm = Algorithm::aligned_window;
    limit.window = limit::Calendar::nominal(terms->unit);
    limit.calendar = limit::Calendar::of(*terms).calendar;
    if (!limit.calendar) return false;
  }
  if (!known || limit.quota < 0 || limit.quota > base::bounds::quota_max) return false;
  if (limit.algorithm == Algorithm::concurrency) {
    if (limit.burst < limit.window.us || limit.burst > base::bounds::window_us_max) return false;
  } else if (is_bucket(limit) ? limit.burst < 1 || limit.burst > base::bounds::quota_max
                              : limit.burst != 0) {
    return false;
  }
  if (!limit::has_counter(limit.algorithm)) return limit.window.us == 0;
  if (limit.quota < 1) return false;
  if (limit.algorithm == Algorithm::fixed_bucket)
    return limit.window.us == 0 && limit.burst == limit.quota;
  return limit.window.us >= 1 && limit.window.us <= base::bounds::window_us_max;
}

}  // namespace

base::Result<OverrideRequest> read_persisted(std::string_view name, std::string_view text) {
  const auto refuse = [](std::string what) { return base::Problem{std::move(what)}; };
  Persisted kept;
  PersistedReader reader(kept);
  if (!wire::Json::sax_parse(text, &reader) || !kept.is_object)
    return refuse("it is not a JSON object");
  if (kept.version != persisted_version)
    return refuse("it is of another version than " + std::to_string(persisted_version));
  NamedRule rule;
  OverrideRequest asked;
  StoredOverride& one = asked.one;
  if (!kept.dialect || !kept.rule || !kept.actor || !kept.entries || !kept.limits)
    return refuse("it lacks what an override has");
  if (!kept.entries_are_texts) return refuse("its entries are not texts");
  rule.actor = std::move(*kept.entries);
  rule.dialect = std::move(*kept.dialect);
  rule.name = std::move(*kept.rule);
  rule.prefix = std::move(kept.prefix).value_or("");
  rule.id = policy::rule_id(rule.dialect, rule.name, rule.actor);
  rule.rules_of = protocol::find_dialect(rule.dialect);
  const bool has_space = rule.rules_of != nullptr && rule.rules_of->override_space != nullptr;
  if (has_space && rule.prefix.empty()) return refuse("it lacks its prefix");
  std::vector<Limit>& list = asked.limits;
  list.resize(kept.limits->size());
  for (size_t i = 0; i < list.size(); ++i)
    if (!read_persisted_limit((*kept.limits)[i], list[i]))
      return refuse("its limit " + std::to_string(i) + " is none");
  if (const auto problem = check_limits(list, rule.rules_of))
    return refuse(problem.field + ": " + problem.why);
  if (!kept.replaces_are_numbers || kept.replaces >> list.size() != 0)
    return refuse("it says of no limit of its own that it replaces one");
  one.persisted_own = static_cast<policy::OwnLimits>(kept.replaces);
  const auto values = policy::key_values(*kept.actor, rule.actor.size());
  if (!values) return refuse("its actor does not fit its entries");
  for (const std::string& value : *values)
    if (const auto read = policy::ActorValue::read(value, true); !read)
      return refuse("actor: " + read.problem().text);
  if (const auto problem = check_size(*values)) return refuse(problem.field + ": " + problem.why);
  one.actor = std::move(*kept.actor);
  one.until = {kept.until_us.value_or(INT64_MAX)};
  one.created = {kept.created_us.value_or(0)};
  one.comment = std::move(kept.comment).value_or("");
  one.rule = std::make_shared<const NamedRule>(std::move(rule));
  if (id_text(one.id()) != name) return refuse("it is kept under another name than its own");
  return asked;
}

}  // namespace sluice::live
