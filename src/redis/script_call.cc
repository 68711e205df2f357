#include "redis/script_call.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <optional>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/calendar.h"
#include "limit/gcra.h"
#include "limit/wide.h"
#include "redis/arrival.h"
#include "redis/cluster_map.h"
#include "redis/window_text.h"

namespace sluice::redis {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using limit::Wide;
using request::Charge;
using request::Verb;

namespace {

// From here on the sum of two products is not exact in a double.
constexpr Wide product_max = Wide{1} << 52;
// From here on a double does not distinguish neighbouring whole numbers.
constexpr int64_t cost_max = int64_t{1} << 53;

// keep_fresh_for in ms, as scripts receive it: they keep every key a second longer than necessary.
int64_t keep_fresh_ms(base::Duration kept) {
  return std::max<int64_t>(0, kept.us / 1000 - 1000);
}

char letter_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::unlimited:
      return 'u';
    case Algorithm::deny:
      return 'd';
    case Algorithm::fixed_window:
      return 'f';
    case Algorithm::aligned_window:
      return 'a';
    case Algorithm::token_bucket:
      return 't';
    case Algorithm::sliding_window:
      return 's';
    case Algorithm::sliding_log:
      return 'l';
    case Algorithm::fixed_bucket:
      return 'b';
    case Algorithm::concurrency:
      return 'p';
    case Algorithm::gcra_cell:
      return 'c';
    case Algorithm::gcra_crab:
      return 'h';
    case Algorithm::gcra_redis:
      return 'g';
  }
  return 0;
}

bool is_wide(const Limit& limit) {
  switch (limit.algorithm) {
    case Algorithm::token_bucket:
      return Wide{limit.burst} * limit.window.us >= product_max / 2;
    case Algorithm::sliding_window:
    case Algorithm::sliding_log:
      return Wide{limit.quota} * limit.window.us >= product_max;
    case Algorithm::concurrency:
      return Wide{limit.quota} * limit.burst >= product_max;
    case Algorithm::gcra_cell:
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      return true;
    default:
      return false;
  }
}

template <class Integer>
std::string_view to_text(Integer number, std::array<char, 24>& room) {
  const auto end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return {room.data(), static_cast<size_t>(end - room.data())};
}

void append_head(std::string& out, char type, size_t number) {
  std::array<char, 24> room;
  out += type;
  out += to_text(number, room);
  out += "\r\n";
}

// The letter of a window of a calendar, and its number.
constexpr char calendar_letter = 'm';
int64_t number_of(limit::Calendar calendar) {
  static_assert(limit::Calendar::code_bits <= 53, "a double holds it");
  return static_cast<int64_t>(calendar.code());
}

void append_calendar_limit(std::string& out, const Limit& limit, std::string_view burst) {
  append_bulk(out, std::string_view(&calendar_letter, 1));
  append_bulk(out, limit.quota);
  append_bulk(out, number_of(limit.calendar));
  append_bulk(out, burst);
}

}  // namespace

std::string boundaries_of(const Limit& limit, limit::Time now) {
  limit::Calendar calendar = limit.calendar;
  const limit::Calendar::Window window = calendar.window(now);
  const auto at = [](int64_t us) { return std::to_string(std::max<int64_t>(us, 0)) + ','; };
  return at(calendar.find({window.start_us - 1}).start_us) + at(window.start_us) +
         at(window.end_us) + at(calendar.find({window.end_us}).end_us) +
         std::to_string(limit.window.us);
}

namespace {

void append_limit(std::string& out, char letter, const Limit& limit) {
  append_bulk(out, std::string_view(&letter, 1));
  append_bulk(out, limit.quota);
  append_bulk(out, limit.window.us);
  append_bulk(out, limit.burst);
}

// The verb's letters (lua_settle.cc). In capitals: the counter is forgotten first.
std::string_view verb_of(const Charge& charge) {
  constexpr std::string_view probe = "qqqqqqqq";
  if (charge.verb == Verb::peek) return charge.as_written ? "i" : "p";
  if (charge.verb == Verb::would_take)
    return probe.substr(0, std::min<size_t>(size_t{1} + charge.before, probe.size()));
  if (charge.refill) return "r";
  if (charge.verb == Verb::put) return charge.all ? "a" : "g";
  if (charge.verb == Verb::charge && !charge.keeps_limits) return "x";
  if (charge.verb == Verb::count && charge.follows) return charge.reset_first ? "F" : "f";
  if (charge.verb == Verb::count) return charge.reset_first ? "C" : "c";
  return charge.reset_first ? "T" : "t";
}

}  // namespace

std::string overdrafts_text(const Charge& charge) {
  std::string text;
  if (charge.overdrafts == nullptr) return text;
  for (size_t i = 0; i < charge.limits.size(); ++i) {
    text += ',';
    if (charge.overdraft_of(i) < limit::Overdrafts::none)
      text += std::to_string(charge.overdraft_of(i));
  }
  return text;
}

namespace {

void append_verb(std::string& out, const Charge& charge) {
  std::array<char, limit::slots_max> over;
  size_t count = 0;
  if (charge.verb == Verb::count)
    for (; count < charge.limits.size(); ++count)
      over[count] = limit::has(charge.counts, count) ? '1' : '0';
  std::string most_debt;
  if (request::may_bring_debt(charge.verb) && !charge.keeps_limits)
    most_debt = overdrafts_text(charge);
  append_bulk(out, verb_of(charge), std::string_view(over.data(), count), most_debt, {});
}

// Those that the call brings. A charge on a counter that keeps its limits is taken from all of
// them.
std::span<const Limit> limits_of(const Charge& charge) {
  const bool all = charge.keeps_limits && charge.verb == Verb::charge;
  return all ? std::span<const Limit>() : charge.limits;
}

// Takes the next number of a text of numbers between blanks; `n` means never.
std::optional<int64_t> next_number(std::string_view& text) {
  if (text.starts_with('n')) {
    text.remove_prefix(std::min<size_t>(text.size(), 2));
    return INT64_MAX;
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return number;
}

// The part of a limit that the text of a list contains.
Limit named(const Limit& limit) {
  using limit::gcra::is_gcra, limit::gcra::without_numbers;
  return is_gcra(limit.algorithm) ? without_numbers(limit.algorithm) : limit;
}

}  // namespace

void append_array(std::string& out, size_t size) {
  append_head(out, '*', size);
}

void append_bulk(std::string& out, std::string_view text) {
  append_head(out, '$', text.size());
  out += text;
  out += "\r\n";
}

void append_bulk(std::string& out, std::string_view a, std::string_view b, std::string_view c,
                 std::string_view d) {
  append_head(out, '$', a.size() + b.size() + c.size() + d.size());
  out += a;
  out += b;
  out += c;
  out += d;
  out += "\r\n";
}

void append_bulk(std::string& out, int64_t number) {
  std::array<char, 24> room;
  append_bulk(out, to_text(number, room));
}

std::string_view carry_word(limit::CarryOver carry) {
  switch (carry) {
    case limit::CarryOver::used:
      break;
    case limit::CarryOver::left:
      return "l";
    case limit::CarryOver::apart:
      return "a";
  }
  return "u";
}

void append_cost(std::string& out, const Charge& charge) {
  if (charge.costs == nullptr) return append_bulk(out, charge.cost);
  std::string costs;
  for (size_t i = 0; i < charge.limits.size(); ++i)
    costs += (i > 0 ? "," : "") + std::to_string(charge.costs[i]);
  append_bulk(out, costs);
}

const LimitText& LimitTexts::of(std::span<const Limit> limits, uint32_t limits_id) {
  LimitText& text = known_[limits_id];
  if (text.count > 0 && std::ranges::equal(text.limits, limits, {}, {}, named)) return text;
  text = {};
  std::ranges::transform(limits, std::back_inserter(text.limits), named);
  text.name = "s1";
  text.count = limits.size();
  for (const Limit& limit : text.limits) {
    if (limit.calendar) {
      text.name += ';';
      text.name += calendar_letter;
      text.name +=
          std::to_string(limit.quota) + ',' + std::to_string(number_of(limit.calendar)) + ",0";
      append_calendar_limit(text.arguments, limit, "0");
      text.has_calendar = true;
      continue;
    }
    const char letter = letter_of(limit.algorithm);
    text.name += ';';
    text.name += letter;
    text.name += std::to_string(limit.quota) + ',' + std::to_string(limit.window.us) + ',' +
                 std::to_string(limit.burst);
    append_limit(text.arguments, letter, limit);
    text.algorithms |= algorithm_bit(limit.algorithm);
    text.wide |= is_wide(limit);
    text.numbers_come_along |= limit::gcra::is_gcra(limit.algorithm);
  }
  return text;
}

const Script& script_of(const ScriptCall& ask, Scripts& scripts, LimitTexts& texts,
                        Weight& weight) {
  weight = ask.weight;
  Algorithms algorithms = 0;
  if (ask.id != nullptr)
    weight = std::max(weight, Weight::full);
  else if (!ask.receipts && std::ranges::all_of(ask.charges, window_text::holds))
    return scripts.window_text();
  if (Scripts::Arrival which; arrival::holds(ask, which)) return scripts.arrival(which);
  for (const Charge& charge : ask.charges) {
    if (window_text::holds(charge)) {
      weight = std::max(weight, Weight::full);
      continue;
    }
    if (charge.space->encoding == request::KeyEncoding::remaining_text) {
      if (ask.charges.size() == 1 && !ask.hold && !ask.receipts && weight == Weight::light &&
          charge.verb == Verb::take && !charge.reset_first && charge.cost < cost_max)
        return scripts.remaining_text();
      weight = std::max(weight, Weight::full);
      if (charge.cost >= cost_max) weight = Weight::wide;
      continue;
    }
    if (charge.keeps_limits) {
      weight = std::max(weight, Weight::full);
      for (const Limit& limit : charge.limits)
        if (Wide{limit.quota} * limit.window.us >= product_max) weight = Weight::wide;
      if (charge.cost >= cost_max || charge.cost <= -cost_max) weight = Weight::wide;
      continue;
    }
    if (charge.space->encoding == request::KeyEncoding::tat_text) {
      weight = Weight::wide;
      continue;
    }
    const LimitText& text = texts.of(charge.limits, charge.limits_id);
    algorithms |= text.algorithms;
    // The limits that the counter was written under may be wide.
    if (text.wide || charge.cost >= cost_max || charge.as_written) weight = Weight::wide;
    if (charge.verb == Verb::put || request::may_bring_debt(charge.verb) || charge.reset_first ||
        charge.costs != nullptr || text.has_calendar)
      weight = std::max(weight, Weight::full);
  }
  for (size_t i = 0; i < ask.ahead.size(); ++i) {
    if (ask.ahead[i] <= 0) continue;
    weight = std::max(weight, Weight::full);
    if (ask.charges[i].cost >= cost_max - ask.ahead[i]) weight = Weight::wide;  // their sum
  }
  return weight == Weight::light ? scripts.light(algorithms, ask.receipts)
                                 : scripts.full(weight == Weight::wide);
}

namespace {

void append_remaining(std::string& out, const ScriptCall& ask) {
  const Charge& charge = ask.charges.front();
  std::array<char, 24> quota, seconds;
  append_bulk(out, to_text(charge.limits.front().quota, quota), " ",
              to_text(charge.limits.front().window.us / 1'000'000, seconds), {});
  if (charge.cost != 1) append_bulk(out, charge.cost);
}

// The name of the charge's limits; for counters that other programs share, the name of their form.
std::string_view name_for(request::KeyEncoding encoding, const LimitText& text) {
  switch (encoding) {
    case request::KeyEncoding::own:
    case request::KeyEncoding::window_text:  // by limits of another kind
      break;
    case request::KeyEncoding::remaining_text:
      return "remaining";
    case request::KeyEncoding::tat_text:
      return "tat";
  }
  return text.name;
}

// The first argument.
std::string_view mode_of(const ScriptCall& ask) {
  if (ask.id != nullptr) return ask.receipts ? "0RI" : "0I";
  if (ask.looks) return "l";
  if (ask.receipts) return ask.hold ? "1R" : "0R";
  if (ask.sparing) return ask.hold ? "S" : "s";
  return ask.hold ? "1" : "0";
}

// Is the charge's counter not shared with other programs?
bool is_private(const Charge& charge) {
  return charge.space->encoding == request::KeyEncoding::own ||
         charge.space->encoding == request::KeyEncoding::window_text;
}

bool has_tag(const Charge& charge) {
  return is_private(charge) && !window_text::holds(charge);
}

// How long an id is remembered: ten minutes.
constexpr std::string_view id_life_ms = "600000";

// The key under which an id is remembered. Shadow rules are settled by themselves, counter by
// counter, so that each has a key of its own.
void append_id_key(std::string& out, const ScriptCall& ask) {
  std::string its(ask.key_prefix);
  if (ask.tagged) append_tag(its, std::ranges::find_if(ask.charges, has_tag)->key);
  const Charge& first = ask.charges.front();
  if (ask.is_shadow) its.append("shadow_id:").append(first.space->prefix).append(first.key);
  append_bulk(out, its, ask.is_shadow ? ":" : "id:", ask.id->name, "");
}

size_t head_size(const ScriptCall& ask) {
  return ask.key_prefix.size() + (ask.tagged ? tag_size : 0);
}

void append_window_key(std::string& out, const ScriptCall& ask, const Charge& charge) {
  thread_local std::string name;
  name.clear();
  window_text::append_name(name, charge, ask.now);
  append_bulk(out, name);
}

void append_window(std::string& out, const ScriptCall& ask, const Charge& charge) {
  using What = window_text::Room::What;
  const char letter = window_text::letter_of(charge);
  const window_text::Room room = window_text::room_for(charge);
  append_bulk(out, std::string_view(&letter, 1));
  append_bulk(out, charge.cost);
  if (room.what == What::at_most)
    append_bulk(out, room.units);
  else
    append_bulk(out, std::string_view(room.what == What::anything ? "y" : "n"));
  append_bulk(out, window_text::life_s(charge, ask.chance));
}

}  // namespace

std::string head_of(const ScriptCall& ask) {
  return std::to_string(head_size(ask));
}

bool remembers(std::span<const Charge> charges, bool tagged) {
  return !tagged || std::ranges::any_of(charges, has_tag);
}

void append_key(std::string& out, const ScriptCall& ask, const Charge& charge) {
  if (window_text::holds(charge)) return append_window_key(out, ask, charge);
  if (ask.tagged && is_private(charge)) {
    thread_local std::string name;
    name.clear();
    append_stored_name(name, charge, ask.key_prefix, true, ask.now);
    return append_bulk(out, name);
  }
  append_bulk(out, is_private(charge) ? ask.key_prefix : std::string_view(), charge.space->prefix,
              charge.key, charge.space->suffix);
}

void append_stored_name(std::string& out, const Charge& charge, std::string_view key_prefix,
                        bool tagged, limit::Time now) {
  if (window_text::holds(charge)) return window_text::append_name(out, charge, now);
  if (is_private(charge)) {
    out += key_prefix;
    if (tagged) append_tag(out, charge.key);
  }
  out += charge.space->prefix;
  out += charge.key;
  out += charge.space->suffix;
}

bool is_plain(const ScriptCall& ask) {
  if (ask.charges.size() != 1 || ask.hold || ask.id != nullptr || ask.weight != Weight::light)
    return false;
  const Charge& charge = ask.charges.front();
  if (charge.reset_first || !window_text::holds(charge)) return false;
  return request::may_bring_debt(charge.verb) || request::only_looks(charge.verb);
}

bool may_make_key(const ScriptCall& ask) {
  const Charge& charge = ask.charges.front();
  return request::may_bring_debt(charge.verb) && charge.cost > 0;
}

void append_plain(std::string& out, const ScriptCall& ask) {
  const Charge& charge = ask.charges.front();
  const bool counts = may_make_key(ask);
  append_array(out, counts ? 3 : 2);
  append_bulk(out, std::string_view(counts ? "INCRBY" : "GET"));
  append_window_key(out, ask, charge);
  if (counts) append_bulk(out, charge.cost);
}

void append_life(std::string& out, const ScriptCall& ask, bool renews) {
  const Charge& charge = ask.charges.front();
  append_array(out, renews ? 3 : 4);
  append_bulk(out, std::string_view("EXPIRE"));
  append_window_key(out, ask, charge);
  append_bulk(out, window_text::life_s(charge, ask.chance));
  if (!renews) append_bulk(out, std::string_view("NX"));
}

void append_call(std::string& out, const ScriptCall& ask, const Script& script, bool by_hash,
                 const Scripts& scripts, LimitTexts& texts) {
  if (&script == &scripts.remaining_text()) {
    append_array(out, ask.charges.front().cost == 1 ? 5 : 6);
    append_bulk(out, std::string_view(by_hash ? "EVALSHA" : "EVAL"));
    append_bulk(out, std::string_view(by_hash ? script.sha : script.text));
    append_bulk(out, std::string_view("1"));
    append_key(out, ask, ask.charges.front());
    append_remaining(out, ask);
    return;
  }
  if (scripts.is_arrival(script)) {
    Scripts::Arrival which{};
    SLUICE_CHECK(arrival::holds(ask, which));
    const Charge& charge = ask.charges.front();
    const bool told = ask.told.us >= 0;
    append_array(out, 4 + arrival::arguments_of(which) + (told ? 1 : 0));
    append_bulk(out, std::string_view(by_hash ? "EVALSHA" : "EVAL"));
    append_bulk(out, std::string_view(by_hash ? script.sha : script.text));
    append_bulk(out, std::string_view("1"));
    append_key(out, ask, charge);
    arrival::append_arguments(out, which, charge, texts.of(charge.limits, charge.limits_id).name);
    if (told) append_bulk(out, ask.told.us);
    return;
  }
  const bool all_windows = &script == &scripts.window_text();
  size_t size = 4 + ask.charges.size() * (all_windows ? 5 : 8);
  for (const Charge& charge : ask.charges)
    size += window_text::holds(charge) ? 0 : 4 * limits_of(charge).size();
  if (all_windows) {
    append_array(out, size);
    append_bulk(out, std::string_view(by_hash ? "EVALSHA" : "EVAL"));
    append_bulk(out, std::string_view(by_hash ? script.sha : script.text));
    append_bulk(out, static_cast<int64_t>(ask.charges.size()));
    for (const Charge& charge : ask.charges) append_window_key(out, ask, charge);
    append_bulk(out, mode_of(ask));
    for (const Charge& charge : ask.charges) append_window(out, ask, charge);
    return;
  }
  const bool has_id = ask.id != nullptr;
  append_array(out, size + (has_id ? 3 : 0) + (ask.told.us >= 0 ? 1 : 0));
  append_bulk(out, std::string_view(by_hash ? "EVALSHA" : "EVAL"));
  append_bulk(out, std::string_view(by_hash ? script.sha : script.text));
  append_bulk(out, static_cast<int64_t>(ask.charges.size() + (has_id ? 1 : 0)));
  for (const Charge& charge : ask.charges) append_key(out, ask, charge);
  if (has_id) append_id_key(out, ask);
  append_bulk(out, mode_of(ask));
  if (has_id) {
    std::array<char, 24> content;
    append_bulk(out, to_text(ask.id->content, content));
    append_bulk(out, std::string_view(id_life_ms));
  }
  std::array<char, 24> head_room;
  const std::string_view head = to_text(head_size(ask), head_room);
  for (size_t i = 0; i < ask.charges.size(); ++i) {
    const Charge& charge = ask.charges[i];
    if (window_text::holds(charge)) {
      append_window(out, ask, charge);
      append_bulk(out, std::string_view("window"));
      append_bulk(out, std::string_view(""));
      append_bulk(out, std::string_view("0"));
      continue;
    }
    append_verb(out, charge);
    append_cost(out, charge);
    append_bulk(out, i < ask.ahead.size() ? ask.ahead[i] : 0);
    append_bulk(out, charge.keeps_limits ? keep_fresh_ms(ask.kept_fresh_for)
                                         : charge.space->keep_fresh_for.us / 1000);
    if (charge.keeps_limits) {
      append_bulk(out, std::string_view("s1;k"));
      std::string windows;
      for (const limit::Duration window : charge.space->windows)
        windows += std::to_string(window.us) + ' ';
      append_bulk(out, windows);
      append_bulk(out, static_cast<int64_t>(limits_of(charge).size()));
      for (const Limit& limit : limits_of(charge)) append_limit(out, 'k', limit);
    } else {
      const LimitText& text = texts.of(charge.limits, charge.limits_id);
      append_bulk(out, name_for(charge.space->encoding, text));
      append_bulk(out, carry_word(charge.space->carry),
                  is_private(charge) ? head : std::string_view(), {}, {});
      append_bulk(out, static_cast<int64_t>(text.count));
      if (!text.numbers_come_along && !text.has_calendar)
        out += text.arguments;
      else
        for (const Limit& one : charge.limits)
          one.calendar ? append_calendar_limit(out, one, boundaries_of(one, ask.now))
                       : append_limit(out, letter_of(one.algorithm), one);
    }
  }
  if (ask.told.us >= 0) append_bulk(out, ask.told.us);
}

namespace {

// Reads the reply of lua_remaining_text: allowed, remaining, ms, ms.
ScriptReply read_remaining(std::string_view text, const Charge& charge, Decision& decision,
                           bool& allowed) {
  const auto ok = next_number(text), left = next_number(text), reset = next_number(text),
             retry = next_number(text);
  if (!ok || !left || !reset || !retry || !text.empty()) return ScriptReply::nonsense;
  const auto from_ms = [](int64_t ms) {
    return ms > INT64_MAX / 1000 ? base::never : base::milliseconds(ms);
  };
  allowed = *ok == 1;
  decision = {allowed, charge.limits.front().quota, *left, from_ms(*reset), from_ms(*retry)};
  return ScriptReply::decided;
}

// Takes the next value of a window_text counter from the text, and whether the charge was spared.
// False: there is none.
bool next_value(std::string_view& text, std::optional<int64_t>& value, bool& spared) {
  std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  spared = word.starts_with('s');
  if (spared) word.remove_prefix(1);
  if (word.empty()) return false;
  value = word == "x" ? std::nullopt : window_text::value_of(word);
  return word == "x" || value;
}

}  // namespace

request::Known cut_known(std::string_view& text) {
  if (text == "~x") return request::Known::other_content;
  if (!text.starts_with("~r ")) return request::Known::no;
  text.remove_prefix(3);
  return request::Known::yes;
}

ScriptReply read_answer(std::string_view text, std::span<Charge> charges,
                        std::span<Decision> decisions, bool& allowed, limit::Time now) {
  // A single counter that is shared with Divvy has a script and a reply of its own, with times in
  // ms.
  if (text.starts_with("d ")) {
    text.remove_prefix(2);
    return read_remaining(text, charges.front(), decisions[charges.front().decision_first],
                          allowed);
  }
  if (text.starts_with('a'))
    return arrival::read(text.substr(1), charges.front(), decisions[charges.front().decision_first],
                         allowed);
  if (text == "~c") return ScriptReply::again_full;
  if (text == "~w") return ScriptReply::again_wide;
  const auto said = next_number(text);
  if (!said || (*said != 0 && *said != 1)) return ScriptReply::nonsense;
  allowed = *said == 1;
  for (Charge& charge : charges) {
    if (window_text::holds(charge)) {
      std::optional<int64_t> value;
      bool spared = false;
      if (!next_value(text, value, spared)) return ScriptReply::nonsense;
      decisions[charge.decision_first] = window_text::decide(charge, value, allowed, spared, now);
      continue;
    }
    size_t count = charge.limits.size();
    if (charge.keeps_limits) {
      const auto mask = next_number(text);
      if (!mask || *mask < 0 || *mask >> charge.space->windows.size() != 0)
        return ScriptReply::nonsense;
      charge.slot_mask = static_cast<uint32_t>(*mask);
      count = static_cast<size_t>(std::popcount(charge.slot_mask));
    }
    if (charge.verb == Verb::charge && !charge.keeps_limits) {
      const auto dropped = next_number(text);
      if (!dropped) return ScriptReply::nonsense;
      charge.dropped = *dropped;
    }
    for (size_t i = 0; i < count; ++i) {
      const auto ok = next_number(text);
      const auto limit =
          charge.keeps_limits ? next_number(text) : limit::units_max(charge.limits[i]);
      const auto left = next_number(text), reset = next_number(text), retry = next_number(text);
      if (!ok || !limit || !left || !reset || !retry) return ScriptReply::nonsense;
      decisions[charge.decision_first + i] = {*ok == 1, *limit, *left, {*reset}, {*retry}};
    }
  }
  return text.empty() ? ScriptReply::decided : ScriptReply::nonsense;
}

ScriptReply read_plain(std::string_view text, bool nil, const Charge& charge, Decision& decision,
                       bool& allowed, limit::Time now) {
  std::optional<int64_t> value;
  if (!nil && (text.empty() || !(value = window_text::value_of(text))))
    return ScriptReply::nonsense;
  if (request::may_bring_debt(charge.verb) && value) *value -= charge.cost;
  decision = window_text::decide(charge, value, true, false, now);
  allowed = decision.allowed;
  return ScriptReply::decided;
}

}  // namespace sluice::redis
