#include "redis/redis_holds.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/units.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/gcra.h"
#include "net/socket_address.h"
#include "redis/cluster_map.h"
#include "redis/errors.h"
#include "redis/lua.h"
#include "redis/redis_store.h"
#include "redis/script_call.h"
#include "redis/window_text.h"
#include "store/fallback.h"

namespace sluice::redis {

using request::Charge;
using request::Error;
using request::Group;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;

namespace {

using Clock = std::chrono::steady_clock;

// How often the thread looks for holds that are due, and after a failure.
constexpr std::chrono::milliseconds sweep_every{200}, sweep_again{1'000};
// Between two looks while more are due, so that decisions have their turn.
constexpr std::chrono::milliseconds sweep_rest{2};
// How often those whose connection has ended are tried again, and for how long; and how long one is
// looked for whose reserve may still be on its way.
constexpr std::chrono::milliseconds close_again{20}, arrives_within{2'000};
constexpr std::chrono::seconds close_for{60}, last_for{1};
// In a cluster: how often the slots that other servers know are read, and how long the slot of a
// caller's id is known beyond the hold and its memory: as long as a request may wait, and more.
constexpr std::chrono::seconds learn_every{1};
constexpr size_t claims_at_once = 50;
constexpr base::Duration claimed_beyond = base::seconds(3'600);
// As the script answers for an id that has no slot.
constexpr std::string_view not_known = "u 0 0 0 0 0 0 0 0 0 0 0\n\n\n-\n";

std::string joined(std::span<const int64_t> units) {
  std::string text;
  for (const int64_t n : units) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

bool is_counted(const Charge& charge) {
  return limit::is_counted(charge.limits);
}

// Decides what has no counter. True: a charge of it refuses.
bool decide_without(const Group& group, const request::Batch& batch, base::Time now) {
  bool refuses = false;
  int64_t unused = 0;
  for (const Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (is_counted(charge)) continue;
    for (size_t i = 0; i < charge.limits.size(); ++i) {
      limit::Decision& decision = batch.decisions[charge.decision_first + i];
      if (charge.verb == Verb::charge)
        decision = limit::debt::charge(nullptr, charge.limits[i], charge.cost, now,
                                       limit::Overdrafts::none, unused);
      else
        decision = limit::decide(nullptr, charge.limits[i], charge.cost, now, nullptr);
      refuses |= !decision.allowed;
    }
  }
  return refuses;
}

template <class Number>
bool next_number(std::string_view& text, Number& number) {
  if (text.starts_with('n')) {
    number = static_cast<Number>(base::never.us);
    text.remove_prefix(std::min<size_t>(text.size(), 2));
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

bool read_numbers(std::string_view line, std::vector<int64_t>& numbers) {
  numbers.clear();
  while (!line.empty())
    if (!next_number(line, numbers.emplace_back())) return false;
  return true;
}

// The limit of a name as lua_settle.cc has it.
std::optional<limit::Limit> limit_of(std::string_view text) {
  using limit::Algorithm;
  constexpr std::string_view letters = "famtslbp";
  constexpr std::array algorithms{Algorithm::fixed_window,   Algorithm::aligned_window,
                                  Algorithm::aligned_window, Algorithm::token_bucket,
                                  Algorithm::sliding_window, Algorithm::sliding_log,
                                  Algorithm::fixed_bucket,   Algorithm::concurrency};
  const size_t at = text.empty() ? letters.npos : letters.find(text.front());
  if (at == letters.npos) return std::nullopt;
  text.remove_prefix(1);
  limit::Limit limit{algorithms[at]};
  int64_t window = 0;
  if (!next_number(text, limit.quota) || !next_number(text, window) ||
      !next_number(text, limit.burst))
    return std::nullopt;
  if (letters[at] != 'm') {
    limit.window = {window};
    return limit;
  }
  limit.calendar = limit::Calendar::of_code(static_cast<uint64_t>(window));
  if (!limit.calendar) return std::nullopt;
  limit.window = limit::Calendar::nominal(limit.calendar.unit());
  return limit;
}

// Names of counters as H.told of the script has them.
bool read_freed(std::string_view& text, size_t count, std::vector<std::string_view>& freed) {
  for (size_t i = 0; i < count; ++i) {
    size_t size = 0;
    if (!next_number(text, size) || size > text.size()) return false;
    freed.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return true;
}

int64_t sum_of(std::span<const int64_t> units) {
  return std::accumulate(units.begin(), units.end(), int64_t{0});
}

}  // namespace

// What the script has answered.
struct RedisHolds::Said {
  char outcome = 0;
  uint64_t expired = 0, kept = 0, expired_places = 0;
  int64_t ends_in = 0, returned = 0, charged = 0;
  int late = 0, repeated = 0;  // repeated 2: it was released before
  int is_place = 0;
  std::vector<int64_t> reserved, used;
  std::optional<limit::Limit> limit;
  limit::Decision decision{};
  std::vector<std::string_view> groups;
  std::vector<std::string_view> freed;  // counters that were given units back
  std::string_view rule;
};

RedisHolds::RedisHolds(RedisStore& store, const Options& options, Scripts::Time time)
    : store_(store),
      shared_(store.shared_),
      options_(options),
      is_told_(time == Scripts::Time::told),
      in_slots_(shared_.first.has_slots()),
      plain_(holds_text(false, time)),
      wide_(holds_text(true, time)),
      at_(std::string(lua_hold_at)),
      head_(shared_.options.key_prefix) {
  if (!is_told_) thread_ = std::thread([this] { run(); });
}

// What ends with its connection is released before the thread ends, but a Redis that does not
// answer is not waited for longer than last_for.
RedisHolds::~RedisHolds() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    if (owned() > 0 || !closed_.empty()) wake_.wait_for(lock, last_for, [this] { return ended_; });
    cut_ = true;
  }
  thread_.join();
}

// ---- Calls ----

std::string RedisHolds::name_of(const HoldCall& call) {
  return std::string(call.user) + ':' +
         (call.ask == HoldAsk::reserve ? call.made_id : std::string(call.id));
}

// Before the keys of holds of that slot.
std::string RedisHolds::head_at(uint16_t slot) const {
  return in_slots_ ? head_ + HoldSlots::tag_of(slot) : head_;
}

uint16_t RedisHolds::slot_of_charge(const Charge& charge) const {
  std::string key;
  append_stored_name(key, charge, head_, true, {});
  return slot_of(key);
}

// Of the counters of rules that are enforced; where there are none, of the others or of the name.
// None: they are in several.
std::optional<uint16_t> RedisHolds::slot_of_batch(const request::Batch& batch,
                                                  std::string_view name) const {
  std::optional<uint16_t> slot;
  for (const bool in_shadow : {false, true}) {
    for (const Group& group : batch.groups) {
      if (group.may_fail != in_shadow) continue;
      for (const Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
        if (!is_counted(charge)) continue;
        const uint16_t its = slot_of_charge(charge);
        if (!in_shadow && slot && *slot != its) return std::nullopt;
        if (!slot) slot = its;
      }
    }
    if (slot) return slot;
  }
  return slot_of(name);
}

// Has this group in shadow a counter of another slot? Then it is left out.
bool RedisHolds::is_elsewhere(const Group& group, const request::Batch& batch,
                              uint16_t slot) const {
  return in_slots_ && group.may_fail &&
         std::ranges::any_of(batch.charges.subspan(group.charge_first, group.charge_count),
                             [&](const Charge& charge) {
                               return is_counted(charge) && slot_of_charge(charge) != slot;
                             });
}

RedisHolds::Call RedisHolds::call_of(char what, const HoldCall& call,
                                     std::span<const int64_t> units, base::Duration ttl,
                                     uint16_t slot) const {
  const std::string name = name_of(call), head = head_at(slot);
  const std::string ends = head + "holds";
  const size_t of_user =
      call.user.empty() ? options_.most : std::max<size_t>(options_.most / options_.user_part, 1);
  // A script counts those of one slot.
  const HoldSlots::Counts held = in_slots_ ? slots_.counts() : HoldSlots::Counts();
  const size_t most = held.reservations + held.places >= options_.most ? 0 : options_.most;
  return {
      3,
      {ends, head + "hold:" + name, call.user.empty() ? ends : ends + ':' + std::string(call.user),
       std::string(1, what), name, std::to_string(options_.remember.us), std::to_string(most),
       std::to_string(of_user), "", std::to_string(ttl.us), joined(units)}};
}

// What all groups of a reserve follow.
RedisHolds::Call RedisHolds::call_of_reserve(const HoldCall& call, const request::HoldTerms& terms,
                                             std::span<const int64_t> units, uint16_t slot) const {
  const base::Duration ttl = call.ttl.us > 0 ? call.ttl : options_.ttl;
  Call its = call_of('v', call, units, {std::min(ttl.us, terms.ttl_max.us)}, slot);
  for (std::string word : {std::to_string(call.content), std::to_string(terms.ttl_max.us),
                           std::string(terms.keeps ? "k" : "") + (terms.ignores_late ? "i" : "") +
                               (call.is_place ? "p" : ""),
                           std::string(call.holder)})
    its.words.push_back(std::move(word));
  return its;
}

RedisHolds::GroupWords RedisHolds::words_of(const Group& group, const request::Batch& batch,
                                            std::span<const Share> shares) const {
  thread_local LimitTexts texts;
  GroupWords its;
  bool refuses = false;
  size_t count = 0;
  for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i)
    if (is_counted(batch.charges[i]))
      ++count;
    else
      refuses |= std::ranges::any_of(batch.charges[i].limits, [](const limit::Limit& limit) {
        return limit.algorithm == limit::Algorithm::deny;
      });
  its.words.emplace_back(group.may_fail ? refuses ? "S" : "s" : refuses ? "E" : "e");
  its.words.push_back(std::to_string(count));
  for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
    const Charge& charge = batch.charges[i];
    if (!is_counted(charge)) continue;
    const std::string counter =
        std::string(charge.space->prefix).append(charge.key).append(charge.space->suffix);
    append_stored_name(its.keys.emplace_back(), charge, head_, in_slots_, {});
    std::string subjects;
    for (int bit = 0; bit < 64; ++bit)
      if ((shares[i].subjects >> bit & 1) != 0) subjects += std::to_string(bit + 1) + ' ';
    const int64_t ahead = shared_.queues.any() ? shared_.queues.ahead(counter, {}) : 0;
    its.ahead_at.push_back(its.words.size() + 1);
    for (std::string word :
         {std::to_string(charge.cost), std::to_string(ahead),
          std::to_string(charge.space->keep_fresh_for.us / 1000),
          texts.of(charge.limits, charge.limits_id).name,
          std::string(carry_word(charge.space->carry)) +
              std::to_string(head_.size() + (in_slots_ ? tag_size : 0)),
          subjects, std::string(shares[i].rule), std::string(charge.key), overdrafts_text(charge)})
      its.words.push_back(std::move(word));
  }
  return its;
}

void RedisHolds::add_groups(Call& to, std::span<const GroupWords> groups) {
  to.words.push_back(std::to_string(groups.size()));
  std::vector<std::string> keys;
  for (const GroupWords& group : groups) {
    keys.insert(keys.end(), group.keys.begin(), group.keys.end());
    to.words.insert(to.words.end(), group.words.begin(), group.words.end());
  }
  to.words.insert(to.words.begin() + static_cast<std::ptrdiff_t>(to.keys), keys.begin(),
                  keys.end());
  to.keys += keys.size();
}

// The groups of a batch, with the keys of their counters.
std::vector<RedisHolds::GroupWords> RedisHolds::groups_of(const request::Batch& batch,
                                                          std::span<const Share> shares,
                                                          uint16_t slot) const {
  std::vector<GroupWords> groups;
  for (const Group& group : batch.groups) {
    if (!is_elsewhere(group, batch, slot)) {
      groups.push_back(words_of(group, batch, shares));
      continue;
    }
    groups.push_back({.keys = {}, .words = {"s", "0"}});
    shared_.log_refusal(
        "a reservation is not asked of a rule in shadow that counts by another actor, in another "
        "slot of Redis Cluster");
  }
  return groups;
}

std::string RedisHolds::bytes_of(const Script& script, const Call& call) {
  std::string bytes;
  append_array(bytes, call.words.size() + 3);
  append_bulk(bytes, std::string_view("EVALSHA"));
  append_bulk(bytes, std::string_view(script.sha));
  append_bulk(bytes, static_cast<int64_t>(call.keys));
  for (const std::string& word : call.words) append_bulk(bytes, word);
  return bytes;
}

std::string RedisHolds::boundaries(std::span<const limit::Calendar> calendars,
                                   base::Time now) const {
  std::string text;
  for (const limit::Calendar& calendar : calendars) {
    limit::Limit limit{limit::Algorithm::aligned_window};
    limit.calendar = calendar;
    limit.window = limit::Calendar::nominal(calendar.unit());
    text += std::to_string(calendar.code()) + ':' + boundaries_of(limit, now) + ';';
  }
  return text;
}

// Those of the limits that are held are likely to be needed when the holds are settled.
void RedisHolds::remember_calendars(const request::Batch& batch) {
  for (const Charge& charge : batch.charges)
    for (const limit::Limit& limit : charge.limits) {
      if (!limit.calendar) continue;
      const std::lock_guard lock(calendars_mutex_);
      if (std::ranges::find(calendars_, limit.calendar) != calendars_.end()) continue;
      if (calendars_.size() >= calendars_max) calendars_.erase(calendars_.begin());
      calendars_.push_back(limit.calendar);
    }
}

bool RedisHolds::is_again(std::string_view text, const Script*& script, const Build& build,
                          uint16_t slot, base::Time now, Call& next) {
  std::vector<limit::Calendar> calendars;
  if (script == nullptr || (text == "~w" && script == &plain_)) {
    script = script == nullptr ? &plain_ : &wide_;
    const std::lock_guard lock(calendars_mutex_);
    calendars = calendars_;
  } else if (text.starts_with("~b ")) {
    std::vector<int64_t> codes;
    if (!read_numbers(text.substr(3), codes)) return false;
    for (const int64_t code : codes) {
      const limit::Calendar one = limit::Calendar::of_code(static_cast<uint64_t>(code));
      if (!one || one.zone_name().empty()) return false;
      calendars.push_back(one);
    }
    // With those of before, as a hold may need several.
    const std::lock_guard lock(calendars_mutex_);
    for (const limit::Calendar& known : calendars_)
      if (calendars.size() < calendars_max &&
          std::ranges::find(calendars, known) == calendars.end())
        calendars.push_back(known);
    calendars_ = calendars;
  } else {
    return false;
  }
  next = build(slot);
  next.words[next.keys + calendars_at] = boundaries(calendars, now);
  if (is_told_) next.words.push_back(std::to_string(now.us));
  return true;
}

// script: null: it is the first call.
bool RedisHolds::follow(const Wanted& wanted, Step& step, std::string& text, const Script*& script,
                        base::Time now, Call& next) {
  const auto at = static_cast<At>(step.at);
  const auto calls = [&](At what, uint16_t slot) {
    step.at = static_cast<uint32_t>(what);
    step.slot = slot;
    step.goes_along = false;
    script = nullptr;
    return is_again({}, script, what == At::look ? wanted.look : wanted.build, slot, now, next);
  };
  const auto asks = [&](At what, char letter) {
    const std::string key =
        what == At::tell ? head_ + "hold_slots" : head_ + "hold_at:" + std::string(wanted.name);
    step.at = static_cast<uint32_t>(what);
    step.slot = slot_of(key);
    step.goes_along = true;
    script = &at_;
    next = {1,
            {key, std::string(1, letter), std::to_string(wanted.slot.value_or(0)),
             std::to_string(wanted.claims_ms), std::to_string(step.token)}};
    return true;
  };
  const auto goes = [&] {
    return slots_.is_told(*wanted.slot) ? calls(At::script, *wanted.slot) : asks(At::tell, 's');
  };
  if (script == nullptr) {
    if (!in_slots_) return calls(At::script, 0);
    if (!wanted.slot) {
      const auto its = HoldSlots::slot_in(wanted.name.substr(wanted.name.rfind(':') + 1));
      return its ? calls(At::made, *its) : asks(At::find, 'g');
    }
    if (wanted.claims_ms == 0) return goes();
    step.token = wanted.waits ? 0 : std::hash<std::string>()(make_id()) | 1;
    return asks(At::claim, 'c');
  }
  if (script != &at_) {
    const Build& build = at == At::look ? wanted.look : wanted.build;
    if (is_again(text, script, build, step.slot, now, next)) return true;
    if (at == At::made && text.starts_with('u')) return asks(At::find, 'g');
    return at == At::look && text.starts_with('u') && asks(At::force, 'f');
  }
  if (at == At::tell) {
    slots_.set_told(*wanted.slot);
    return calls(At::script, *wanted.slot);
  }
  const auto its = HoldSlots::slot_said(text);
  if (!its) {
    text = at == At::find ? not_known : std::string_view();
    return false;
  }
  if (at == At::find) return calls(At::script, *its);
  return *its == *wanted.slot ? goes() : calls(At::look, *its);
}

// Sends what is wanted, or takes its answer. False: there is none yet.
bool RedisHolds::ask(const Asker& asker, base::Time now, const Wanted& wanted, std::string& text,
                     Error& error, Step& step) {
  using What = WorkerClient::TextAnswer::What;
  if (asker.completions == nullptr) {
    error = ask_here(now, wanted, text, step);
    return true;
  }
  WorkerClient* const client = store_.client_of(*asker.completions);
  SLUICE_CHECK(client != nullptr);
  WorkerClient::TextAnswer answer = client->text_answer(asker.ticket, now);
  if (answer.what == What::later) return false;
  const Script* script = answer.script;
  step = answer.step;
  text = std::move(answer.text);
  Call next;
  const bool sends =
      answer.what == What::none || (answer.what == What::text && answer.times < calls_max);
  if (!sends || !follow(wanted, step, text, script, now, next)) {
    error = answer.error;
    return true;
  }
  error = client->ask_text(asker.ticket, *script, bytes_of(*script, next), step, now);
  return error != Error::none;
}

// Under line_mutex_. `endpoint`: of the node, in a cluster. Null: it cannot be reached.
BlockingConnection* RedisHolds::line_to(const std::shared_ptr<Endpoint>& endpoint) const {
  if (in_slots_ && endpoint == nullptr) {
    shared_.first.want_look();
    return nullptr;
  }
  if (const uint64_t version = shared_.first.version(); in_slots_ && version != lines_of_) {
    lines_.clear();
    lines_of_ = version;
  }
  auto& line = lines_[in_slots_ ? net::name_of(endpoint->options.nodes.front()) : ""];
  if (line == nullptr) {
    auto opened = in_slots_ ? connect_to(*endpoint, shared_.first.tls(), &cut_)
                            : store_.metadata_.connect(&cut_);
    if (opened)
      line = *std::move(opened);
    else if (in_slots_)
      shared_.first.want_look();
  }
  return line.get();
}

// script: `words` call it by its hash.
Answer RedisHolds::send_words(uint16_t slot, std::vector<std::string_view> words,
                              const Script* script) const {
  const std::lock_guard lock(line_mutex_);
  std::shared_ptr<Endpoint> to = in_slots_ ? shared_.first.primary_of(slot) : nullptr;
  bool is_asking = false;
  for (unsigned times = 0;; ++times) {
    BlockingConnection* const line = line_to(to);
    if (line == nullptr) return nullptr;
    const auto send = [&] {
      if (is_asking && !line->ask({"ASKING"})) return Answer();
      return line->ask(words);
    };
    Answer answer = send();
    if (script != nullptr && answer && is_error(answer) &&
        text_of(*answer).starts_with("NOSCRIPT")) {
      words[0] = "EVAL";
      words[1] = script->text;
      answer = send();
      words[0] = "EVALSHA";
      words[1] = script->sha;
    }
    // Also one that takes no writes is looked for anew.
    if (!answer || (is_error(answer) && error_of(text_of(*answer)) == Error::read_only)) {
      lines_.erase(in_slots_ ? net::name_of(to->options.nodes.front()) : "");
      if (in_slots_) shared_.first.want_look();
    }
    if (!in_slots_ || !answer || !is_error(answer)) return answer;
    const auto redirect = redirect_of(text_of(*answer), to->options.nodes.front().host);
    if (!redirect || redirect->node.host.empty() || times >= base::bounds::redis_redirects_max)
      return answer;
    // What has several keys finds some of them at either node.
    if (redirect->ask && script != nullptr && script != &at_) return answer;
    is_asking = redirect->ask;
    if (!is_asking) shared_.first.follow(*redirect);
    to = is_asking ? shared_.first.endpoint(redirect->node) : shared_.first.primary_of(slot);
  }
}

Answer RedisHolds::send_here(uint16_t slot, const Script& script, const Call& call) const {
  const std::string keys = std::to_string(call.keys);
  std::vector<std::string_view> words{"EVALSHA", script.sha, keys};
  words.insert(words.end(), call.words.begin(), call.words.end());
  return send_words(slot, std::move(words), &script);
}

Error RedisHolds::ask_here(base::Time now, const Wanted& wanted, std::string& text, Step& step) {
  const Script* script = nullptr;
  Call call;
  for (size_t times = 0; times < calls_max && follow(wanted, step, text, script, now, call);
       ++times) {
    const Answer answer = send_here(step.slot, *script, call);
    if (!answer) return Error::store;
    text = text_of(*answer);
    if (!is_error(answer)) continue;
    shared_.log_refusal(text.substr(0, 300));
    return error_of(text);
  }
  return Error::none;
}

// ---- Answers ----

bool RedisHolds::read(std::string_view text, Said& said) {
  std::string_view line = next_line(text);
  size_t groups = 0, freed = 0;
  if (line.size() < 2) return false;
  said.outcome = line.front();
  line.remove_prefix(2);
  if (!next_number(line, said.expired) || !next_number(line, said.kept) ||
      !next_number(line, said.expired_places) || !next_number(line, said.ends_in) ||
      !next_number(line, said.returned) || !next_number(line, said.charged) ||
      !next_number(line, said.late) || !next_number(line, said.repeated) ||
      !next_number(line, said.is_place) || !next_number(line, groups) || !next_number(line, freed))
    return false;
  if (!read_numbers(next_line(text), said.reserved) || !read_numbers(next_line(text), said.used))
    return false;
  line = next_line(text);
  if (line != "-") {
    said.limit = limit_of(line.substr(0, line.find(' ')));
    line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
    said.decision.allowed = said.outcome != 'r';
    if (!said.limit || !next_number(line, said.decision.limit) ||
        !next_number(line, said.decision.remaining) ||
        !next_number(line, said.decision.reset_after.us) ||
        !next_number(line, said.decision.retry_after.us))
      return false;
  }
  for (size_t i = 0; i < groups; ++i) said.groups.push_back(next_line(text));
  if (!read_freed(text, freed, said.freed)) return false;
  said.rule = text;
  return true;
}

// The first request that waits for each of these counters looks again.
void RedisHolds::call_waiting(std::span<const std::string_view> freed) {
  if (!shared_.queues.any()) return;
  for (const std::string_view counter : freed) shared_.queues.call(std::string(counter));
}

void RedisHolds::take(HoldCall& call, const Said& said) {
  count(Event::expired, false, said.expired - said.expired_places);
  count(Event::expired, true, said.expired_places);
  count(Event::kept, false, said.kept);
  call_waiting(said.freed);
  switch (said.outcome) {
    case 'd':
      call.outcome = HoldOutcome::done;
      break;
    case 'r':
      call.outcome = HoldOutcome::refused;
      break;
    case 'i':
      call.outcome = HoldOutcome::in_use;
      break;
    case 's':
      call.outcome = HoldOutcome::settled;
      break;
    case 'e':
      call.outcome = HoldOutcome::ended;
      break;
    case 'n':
      call.outcome = HoldOutcome::wrong_number;
      break;
    case 'f':
      call.outcome = HoldOutcome::full;
      break;
    default:
      call.outcome = HoldOutcome::unknown;
  }
  call.error = Error::none;
  call.ends_in = {said.ends_in};
  call.reserved = said.reserved;
  call.used = said.used;
  call.returned = said.returned;
  call.charged = said.charged;
  call.late = said.late == 1;
  call.repeated = said.repeated == 1;
  call.has_decision = said.limit.has_value();
  if (!said.limit) return;
  call.limit = *said.limit;
  call.decision = said.decision;
  call.rule = said.rule;
}

// Reads the decisions of one group, of which these charges have a counter.
bool RedisHolds::read_line(std::string_view line, std::span<Charge> counted,
                           std::span<limit::Decision> decisions, bool& allowed, base::Time now) {
  return read_answer(line, counted, decisions, allowed, now) == ScriptReply::decided;
}

// Reads the decisions of all groups.
bool RedisHolds::read_groups(const Said& said, const request::Batch& batch, base::Time now,
                             uint16_t slot) const {
  if (said.groups.size() != batch.groups.size()) return false;
  std::vector<Charge> counted;
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    Group& group = batch.groups[i];
    const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
    counted.clear();
    std::ranges::copy_if(charges, std::back_inserter(counted), is_counted);
    group.error = Error::none;
    group.parked = group.answered = false;
    if (is_elsewhere(group, batch, slot)) {
      group.error = Error::store;
      group.allowed = false;
      continue;
    }
    if (!read_line(said.groups[i], counted, batch.decisions, group.allowed, now)) return false;
    auto from = counted.cbegin();
    for (Charge& charge : charges)
      if (is_counted(charge)) charge.dropped = from++->dropped;
    decide_without(group, batch, now);
  }
  return true;
}

// By its rules' on_store_error. No other table keeps holds, so `local` is as `error`.
void RedisHolds::fail(HoldCall& call, const request::Batch& batch, Error error, base::Time now) {
  bool decided = true, allowed = true;
  for (Group& group : batch.groups) {
    store::fall_back(group, batch, error, now);
    if (group.may_fail) continue;
    decided &= group.error == Error::none;
    allowed &= group.allowed;
  }
  call.made_id.clear();
  call.error = error;
  call.outcome = !decided  ? HoldOutcome::failed
                 : allowed ? HoldOutcome::not_held
                           : HoldOutcome::refused;
  if (call.outcome == HoldOutcome::refused) count(Event::refused, call.is_place);
}

// Has it a counter that cannot be held? The log says so.
bool RedisHolds::refuses_by_name(const request::Batch& batch) const {
  const auto is_foreign = [](const Charge& charge) {
    return charge.keeps_limits || charge.costs != nullptr || window_text::holds(charge) ||
           (charge.space->encoding != request::KeyEncoding::own &&
            charge.space->encoding != request::KeyEncoding::window_text) ||
           std::ranges::any_of(charge.limits, limit::gcra::is_gcra, &limit::Limit::algorithm);
  };
  const auto at = std::ranges::find_if(batch.charges, is_foreign);
  if (at == batch.charges.end()) return false;
  shared_.log_refusal("a reservation needs the counter " + at->space->prefix +
                      std::string(at->key.substr(0, 200)) +
                      ", which Redis keeps in the form of other programs or with the limits of its "
                      "requests: such units cannot be given back; take and put them instead");
  return true;
}

void RedisHolds::say_apart() const {
  shared_.log_refusal(
      "a reservation needs counters of several slots of Redis Cluster in one step; have its rules "
      "count by the same actor, or reserve each by itself");
}

// Asks by the reserve itself, so that it is held in the step that grants it.
class RedisHolds::Asked final : public HeldAsk {
 public:
  Asked(RedisHolds& holds, const HoldCall& call, Call its_head, uint16_t its_slot)
      : head(std::move(its_head)),
        slot(its_slot),
        holds_(holds),
        name_(name_of(call)),
        is_made_(call.id.empty()) {}

  std::string call(std::span<const int64_t> ahead, base::Time now, const Script*& script) override {
    GroupWords& last = groups.back();
    for (size_t i = 0; i < last.ahead_at.size(); ++i)
      last.words[last.ahead_at[i]] = ahead.empty() ? "0" : std::to_string(ahead[i]);
    Call next;
    script = before_;
    const bool is_there = holds_.is_again(
        again_, script,
        [&](uint16_t) {
          Call its = head;
          add_groups(its, groups);
          return its;
        },
        slot, now, next);
    SLUICE_CHECK(is_there);
    sent_ = script;
    return bytes_of(*script, next);
  }
  Said read(std::string_view text, std::span<Charge> charges, std::span<limit::Decision> decisions,
            base::Time now) override {
    if (text.starts_with('~')) {
      // What `call` would not know how to follow.
      const bool follows = (text == "~w" && sent_ == &holds_.plain_) || text.starts_with("~b ");
      if (!follows || ++times_ >= calls_max) return Said::nonsense;
      again_ = text;
      before_ = sent_;
      return Said::again;
    }
    again_.clear();
    before_ = nullptr;
    times_ = 0;
    answer = text;
    RedisHolds::Said said;
    if (!RedisHolds::read(answer, said)) return Said::nonsense;
    bool allowed = false;
    if (!said.groups.empty() && !read_line(said.groups.back(), charges, decisions, allowed, now))
      return Said::nonsense;
    is_repeated_ = said.repeated == 1;
    return said.outcome == 'r' ? Said::refused : Said::answered;
  }
  void give_back(bool is_sure) override {
    // An id of the caller's may name a hold that was there before.
    if (is_sure ? !is_repeated_ : is_made_) holds_.let_go(name_, !is_sure);
  }

  Call head;
  const uint16_t slot;
  std::vector<GroupWords> groups;  // the one that waits is the last
  std::string answer;

 private:
  RedisHolds& holds_;
  const std::string name_;
  const bool is_made_;
  bool is_repeated_ = false;
  std::string again_;                                 // the last answer, if another call follows
  const Script *before_ = nullptr, *sent_ = nullptr;  // before_: that gave it
  size_t times_ = 0;
};

struct RedisHolds::Waiting : Wait {
  explicit Waiting(std::shared_ptr<Asked> its) : asked(std::move(its)) {}
  const std::shared_ptr<Asked> asked;
};

// ---- What is asked ----

bool RedisHolds::reserve(HoldCall& call, const request::HoldTerms& terms,
                         const request::Batch& batch, std::span<const Share> shares,
                         std::span<const int64_t> units, base::Time now, const Asker& asker) {
  return reserve(call, terms, batch, shares, units, now, asker, nullptr);
}

bool RedisHolds::reserve(HoldCall& call, const request::HoldTerms& terms,
                         const request::Batch& batch, std::span<const Share> shares,
                         std::span<const int64_t> units, base::Time now, const Asker& asker,
                         std::unique_ptr<Wait>* wait) {
  SLUICE_CHECK(shares.size() == batch.charges.size() && units.size() <= 64);
  if (refuses_by_name(batch)) {
    fail(call, batch, Error::store, now);
    return true;
  }
  const bool is_first = call.made_id.empty();
  const auto is_late = [&](const request::Group& group) {
    return !group.may_fail && group.answer_by <= now;
  };
  if (is_first && std::ranges::any_of(batch.groups, is_late)) {
    fail(call, batch, Error::deadline, now);
    return true;
  }
  if (is_first) call.made_id = call.id.empty() ? make_id() : std::string(call.id);
  const std::optional<uint16_t> slot = in_slots_ ? slot_of_batch(batch, name_of(call)) : 0;
  if (!slot) {
    say_apart();
    fail(call, batch, Error::store, now);
    return true;
  }
  if (is_first) {
    if (in_slots_ && call.id.empty()) call.made_id = HoldSlots::with_slot(call.made_id, *slot);
    join_owner(call, 0, now);
  }
  std::string text;
  Error error = Error::none;
  const std::string name = name_of(call);
  Wanted wanted{name, [&](uint16_t) {
                  remember_calendars(batch);
                  Call its = call_of_reserve(call, terms, units, *slot);
                  add_groups(its, groups_of(batch, shares, *slot));
                  return its;
                }};
  if (in_slots_) wanted.slot = slot;
  if (in_slots_ && !call.id.empty()) {
    wanted.claims_ms = (terms.ttl_max.us + options_.remember.us + claimed_beyond.us) / 1000;
    wanted.look = [&](uint16_t where) { return call_of('q', call, {}, {}, where); };
    wanted.waits = wait != nullptr;
  }
  Step step;
  if (!ask(asker, now, wanted, text, error, step)) return false;
  Said said;
  if (error == Error::none && !read(text, said)) error = Error::store;
  const bool has_groups = said.outcome == 'd' || said.outcome == 'r';
  if (error == Error::none && has_groups) {
    if (said.repeated == 1) {
      // The counters tell how they stand.
      for (Charge& charge : batch.charges) {
        charge.verb = Verb::peek;
        charge.cost = 0;
      }
    }
    if (!read_groups(said, batch, now, *slot)) error = Error::store;
    // It is held, whatever its rules say now.
    if (said.repeated == 1)
      for (Group& group : batch.groups) group.allowed = true;
  }
  if (error != Error::none) {
    // It may be held.
    join_owner(call, now.us + std::max(call.ttl.us, options_.ttl.us), now);
    fail(call, batch, error, now);
    return true;
  }
  if (wait != nullptr && said.outcome == 'r' && batch.groups.back().may_wait &&
      !batch.groups.back().allowed) {
    auto asked =
        std::make_shared<Asked>(*this, call, call_of_reserve(call, terms, units, *slot), *slot);
    asked->groups = groups_of(batch, shares, *slot);
    WorkerClient& client = *store_.client_of(*asker.completions);
    if (client.park(batch.groups.back(), batch, now, asker.pin, asked)) {
      leave_owner(name_of(call));
      call.outcome = HoldOutcome::waiting;
      *wait = std::make_unique<Waiting>(std::move(asked));
      return true;
    }
  }
  if (said.outcome == 'r' || said.outcome == 'f') forget_later(call, step);
  count_reserve(call, said, now, *slot);
  return true;
}

// Takes the answer to a reserve.
void RedisHolds::count_reserve(HoldCall& call, const Said& said, base::Time now, uint16_t slot) {
  take(call, said);
  call.has_decision = false;
  if (call.outcome == HoldOutcome::done)
    join_owner(call, now.us + std::max<int64_t>(call.ends_in.us, 1), now);
  else if (call.owner != 0)
    leave_owner(name_of(call));
  if (call.outcome == HoldOutcome::done) {
    shared_.has_holds.store(true, std::memory_order_relaxed);
    if (in_slots_) slots_.note(slot, call.ends_in, Clock::now(), call.repeated ? 0 : 1);
    count(call.repeated ? Event::repeated : Event::held, said.is_place == 1);
  } else if (call.outcome == HoldOutcome::refused) {
    count(Event::refused, call.is_place);
    call.made_id.clear();
  }
}

// ---- Reserves that wait ----

bool RedisHolds::reserve_or_wait(HoldCall& call, const request::HoldTerms& terms,
                                 const request::Batch& batch, std::span<const Share> shares,
                                 std::span<const int64_t> units, base::Time now, const Asker& asker,
                                 std::unique_ptr<Wait>& wait) {
  if (wait == nullptr) return reserve(call, terms, batch, shares, units, now, asker, &wait);
  WorkerClient& client = *store_.client_of(*asker.completions);
  Group& group = batch.groups.back();
  // Its answer would be that of the rules before.
  if (client.is_asking(group.ticket)) return false;
  const Asked* const parked = static_cast<const Waiting&>(*wait).asked.get();
  // Its id says where it will be.
  const bool is_moved = in_slots_ && std::ranges::any_of(batch.charges, is_counted) &&
                        slot_of_batch(batch, name_of(call)) != parked->slot;
  if (is_moved) say_apart();
  if (is_moved || refuses_by_name(batch)) {
    if (client.cancel(group.ticket)) {
      fail(call, batch, Error::store, now);
      wait.reset();
      return true;
    }
  } else if (client.park_again(group, batch, asker.pin)) {
    remember_calendars(batch);
    Asked& asked = *static_cast<Waiting&>(*wait).asked;
    asked.head = call_of_reserve(call, terms, units, asked.slot);
    asked.groups.back() = words_of(group, batch, shares);
    call.outcome = HoldOutcome::waiting;
    return true;
  }
  group.answered = true;
  call.outcome = HoldOutcome::waiting;
  return true;
}

void RedisHolds::grant(HoldCall& call, Wait& wait, base::Time at) {
  Said said;
  const Asked& asked = *static_cast<Waiting&>(wait).asked;
  SLUICE_CHECK(read(asked.answer, said));
  join_owner(call, 0, at);
  count_reserve(call, said, at, asked.slot);
}

void RedisHolds::drop(Wait& wait, bool is_granted, base::Time /*now*/) {
  if (is_granted) static_cast<Waiting&>(wait).asked->give_back(true);
}

bool RedisHolds::settle(HoldCall& call, base::Time now, const Asker& asker) {
  constexpr std::string_view letters = "vxncr";  // by HoldAsk
  std::string text;
  Error error = Error::none;
  const std::string name = name_of(call);
  const Wanted wanted{name, [&](uint16_t slot) {
                        return call_of(letters[static_cast<size_t>(call.ask)], call, call.units,
                                       call.ttl, slot);
                      }};
  Step step;
  if (!ask(asker, now, wanted, text, error, step)) return false;
  Said said;
  if (error == Error::none && !read(text, said)) error = Error::store;
  if (error != Error::none) {
    call.outcome = HoldOutcome::failed;
    call.error = error;
    return true;
  }
  take(call, said);
  if (call.outcome != HoldOutcome::unknown) call.made_id = call.id;
  const bool is_place = said.is_place == 1;
  const bool is_held = call.ask == HoldAsk::extend || call.ask == HoldAsk::renew;
  if (in_slots_ && is_held && call.outcome == HoldOutcome::done)
    slots_.note(step.slot, call.ends_in, Clock::now());
  if (in_slots_ && !is_held && call.outcome == HoldOutcome::done && !call.late &&
      said.repeated == 0)
    slots_.note(step.slot, base::never, Clock::now(), -1);
  if (call.outcome != HoldOutcome::done && call.outcome != HoldOutcome::ended) {
    // As it was.
  } else if (!is_held || call.outcome == HoldOutcome::ended) {
    leave_owner(name_of(call));
  } else if (std::lock_guard lock(owned_mutex_); !owned_.empty()) {
    const auto its = owned_.find(name_of(call));
    if (its != owned_.end()) its->second.end_us = now.us + call.ends_in.us;
  }
  if (call.outcome == HoldOutcome::unknown) count(Event::unknown, false);
  if (call.outcome == HoldOutcome::refused) count(Event::refused, is_place);
  if (call.outcome != HoldOutcome::done) return true;
  if (call.repeated) {
    count(Event::repeated, is_place);
  } else if (call.ask == HoldAsk::commit) {
    count(call.late ? Event::late : Event::committed, is_place);
    reserved_units_.fetch_add(static_cast<uint64_t>(sum_of(call.reserved)),
                              std::memory_order_relaxed);
    used_units_.fetch_add(static_cast<uint64_t>(sum_of(call.used)), std::memory_order_relaxed);
  } else if (call.ask == HoldAsk::release && said.repeated == 0) {
    count(Event::released, is_place);
  }
  return true;
}

bool RedisHolds::charge_unknown(HoldCall& call, const request::Batch& batch,
                                std::span<const Share> shares, base::Time now, const Asker& asker,
                                bool& known) {
  known = false;
  std::string text;
  Error error = refuses_by_name(batch) ? Error::store : Error::none;
  const std::string name = name_of(call);
  const auto slot = in_slots_ ? slot_of_batch(batch, name) : 0;
  if (!slot) {
    say_apart();
    error = Error::store;
  }
  Wanted wanted{name, [&](uint16_t) {
                  remember_calendars(batch);
                  Call its = call_of('k', call, call.units, {}, *slot);
                  its.words.resize(its.words.size() + 4);
                  add_groups(its, groups_of(batch, shares, *slot));
                  return its;
                }};
  if (in_slots_) wanted.slot = slot;
  if (in_slots_ && HoldSlots::slot_in(call.id) != slot) {
    wanted.claims_ms = (options_.remember.us + claimed_beyond.us) / 1000;
    wanted.look = [&](uint16_t where) { return call_of('c', call, call.units, {}, where); };
  }
  Step step;
  if (error == Error::none && !ask(asker, now, wanted, text, error, step)) return false;
  Said said;
  if (error == Error::none && !read(text, said)) error = Error::store;
  known = error == Error::none && said.groups.empty() && !batch.groups.empty();
  if (error == Error::none && !known && !read_groups(said, batch, now, *slot)) error = Error::store;
  if (error != Error::none) {
    for (Group& group : batch.groups) {
      group.allowed = group.parked = group.answered = false;
      group.error = error;
    }
    call.outcome = HoldOutcome::failed;
    call.error = error;
    return true;
  }
  const bool has_decision = known && said.limit.has_value();
  take(call, said);
  call.made_id = call.id;
  call.has_decision = has_decision;
  if (known && call.outcome == HoldOutcome::done) {
    count(call.repeated ? Event::repeated
          : call.late   ? Event::late
                        : Event::committed,
          said.is_place == 1);
  } else if (!known) {
    call.reserved.clear();
    call.used = call.units;
  }
  return true;
}

// ---- Ends ----

// Of those that ended by themselves nothing is told here: they go each time that there are twice as
// many as were left.
void RedisHolds::join_owner(const HoldCall& call, int64_t end_us, base::Time now) {
  if (call.owner == 0) return;
  const std::lock_guard lock(owned_mutex_);
  std::string name = name_of(call);
  const auto known = owned_.find(name);
  // Its connection has ended meanwhile; or it is another one's.
  if (known == owned_.end() ? end_us != 0 : known->second.owner != call.owner) return;
  owned_[name] = {call.owner, end_us};
  owners_[call.owner].insert(std::move(name));
  if (owned_.size() < owned_swept_at_) return;
  std::erase_if(owned_, [&](const auto& one) {
    if (one.second.end_us == 0 || one.second.end_us > now.us) return false;
    const auto its = owners_.find(one.second.owner);
    its->second.erase(one.first);
    if (its->second.empty()) owners_.erase(its);
    return true;
  });
  owned_swept_at_ = std::max<size_t>(1024, owned_.size() * 2);
}

void RedisHolds::leave_owner(const std::string& name) {
  const std::lock_guard lock(owned_mutex_);
  const auto one = owned_.find(name);
  if (one == owned_.end()) return;
  const auto its = owners_.find(one->second.owner);
  its->second.erase(name);
  if (its->second.empty()) owners_.erase(its);
  owned_.erase(one);
}

void RedisHolds::close(uint64_t owner, base::Time now) {
  std::vector<Closed> closed;
  {
    const std::lock_guard lock(owned_mutex_);
    const auto its = owners_.find(owner);
    if (its == owners_.end()) return;
    for (const std::string& name : its->second) {
      closed.push_back({name, Clock::now(), owned_[name].end_us == 0});
      owned_.erase(name);
    }
    owners_.erase(its);
  }
  if (is_told_) {
    for (const Closed& one : closed) release(one.name, now);
    return;
  }
  const std::lock_guard lock(mutex_);
  std::ranges::move(closed, std::back_inserter(closed_));
  wake_.notify_all();
}

// Its thread gives back what was granted to a request that has gone.
void RedisHolds::let_go(std::string_view name, bool is_on_its_way) {
  const std::lock_guard lock(mutex_);
  closed_.push_back({std::string(name), Clock::now(), is_on_its_way, true});
  wake_.notify_all();
}

// what: as the script has it.
HoldOutcome RedisHolds::release(std::string_view name, base::Time now, char what) {
  const size_t colon = std::min(name.rfind(':'), name.size() - 1);
  HoldCall call{
      .ask = HoldAsk::release, .user = name.substr(0, colon), .id = name.substr(colon + 1)};
  std::string text;
  Said said;
  Step step;
  const Wanted wanted{name, [&](uint16_t slot) { return call_of(what, call, {}, {}, slot); }};
  if (ask_here(now, wanted, text, step) != Error::none || !read(text, said))
    return HoldOutcome::failed;
  take(call, said);
  if (call.outcome == HoldOutcome::done && said.repeated == 0)
    count(Event::released, said.is_place == 1);
  return call.outcome;
}

// is_last: the server stops, and all its connections end.
void RedisHolds::release_closed(bool is_last) {
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(closed_, std::back_inserter(closing_));
    closed_.clear();
  }
  if (is_last) {
    const std::lock_guard lock(owned_mutex_);
    for (const auto& [name, one] : owned_) closing_.push_back({name, Clock::now()});
    owned_.clear();
    owners_.clear();
  }
  const auto began = Clock::now();
  // In a cluster others may be at a node that answers.
  const int fails_max = in_slots_ ? 4 : 1;
  int failed = 0;
  std::erase_if(closing_, [&](const Closed& one) {
    if (failed == fails_max || (is_last && Clock::now() - began > last_for)) return false;
    const HoldOutcome outcome = release(one.name, {}, one.forgets ? 'd' : 'r');
    const auto since = Clock::now() - one.since;
    if (outcome == HoldOutcome::failed) {
      ++failed;
      return since > close_for;
    }
    return outcome != HoldOutcome::unknown || !one.is_on_its_way || since > arrives_within;
  });
}

// A slot that a refused reserve has put its id at. It may be asked for again meanwhile.
void RedisHolds::forget_later(const HoldCall& call, const Step& step) {
  if (step.token == 0) return;
  const std::lock_guard lock(mutex_);
  if (claimed_.size() < claimed_max)
    claimed_.push_back({name_of(call), step.slot, step.token, Clock::now()});
}

void RedisHolds::forget_claims() {
  for (size_t i = 0; i < claims_at_once && !stopping_; ++i) {
    Claimed one;
    {
      const std::lock_guard lock(mutex_);
      if (claimed_.empty() || Clock::now() - claimed_.front().since < arrives_within) return;
      one = std::move(claimed_.front());
      claimed_.pop_front();
    }
    const size_t colon = std::min(one.name.rfind(':'), one.name.size() - 1);
    const std::string_view name = one.name;
    const HoldCall call{
        .ask = HoldAsk::release, .user = name.substr(0, colon), .id = name.substr(colon + 1)};
    // An earlier call of the same request may have come after all.
    const Answer found = send_here(one.slot, plain_, call_of('q', call, {}, {}, one.slot));
    if (!found) return;
    if (is_error(found) || !text_of(*found).starts_with('u')) continue;
    const std::string key = head_ + "hold_at:" + one.name;
    send_here(slot_of(key), at_, {1, {key, "x", "0", "0", std::to_string(one.token)}});
  }
}

// Learns which slots have holds, and tells what Redis has lost of them.
void RedisHolds::learn_slots() const {
  const std::string key = head_ + "hold_slots";
  const Answer answer = send_words(slot_of(key), {"SMEMBERS", key});
  if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY) return;
  std::vector<uint16_t> told;
  for (size_t i = 0; i < answer->elements; ++i)
    if (const auto slot = HoldSlots::slot_said(text_of(*answer->element[i]))) told.push_back(*slot);
  const std::vector<uint16_t> lost = slots_.learn(told);
  std::vector<std::string> texts;
  for (const uint16_t slot : lost) texts.push_back(std::to_string(slot));
  std::vector<std::string_view> words{"SADD", key};
  words.insert(words.end(), texts.begin(), texts.end());
  if (!lost.empty() && !is_error(send_words(slot_of(key), std::move(words))))
    for (const uint16_t slot : lost) slots_.set_told(slot);
}

// Looks at the slots whose turn it is. False: some of them cannot be asked.
bool RedisHolds::end_in_slots(size_t& ended) {
  std::set<std::shared_ptr<Endpoint>> away;
  for (const uint16_t slot : slots_.due(Clock::now())) {
    const auto endpoint = shared_.first.primary_of(slot);
    size_t its = 0;
    bool is_away = away.contains(endpoint);
    if (stopping_) break;
    const bool is_asked = !is_away && end_some(slot, {}, its, &is_away);
    if (is_away) away.insert(endpoint);
    ended += its;
    if (!is_asked) slots_.note(slot, base::seconds(1), Clock::now());
  }
  return away.empty();
}

// Ends some that are due, in a cluster in that slot. False: Redis cannot be asked. `ended`: how
// many, and more than none while more are due.
bool RedisHolds::end_some(uint16_t slot, base::Time now, size_t& ended, bool* is_away) {
  ended = 0;
  const std::string ends = head_at(slot) + "holds";
  const auto call = [&](size_t count) {
    Call its{1, {ends, "s", "", std::to_string(options_.remember.us), std::to_string(count)}};
    if (is_told_) {
      its.words.resize(its.keys + calendars_at + 1);
      its.words.push_back(std::to_string(now.us));
    }
    return its;
  };
  Answer answer = send_here(slot, plain_, call(ends_at_once));
  if (answer && !is_error(answer) && text_of(*answer) == "~w")
    answer = send_here(slot, wide_, call(ends_at_once / 8));
  if (is_error(answer)) {
    if (answer) shared_.log_refusal("holds are not ended: " + std::string(text_of(*answer)));
    if (is_away != nullptr) *is_away = !answer;
    return false;
  }
  std::vector<int64_t> said;
  std::vector<std::string_view> freed;
  std::string_view text = text_of(*answer);
  if (!read_numbers(next_line(text), said) || said.size() != 8 ||
      !read_freed(text, static_cast<size_t>(said[7]), freed))
    return false;
  call_waiting(freed);
  count(Event::expired, false, static_cast<uint64_t>(said[0] - said[2]));
  count(Event::expired, true, static_cast<uint64_t>(said[2]));
  count(Event::kept, false, static_cast<uint64_t>(said[1]));
  ended = static_cast<size_t>(said[0] + said[1] + said[5]);
  auto held = HoldSlots::Counts{static_cast<size_t>(said[3]), static_cast<size_t>(said[4])};
  if (in_slots_) {
    const auto next = said[5] > 0    ? std::optional(base::Duration{0})
                      : said[6] >= 0 ? std::optional(base::Duration{said[6]})
                                     : std::nullopt;
    slots_.looked(slot, held.reservations, held.places, next, Clock::now());
    held = slots_.counts();
  }
  reservations_.store(held.reservations, std::memory_order_relaxed);
  places_.store(held.places, std::memory_order_relaxed);
  shared_.has_holds.store(held.reservations + held.places > 0, std::memory_order_relaxed);
  return true;
}

void RedisHolds::end_due(base::Time now) {
  if (!is_told_) return;
  for (const uint16_t slot : in_slots_ ? slots_.known() : std::vector<uint16_t>{0})
    for (size_t ended = 1; ended > 0 && end_some(slot, now, ended);) continue;
}

void RedisHolds::run() {
  auto learn_next = Clock::now();
  for (auto next = Clock::now(); !stopping_;) {
    if (in_slots_ && Clock::now() >= learn_next) {
      learn_slots();
      learn_next = Clock::now() + learn_every;
    }
    if (Clock::now() >= next) {
      size_t ended = 0;
      const bool is_there = in_slots_ ? end_in_slots(ended) : end_some(0, {}, ended);
      next = Clock::now() + (!is_there && !in_slots_ ? sweep_again
                             : ended > 0             ? sweep_rest
                                                     : sweep_every);
    }
    release_closed(false);
    forget_claims();
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, closing_.empty() ? next : std::min(next, Clock::now() + close_again),
                     [this] { return stopping_.load() || !closed_.empty(); });
  }
  release_closed(true);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wake_.notify_all();
}

// ---- For people ----

void RedisHolds::each(base::Time now, const std::function<bool(const Listed&)>& visit) const {
  bool stops = false;
  const auto its = [&](const Listed& one) {
    stops = !visit(one);
    return !stops;
  };
  if (in_slots_ && !is_told_) learn_slots();
  for (const uint16_t slot : in_slots_ ? slots_.known() : std::vector<uint16_t>{0})
    for (const bool places : {false, true})
      if (!stops) each_of(slot, places, now, its);
}

// False: it ends here.
bool RedisHolds::each_of(uint16_t slot, bool places, base::Time now,
                         const std::function<bool(const Listed&)>& visit) const {
  for (size_t from = 0; from < options_.most && !stopping_; from += listed_at_once) {
    Call call{1,
              {head_at(slot) + "holds", "l", places ? "p" : "", "0", std::to_string(from),
               std::to_string(listed_at_once)}};
    if (is_told_) call.words.push_back(std::to_string(now.us));
    const Answer answer = send_here(slot, plain_, call);
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY) return false;
    if (answer->elements == 0) return true;
    for (size_t i = 0; i < answer->elements; ++i) {
      const redisReply& its = *answer->element[i];
      if (its.type != REDIS_REPLY_ARRAY || its.elements != 8) continue;
      const auto text = [&](size_t k) { return text_of(*its.element[k]); };
      Listed one;
      const std::string_view name = text(0);
      const size_t colon = std::min(name.rfind(':'), name.size() - 1);
      one.user = name.substr(0, colon);
      one.id = name.substr(colon + 1);
      one.holder = text(1);
      one.is_place = places;
      one.units = number_of(*its.element[2]);
      one.age = {std::max<int64_t>(now.us - number_of(*its.element[3]), 0)};
      one.ends_in = {std::max<int64_t>(number_of(*its.element[4]) - now.us, 0)};
      one.rule = text(5);
      one.actor = text(6);
      one.counter = text(7);
      if (!visit(one)) return false;
    }
  }
  return true;
}

store::HoldBook::Figures RedisHolds::figures() const {
  Figures figures;
  figures.places = places_.load(std::memory_order_relaxed);
  figures.holds = reservations_.load(std::memory_order_relaxed) + figures.places;
  for (size_t i = 0; i < events_.size(); ++i) {
    figures.of_places[i] = of_places_[i].load();
    figures.events[i] = std::max(events_[i].load(), figures.of_places[i]);
  }
  figures.reserved_units = reserved_units_.load();
  figures.used_units = used_units_.load();
  return figures;
}

}  // namespace sluice::redis
