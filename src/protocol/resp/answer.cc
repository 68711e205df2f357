#include "protocol/resp/answer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/bounds.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "config/command_io.h"
#include "config/screen_text.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/reply_text.h"

namespace sluice::resp {
namespace {

using Kind = RespValue::Kind;
using nlohmann::ordered_json;

struct KnownCommand {
  std::string_view word;  // its short form; empty: none
  std::string_view name;
  ReplyForm form;
};

constexpr KnownCommand known_commands[] = {
    {"take", "SLUICE.TAKE", ReplyForm::take},
    {"charge", "SLUICE.CHARGE", ReplyForm::charge},
    {"peek", "SLUICE.PEEK", ReplyForm::take},
    {"put", "SLUICE.PUT", ReplyForm::put},
    {"reset", "SLUICE.RESET", ReplyForm::reset},
    {"explain", "SLUICE.EXPLAIN", ReplyForm::explain},
    {"info", "SLUICE.INFO", ReplyForm::info},
    {"wait", "SLUICE.WAIT", ReplyForm::verdict},
    {"mtake", "SLUICE.MTAKE", ReplyForm::verdict},
    {"reserve", "SLUICE.RESERVE", ReplyForm::hold},
    {"mreserve", "SLUICE.MRESERVE", ReplyForm::verdict},
    {"acquire", "SLUICE.ACQUIRE", ReplyForm::hold},
    {"extend", "SLUICE.EXTEND", ReplyForm::hold},
    {"commit", "SLUICE.COMMIT", ReplyForm::commit},
    {"release", "SLUICE.RELEASE", ReplyForm::release},
    {"renew", "SLUICE.RENEW", ReplyForm::renew},
    {"", "CL.THROTTLE", ReplyForm::cell},
    {"", "GCRA", ReplyForm::cell},
    {"", "THROTTLE", ReplyForm::throttle},
};

// `count` units of `unit_us` microseconds; a negative count means never.
base::Duration length_of(int64_t count, int64_t unit_us) {
  if (count < 0 || count > INT64_MAX / unit_us) return base::never;
  return {count * unit_us};
}

// The value of a key in a map, or in the flat list that RESP2 uses for a map; null: the key is
// missing.
const RespValue* value_of(const RespValue& map, std::string_view key) {
  if (map.kind != Kind::map && map.kind != Kind::list) return nullptr;
  for (size_t i = 0; i + 1 < map.items.size(); i += 2)
    if (map.items[i].is_text() && map.items[i].text == key) return &map.items[i + 1];
  return nullptr;
}

std::optional<int64_t> integer_of(const RespValue& map, std::string_view key) {
  const RespValue* const value = value_of(map, key);
  if (value == nullptr || !value->is_integer()) return std::nullopt;
  return value->number;
}

std::optional<std::string> text_of(const RespValue& map, std::string_view key) {
  const RespValue* const value = value_of(map, key);
  if (value == nullptr || !value->is_text()) return std::nullopt;
  return value->text;
}

// "4 of 5 left, all of them again within 15s"
std::string level_words(int64_t remaining, int64_t limit, std::optional<base::Duration> reset) {
  std::string text = std::to_string(remaining) + " of " + std::to_string(limit) + " left";
  if (!reset || reset->us == 0) return text;
  return text + (*reset == base::never
                     ? ", more only when they are put back"
                     : ", all of them again within " + base::format_duration(*reset));
}

// "0 of 5 left, try again in 15s"
std::string refusal_words(int64_t remaining, int64_t limit, base::Duration retry) {
  return std::to_string(remaining) + " of " + std::to_string(limit) + " left, " +
         (retry == base::never ? "and waiting does not help"
                               : "try again in " + base::format_duration(retry));
}

std::string decision_words(const AskedDecision& d) {
  // An unlimited rule answers quota_max. A real limit of that size would have less left after a
  // take.
  if (d.allowed && d.remaining == base::bounds::quota_max) return "unlimited";
  return d.allowed ? level_words(d.remaining, d.limit, d.reset_after)
                   : refusal_words(d.remaining, d.limit, d.retry_after);
}

std::string verdict_words(bool allowed, bool coloured) {
  return allowed ? config::paint("allowed", config::green, coloured)
                 : config::paint("denied", config::red, coloured);
}

// The duration in whole units, as JSON shows it; -1: never.
int64_t counted_in(base::Duration length, int64_t unit_us) {
  return length == base::never ? -1 : length.us / unit_us;
}

ordered_json json_of_decision(ReplyForm form, const AskedDecision& d, bool has_rule) {
  const bool in_ms = form == ReplyForm::take;
  const int64_t unit_us = in_ms ? 1'000 : 1'000'000;
  const std::string unit = in_ms ? "_ms" : "_seconds";
  ordered_json json{{"allowed", d.allowed},
                    {"limit", d.limit},
                    {"remaining", d.remaining},
                    {"retry_after" + unit, counted_in(d.retry_after, unit_us)}};
  if (d.reset_after) json["reset_after" + unit] = counted_in(*d.reset_after, unit_us);
  if (has_rule) json["rule"] = d.rule.empty() ? ordered_json() : ordered_json(d.rule);
  return json;
}

std::optional<AskedAnswer> answer_of_decision(ReplyForm form, const RespValue& reply, bool json,
                                              bool coloured) {
  const auto decision = read_decision(form, reply);
  if (!decision) return std::nullopt;
  AskedAnswer answer{{}, !decision->allowed};
  if (json)
    answer.text = cli::to_text(json_of_decision(form, *decision, reply.items.size() == 6));
  else
    answer.text = words_for(*decision, coloured) + "\n";
  return answer;
}

// "over: 15 beyond 100, one unit again in 9s (rule tokens)"
std::optional<AskedAnswer> answer_of_charge(const RespValue& reply, bool json, bool coloured) {
  const size_t size = reply.items.size();
  if (!reply.is_list() || size < 6 || size > 8) return std::nullopt;
  std::array<int64_t, 6> six{};
  for (size_t i = 0; i < six.size(); ++i) {
    if (!reply.items[i].is_integer()) return std::nullopt;
    six[i] = reply.items[i].number;
  }
  const auto [within, limit, remaining, retry_ms, reset_ms, debt] = six;
  if (within != 0 && within != 1) return std::nullopt;
  const bool has_rule = size > 6 && !reply.items[6].is_integer(), over = within == 0;
  // Servers before `charged` do not tell it.
  const bool has_charged = size > 6 && reply.items.back().is_integer();
  if (size != 6u + (has_rule ? 1 : 0) + (has_charged ? 1 : 0)) return std::nullopt;
  const std::string rule = has_rule ? reply.items[6].text : std::string();
  AskedAnswer answer{{}, over};
  if (json) {
    ordered_json object{{"over", over},
                        {"limit", limit},
                        {"remaining", remaining},
                        {"retry_after_ms", retry_ms},
                        {"reset_after_ms", reset_ms},
                        {"debt", debt}};
    if (has_rule) object["rule"] = rule.empty() ? ordered_json() : ordered_json(rule);
    if (has_charged) object["charged"] = reply.items.back().number;
    answer.text = cli::to_text(object);
    return answer;
  }
  answer.text =
      over ? config::paint("over", config::red, coloured) + ": " + std::to_string(debt) +
                 " beyond " + std::to_string(limit) +
                 (retry_ms < 0
                      ? ", and waiting does not help"
                      : ", one unit again in " + base::format_duration(length_of(retry_ms, 1'000)))
           : config::paint("within", config::green, coloured) + ": " +
                 (remaining == base::bounds::quota_max
                      ? "unlimited"
                      : std::to_string(remaining) + " of " + std::to_string(limit) + " left");
  if (!rule.empty()) answer.text += " (rule " + config::on_screen(rule) + ")";
  answer.text += "\n";
  return answer;
}

// An integer, or nothing for a null; false: it is neither.
bool read_optional(const RespValue& item, std::optional<int64_t>& to) {
  if (item.is_integer()) to = item.number;
  return item.is_integer() || item.kind == Kind::null;
}

ordered_json json_of_optional(const std::optional<int64_t>& number) {
  return number ? ordered_json(*number) : ordered_json();
}

// "held: 500 for 1m, 8300 of 10000 left, id ID"; `reserved` has the units with WITHUNITS.
std::optional<AskedAnswer> answer_of_hold(const RespValue& reply, bool json, bool coloured) {
  if (reply.kind == Kind::null)
    return AskedAnswer{json ? cli::to_text({{"allowed", false}, {"timed_out", true}})
                            : config::paint("denied", config::red, coloured) +
                                  ": there were not enough units in time\n",
                       true};
  const auto& items = reply.items;
  if (!reply.is_list() || items.size() < 5 || items.size() > 6) return std::nullopt;
  const RespValue& id = items[1];
  std::optional<int64_t> limit, remaining;
  if (!items[0].is_integer() || items[0].number < 0 || items[0].number > 1 ||
      !(id.is_text() || id.kind == Kind::null) || !read_optional(items[2], limit) ||
      !read_optional(items[3], remaining) || !items[4].is_integer())
    return std::nullopt;
  const bool denied = items[0].number == 0, is_held = id.is_text();
  const int64_t ms = items[4].number;
  std::string units;
  if (items.size() == 6) {
    if (!items[5].is_list()) return std::nullopt;
    for (const RespValue& one : items[5].items) {
      if (!one.is_integer()) return std::nullopt;
      units += (units.empty() ? "" : " and ") + std::to_string(one.number);
    }
  }
  if (json) {
    ordered_json object{{"allowed", !denied},
                        {"id", is_held ? ordered_json(id.text) : ordered_json()},
                        {"limit", json_of_optional(limit)},
                        {"remaining", json_of_optional(remaining)},
                        {denied ? "retry_after_ms" : "ttl_ms", ms}};
    if (items.size() == 6) object["reserved"] = json_of(items[5]);
    return AskedAnswer{cli::to_text(object), denied};
  }
  std::string words;
  if (denied) {
    words = verdict_words(false, coloured) + ": ";
    words += limit && remaining ? refusal_words(*remaining, *limit, length_of(ms, 1'000))
                                : "waiting does not help";
    return AskedAnswer{words + "\n", true};
  }
  words = config::paint(is_held ? "held" : "allowed", config::green, coloured);
  words += is_held ? (units.empty() ? "" : ": " + units) + " for " +
                         base::format_duration(length_of(ms, 1'000))
                   : ", but nothing is held: charge what is used";
  if (limit && remaining)
    words += ", " + std::to_string(*remaining) + " of " + std::to_string(*limit) + " left";
  if (is_held) words += ", id " + config::on_screen(id.text);
  return AskedAnswer{words + "\n"};
}

// "committed: 3300 went back, 10 charged, 8800 left, late"
std::optional<AskedAnswer> answer_of_commit(const RespValue& reply, bool json, bool coloured) {
  if (!reply.is_list() || reply.items.size() != 5) return std::nullopt;
  std::array<int64_t, 4> four{};
  for (size_t i = 0; i < four.size(); ++i) {
    if (!reply.items[i].is_integer()) return std::nullopt;
    four[i] = reply.items[i].number;
  }
  const auto [changed, late, returned, charged] = four;
  std::optional<int64_t> remaining;
  if (!read_optional(reply.items[4], remaining)) return std::nullopt;
  if (json)
    return AskedAnswer{cli::to_text({{"changed", changed != 0},
                                     {"late", late != 0},
                                     {"returned", returned},
                                     {"charged", charged},
                                     {"remaining", json_of_optional(remaining)}})};
  std::string words = config::paint("committed", config::green, coloured) + ": " +
                      std::to_string(returned) + " went back";
  if (charged != 0) words += ", " + std::to_string(charged) + " charged";
  if (remaining) words += ", " + std::to_string(*remaining) + " left";
  if (late != 0) words += ", late";
  if (changed == 0) words += ", committed before";
  return AskedAnswer{words + "\n"};
}

std::optional<AskedAnswer> answer_of_release(const RespValue& reply, bool json, bool coloured) {
  if (!reply.is_integer() || reply.number < 0) return std::nullopt;
  if (json) return AskedAnswer{cli::to_text({{"returned", reply.number}})};
  return AskedAnswer{config::paint("released", config::green, coloured) + ": " +
                     std::to_string(reply.number) + " went back\n"};
}

std::optional<AskedAnswer> answer_of_renew(const RespValue& reply, bool json) {
  if (!reply.is_integer() || reply.number < 0) return std::nullopt;
  if (json) return AskedAnswer{cli::to_text({{"ttl_ms", reply.number}})};
  return AskedAnswer{"renewed: ends in " + base::format_duration(length_of(reply.number, 1'000)) +
                     "\n"};
}

std::optional<AskedAnswer> answer_of_put(const RespValue& reply, bool json) {
  if (!reply.is_list() || reply.items.size() != 2 || !reply.items[0].is_integer() ||
      !reply.items[1].is_integer())
    return std::nullopt;
  const int64_t remaining = reply.items[0].number, limit = reply.items[1].number;
  if (json) return AskedAnswer{cli::to_text({{"remaining", remaining}, {"limit", limit}})};
  return AskedAnswer{level_words(remaining, limit, {}) + "\n"};
}

std::optional<AskedAnswer> answer_of_reset(const RespValue& reply, bool json) {
  if (!reply.is_integer() || reply.number < 0) return std::nullopt;
  if (json) return AskedAnswer{cli::to_text({{"counters", reply.number}})};
  return AskedAnswer{base::counted(static_cast<uint64_t>(reply.number), "counter") + " reset\n"};
}

// One limit of an explanation: its description in words, and the item as it was received.
struct ExplainedLimit {
  std::string words;
  ordered_json json;
};

std::optional<ExplainedLimit> read_explained(const RespValue& told) {
  const auto counter = text_of(told, "counter"), algorithm = text_of(told, "algorithm");
  const char* const length_name = algorithm == "concurrency" ? "lease_ms" : "window_ms";
  const auto allowed = integer_of(told, "allowed"), limit = integer_of(told, "limit"),
             window = integer_of(told, length_name), remaining = integer_of(told, "remaining"),
             retry = integer_of(told, "retry_after_ms"), reset = integer_of(told, "reset_after_ms");
  if (!counter || !algorithm || !allowed || !limit || !window || !remaining || !retry || !reset)
    return std::nullopt;
  const AskedDecision decision{*allowed != 0, *limit, *remaining, length_of(*retry, 1'000),
                               length_of(*reset, 1'000)};
  ExplainedLimit explained;
  explained.words = "  " + *algorithm + " of " + config::on_screen(*counter) + ": " +
                    (decision.allowed ? "" : "denied, ") + decision_words(decision) + "\n";
  explained.json = {{"counter", *counter},      {"algorithm", *algorithm},
                    {"limit", *limit},          {length_name, *window},
                    {"allowed", *allowed != 0}, {"remaining", *remaining},
                    {"retry_after_ms", *retry}, {"reset_after_ms", *reset}};
  return explained;
}

std::optional<AskedAnswer> answer_of_explain(const RespValue& reply, bool json, bool coloured) {
  const auto allowed = integer_of(reply, "allowed");
  const auto rule = text_of(reply, "rule");
  const RespValue* const limits = value_of(reply, "limits");
  if (!allowed || !rule || limits == nullptr || !limits->is_list()) return std::nullopt;
  ordered_json document{{"allowed", *allowed != 0}, {"rule", *rule}, {"limits", nullptr}};
  document["limits"] = ordered_json::array();
  std::string lines = verdict_words(*allowed != 0, coloured);
  if (!rule->empty()) lines += " by the rule " + config::on_screen(*rule);
  lines += "\n";
  for (const RespValue& limit : limits->items) {
    auto explained = read_explained(limit);
    if (!explained) return std::nullopt;
    lines += explained->words;
    document["limits"].push_back(std::move(explained->json));
  }
  return AskedAnswer{json ? cli::to_text(document) : lines};
}

std::optional<AskedAnswer> answer_of_info(const RespValue& reply, bool json) {
  if ((reply.kind != Kind::map && reply.kind != Kind::list) || reply.items.empty() ||
      reply.items.size() % 2 != 0)
    return std::nullopt;
  ordered_json document;
  std::string lines;
  for (size_t i = 0; i < reply.items.size(); i += 2) {
    const RespValue &key = reply.items[i], &value = reply.items[i + 1];
    if (!key.is_text() || !(value.is_text() || value.is_integer())) return std::nullopt;
    document[key.text] = json_of(value);
    lines += config::on_screen(key.text) + ": " +
             (value.is_integer() ? std::to_string(value.number) : config::on_screen(value.text)) +
             "\n";
  }
  return AskedAnswer{json ? cli::to_text(document) : lines};
}

}  // namespace

AskedCommand asked_command(std::span<const std::string> words) {
  const std::string& first = words.front();
  for (const KnownCommand& known : known_commands)
    if ((!known.word.empty() && first == known.word) || is_word(first, known.name))
      return {known.name, known.form};
  return {first, ReplyForm::other};
}

std::vector<std::string_view> asked_words() {
  std::vector<std::string_view> words;
  for (const KnownCommand& known : known_commands)
    if (!known.word.empty()) words.push_back(known.word);
  return words;
}

bool is_denied(const RespValue& reply) {
  return !reply.is_list() || reply.items.empty() || !reply.items[0].is_integer() ||
         reply.items[0].number == 0;
}

std::optional<AskedDecision> read_decision(ReplyForm form, const RespValue& reply) {
  const bool may_name = form == ReplyForm::take;
  if (!reply.is_list() || reply.items.size() < 5 || reply.items.size() > (may_name ? 6u : 5u))
    return std::nullopt;
  std::array<int64_t, 5> five{};
  for (size_t i = 0; i < five.size(); ++i) {
    if (!reply.items[i].is_integer()) return std::nullopt;
    five[i] = reply.items[i].number;
  }
  if (five[0] != 0 && five[0] != 1) return std::nullopt;
  AskedDecision d;
  d.allowed = (five[0] == 0) == (form == ReplyForm::cell);
  d.limit = five[1];
  d.remaining = five[2];
  const int64_t unit_us = form == ReplyForm::take ? 1'000 : 1'000'000;
  // In THROTTLE's reply the wait comes last, and the number before it is not the time until the
  // counter is fresh.
  const bool swapped = form == ReplyForm::throttle;
  if (!d.allowed) d.retry_after = length_of(five[swapped ? 4 : 3], unit_us);
  if (!swapped) d.reset_after = length_of(five[4], unit_us);
  if (reply.items.size() == 6) d.rule = reply.items[5].text;
  return d;
}

std::string words_for(const AskedDecision& decision, bool coloured) {
  return verdict_words(decision.allowed, coloured) + ": " + decision_words(decision) +
         (decision.rule.empty() ? "" : " (rule " + config::on_screen(decision.rule) + ")");
}

std::optional<AskedAnswer> answer_to(ReplyForm form, const RespValue& reply, bool json,
                                     bool coloured) {
  switch (form) {
    case ReplyForm::take:
    case ReplyForm::cell:
    case ReplyForm::throttle:
      return answer_of_decision(form, reply, json, coloured);
    case ReplyForm::charge:
      return answer_of_charge(reply, json, coloured);
    case ReplyForm::put:
      return answer_of_put(reply, json);
    case ReplyForm::reset:
      return answer_of_reset(reply, json);
    case ReplyForm::explain:
      return answer_of_explain(reply, json, coloured);
    case ReplyForm::info:
      return answer_of_info(reply, json);
    case ReplyForm::hold:
      return answer_of_hold(reply, json, coloured);
    case ReplyForm::commit:
      return answer_of_commit(reply, json, coloured);
    case ReplyForm::release:
      return answer_of_release(reply, json, coloured);
    case ReplyForm::renew:
      return answer_of_renew(reply, json);
    case ReplyForm::verdict:
    case ReplyForm::other:
      break;
  }
  return std::nullopt;
}

}  // namespace sluice::resp
