#include "store/holds.h"

#include <sys/random.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "request/charge.h"

namespace sluice::store {

using request::Charge;
using request::HeldCharge;
using request::HeldPart;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;

namespace {

constexpr int64_t never_us = INT64_MAX;
// When a hold whose end the store could not settle is tried again.
constexpr base::Duration retry_after = base::milliseconds(100);

// `end` of a length that begins now.
int64_t later_us(base::Time now, base::Duration length) {
  return now.us > never_us - length.us ? never_us : now.us + length.us;
}

// 128 random bits in base64url: whoever knows an id may settle the hold.
std::string make_id() {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<unsigned char, 16> random;
  SLUICE_CHECK(::getrandom(random.data(), random.size(), 0) == ssize_t{random.size()});
  std::string id;
  for (size_t i = 0; i < random.size(); i += 3) {
    uint32_t bits = 0;
    const size_t count = std::min<size_t>(3, random.size() - i);
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? random[i + j] : 0u);
    for (size_t j = 0; j <= count; ++j) id += digits[bits >> (18 - 6 * j) & 63];
  }
  return id;
}

std::string name_of(std::string_view user, std::string_view id) {
  std::string name(user);
  name += '\0';
  name += id;
  return name;
}
std::string_view user_in(std::string_view name) {
  return name.substr(0, name.find('\0'));
}
std::string_view id_in(std::string_view name) {
  return name.substr(name.find('\0') + 1);
}

}  // namespace

// What the counters of many holds have in common.
struct Holds::Source {
  request::SpaceRef space;
  std::string rule;
  std::vector<limit::Limit> limits;
};

struct Holds::Counter {
  struct Part {
    std::shared_ptr<const Source> then;
    base::Time taken{};
    int64_t units = 0;
    limit::Given given{};
    std::vector<limit::State> marks;
  };
  std::shared_ptr<const Source> source;
  std::string key;
  uint64_t subjects = 0;
  std::vector<Part> parts;  // the earliest first
  int64_t final_units = 0;  // of parts that were too many: they count as used

  int64_t units() const {
    return std::accumulate(parts.begin(), parts.end(), final_units,
                           [](int64_t sum, const Part& part) { return sum + part.units; });
  }
  // What it comes to of the units of each subject.
  int64_t share_of(std::span<const int64_t> units) const {
    int64_t sum = 0;
    for (size_t i = 0; i < units.size(); ++i)
      if ((subjects >> i & 1) != 0) sum += units[i];
    return sum;
  }
};

struct Holds::Record {
  State state = State::held;
  HoldTerms terms;
  uint64_t content = 0;
  std::string holder;
  base::Time began{}, end{};  // end: of the hold; after that, when it is forgotten
  base::Duration ttl{};
  std::vector<Counter> counters;
  std::vector<int64_t> reserved, used;  // of each subject
  int64_t returned = 0, charged = 0;    // of the commit
  bool late = false;
  const std::string* name = nullptr;  // its key in the shard
};

struct Holds::Shard {
  struct Due {
    int64_t at_us;
    std::string name;
    bool operator<(const Due& other) const { return at_us > other.at_us; }
  };
  mutable std::mutex mutex;
  std::unordered_map<std::string, Record> records;
  // Of each record its end or an earlier one.
  std::priority_queue<Due> due;
};

// Charges of one hold, as one group.
struct Holds::Settling {
  explicit Settling(size_t count) {
    charges.reserve(count);
    held.reserve(count);
    parts.reserve(count);
    back.reserve(count);
    lists.reserve(count);
    rules.reserve(count);
    decisions.resize(count * limit::slots_max);
  }

  // The counter's charge with that verb. settle: gives `back_units` of its latest units back.
  void add(request::Spaces& spaces, const Counter& counter, Verb verb, int64_t cost,
           int64_t used_units, bool ends) {
    HeldCharge& its = held.emplace_back();
    its.adopts = true;
    its.ends = ends;
    Charge& charge = charges.emplace_back();
    charge.space = counter.source->space.get();
    charge.key = counter.key;
    charge.verb = verb;
    charge.cost = cost;
    charge.limits = counter.source->limits;
    charge.limits_id = lists.emplace_back(spaces.hold_limits(charge.limits)).id();
    charge.decision_first = static_cast<uint32_t>((charges.size() - 1) * limit::slots_max);
    charge.held = &its;
    rules.push_back(&counter.source->rule);
    if (verb != Verb::settle) return;
    auto& its_parts = parts.emplace_back();
    auto& its_back = back.emplace_back();
    // What was used fills the earliest parts first.
    int64_t used = std::max<int64_t>(used_units - counter.final_units, 0);
    for (const Counter::Part& part : counter.parts) {
      HeldPart& one = its_parts.emplace_back();
      one.taken = part.taken;
      one.units = part.units;
      one.given = part.given;
      one.then = part.then->limits;
      std::copy(part.marks.begin(), part.marks.end(), one.marks.begin());
      const int64_t filled = std::min(used, part.units);
      its_back.push_back(part.units - filled);
      used -= filled;
    }
    its.parts = its_parts;
    its.back = its_back;
  }

  std::vector<Charge> charges;
  std::vector<HeldCharge> held;
  std::vector<std::vector<HeldPart>> parts;
  std::vector<std::vector<int64_t>> back;
  std::vector<request::LimitsRef> lists;
  std::vector<limit::Decision> decisions;
  std::vector<const std::string*> rules;
};

Holds::Holds(Store& store, request::Spaces& spaces, const Options& options)
    : store_(store),
      spaces_(spaces),
      options_(options),
      shards_(std::make_unique<std::array<Shard, shard_count>>()) {}
Holds::~Holds() = default;

Holds::Shard& Holds::shard_of(std::string_view name) const {
  return (*shards_)[std::hash<std::string_view>()(name) % shard_count];
}

// The same object for all counters of one rule. Throws std::bad_alloc.
std::shared_ptr<const Holds::Source> Holds::source_of(const Charge& charge, std::string_view rule) {
  std::string key = std::to_string(charge.space->id) + "." + std::to_string(charge.space->serial);
  for (const limit::Limit& limit : charge.limits)
    key += " " + std::to_string(static_cast<int>(limit.algorithm)) + " " +
           std::to_string(limit.quota) + " " + std::to_string(limit.window.us) + " " +
           std::to_string(limit.burst) + " " + std::to_string(limit::calendar_number(limit));
  key.append(" ").append(rule);
  const std::lock_guard lock(sources_mutex_);
  std::weak_ptr<const Source>& known = sources_[key];
  if (auto source = known.lock()) return source;
  auto source = std::make_shared<Source>();
  source->space = spaces_.hold(charge.space->prefix, charge.space->suffix, *charge.space);
  source->rule = rule;
  source->limits.assign(charge.limits.begin(), charge.limits.end());
  known = source;
  if (sources_.size() > sources_swept_at_) {
    std::erase_if(sources_, [](const auto& one) { return one.second.expired(); });
    sources_swept_at_ = std::max<size_t>(64, sources_.size() * 2);
  }
  return source;
}

bool Holds::take_room(std::string_view user) {
  if (records_.fetch_add(1) >= options_.most) {
    records_.fetch_sub(1);
    return false;
  }
  if (user.empty()) return true;
  const std::lock_guard lock(users_mutex_);
  size_t& count = users_[std::string(user)];
  if (count >= std::max<size_t>(options_.most / options_.user_part, 1)) {
    records_.fetch_sub(1);
    return false;
  }
  ++count;
  return true;
}

void Holds::leave_room(std::string_view user) {
  records_.fetch_sub(1);
  if (user.empty()) return;
  const std::lock_guard lock(users_mutex_);
  const auto its = users_.find(std::string(user));
  if (its != users_.end() && --its->second == 0) users_.erase(its);
}

void Holds::note_due(int64_t at_us) {
  int64_t next = next_due_us_.load();
  while (at_us < next && !next_due_us_.compare_exchange_weak(next, at_us)) continue;
}

void Holds::push_due(Shard& shard, const std::string& name, int64_t at_us) {
  shard.due.push({at_us, name});
  note_due(at_us);
}

void Holds::set_state(Shard& shard, Record& record, State state, base::Time now) {
  if (record.state == State::held && state != State::held) held_.fetch_sub(1);
  record.state = state;
  if (state == State::held) return;
  record.end = {later_us(now, options_.remember)};
  push_due(shard, *record.name, record.end.us);
}

// ---- Answers ----

void Holds::answer_held(HoldCall& call, const Record& record, base::Time now) const {
  call.outcome = HoldOutcome::done;
  call.made_id = id_in(*record.name);
  call.ends_in = {std::max<int64_t>(record.end.us - now.us, 0)};
  call.reserved = record.reserved;
}

void Holds::answer_again(HoldCall& call, const Record& record) const {
  call.outcome = HoldOutcome::done;
  call.made_id = id_in(*record.name);
  call.reserved = record.reserved;
  call.used = record.used;
  call.returned = record.returned;
  call.charged = record.charged;
  call.late = record.late;
  call.repeated = true;
}

// Why a hold that is not held any more is not changed.
HoldOutcome Holds::gone(const Record& record) const {
  return record.state == State::committed ? HoldOutcome::settled : HoldOutcome::ended;
}

// ---- Reserve ----

void Holds::reserve(HoldCall& call, const HoldTerms& terms, const request::Batch& batch,
                    std::span<const Share> shares, std::span<const int64_t> units, base::Time now) {
  SLUICE_CHECK(shares.size() == batch.charges.size() && units.size() <= 64);
  call.made_id = call.id.empty() ? make_id() : std::string(call.id);
  const std::string name = name_of(call.user, call.made_id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  if (const auto known = shard.records.find(name); known != shard.records.end()) {
    Record& record = known->second;
    if (record.state == State::held && record.end <= now) end(shard, record, now);
    if (record.state != State::held) {
      call.outcome = gone(record);
      call.used = record.used;
      return;
    }
    if (record.content != call.content) {
      call.outcome = HoldOutcome::in_use;
      return;
    }
    // The counters tell how they stand.
    for (Charge& charge : batch.charges) {
      charge.verb = Verb::peek;
      charge.cost = 0;
    }
    for (size_t done = 0; done < batch.groups.size();) {
      done +=
          store_.apply({batch.groups.subspan(done), batch.charges, batch.decisions}, now).settled;
    }
    answer_held(call, record, now);
    call.repeated = true;
    return count(Event::repeated);
  }
  if (!take_room(call.user)) {
    call.outcome = HoldOutcome::full;
    return;
  }
  std::vector<HeldCharge> held(batch.charges.size());
  for (size_t i = 0; i < held.size(); ++i) batch.charges[i].held = &held[i];
  for (request::Group& group : batch.groups) group.holds = true;
  const request::Group* enforced = nullptr;
  size_t done = 0;
  while (done < batch.groups.size()) {
    const Applied applied =
        store_.apply({batch.groups.subspan(done), batch.charges, batch.decisions}, now);
    done += applied.settled;
    if (applied.later) break;
  }
  bool decided = done == batch.groups.size();
  for (const request::Group& group : batch.groups) {
    if (group.may_fail) continue;
    enforced = &group;
    decided &= group.error == request::Error::none;
  }
  const bool allowed = decided && (enforced == nullptr || enforced->allowed);
  Record record;
  if (allowed) {
    record.terms = terms;
    record.content = call.content;
    record.holder = call.holder;
    record.began = now;
    const base::Duration ttl = call.ttl.us > 0 ? call.ttl : options_.ttl;
    record.ttl = {std::min(ttl.us, terms.ttl_max.us)};
    record.end = {later_us(now, record.ttl)};
    record.reserved.assign(units.begin(), units.end());
  }
  bool any = false, untaken = false;
  for (const request::Group& group : batch.groups) {
    if (!group.allowed || group.error != request::Error::none) continue;
    for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
      const Charge& charge = batch.charges[i];
      if (!charge.counted || charge.verb != Verb::reserve) continue;
      // The rules allow it although the store cannot decide.
      untaken |= !held[i].is_taken;
      if (!held[i].is_taken) continue;
      any = true;
      Counter& counter = record.counters.emplace_back();
      counter.source = source_of(charge, shares[i].rule);
      counter.key = charge.key;
      counter.subjects = shares[i].subjects;
      const HeldPart& part = held[i].part;
      counter.parts.push_back(
          {counter.source,
           part.taken,
           part.units,
           part.given,
           {part.marks.begin(),
            part.marks.begin() + static_cast<std::ptrdiff_t>(charge.limits.size())}});
    }
  }
  for (Charge& charge : batch.charges) charge.held = nullptr;
  if (!allowed || untaken) {
    // Rules in shadow took their units alone: they hold nothing without the enforced ones.
    if (any) {
      Settling settling(record.counters.size());
      for (const Counter& counter : record.counters)
        settling.add(spaces_, counter, Verb::settle, 0, counter.units(), true);
      HoldCall unused;
      apply(unused, settling, now);
    }
    leave_room(call.user);
    call.made_id.clear();
    call.outcome = !decided  ? HoldOutcome::failed
                   : allowed ? HoldOutcome::not_held
                             : HoldOutcome::refused;
    if (call.outcome == HoldOutcome::refused) count(Event::refused);
    return;
  }
  const auto [its, is_new] = shard.records.emplace(name, std::move(record));
  its->second.name = &its->first;
  push_due(shard, name, its->second.end.us);
  held_.fetch_add(1);
  count(Event::held);
  answer_held(call, its->second, now);
}

// ---- Settling ----

// Settles the charges all or nothing. False: the call says why not, and nothing has changed.
bool Holds::apply(HoldCall& call, Settling& settling, base::Time now) {
  if (settling.charges.empty()) return true;
  request::Group group;
  group.charge_count = static_cast<uint32_t>(settling.charges.size());
  group.holds = true;
  const Applied applied = store_.apply({{&group, 1}, settling.charges, settling.decisions}, now);
  if (applied.later || group.error != request::Error::none) {
    call.outcome = HoldOutcome::failed;
    call.error = applied.later ? request::Error::store : group.error;
    return false;
  }
  call.has_decision = false;
  const auto show = [&](size_t i, const limit::Limit& limit, const limit::Decision& decision,
                        const auto& is_tighter) {
    if (call.has_decision && !is_tighter(decision, call.decision)) return;
    call.has_decision = true;
    call.limit = limit;
    call.decision = decision;
    call.rule = *settling.rules[i];
  };
  for (size_t i = 0; i < settling.charges.size(); ++i) {
    const Charge& charge = settling.charges[i];
    const HeldCharge& held = settling.held[i];
    if (charge.verb == Verb::settle) {
      if (held.is_decided) show(i, held.limit, held.decision, request::is_tighter_of_charge);
      continue;
    }
    for (size_t l = 0; l < charge.limits.size(); ++l)
      if (limit::has_counter(charge.limits[l].algorithm))
        show(i, charge.limits[l], settling.decisions[charge.decision_first + l],
             request::is_tighter);
  }
  if (!group.allowed) call.outcome = HoldOutcome::refused;
  return group.allowed;
}

void Holds::settle(HoldCall& call, base::Time now) {
  const std::string name = name_of(call.user, call.id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const auto its = shard.records.find(name);
  if (its == shard.records.end() || (its->second.state != State::held && its->second.end <= now)) {
    call.outcome = HoldOutcome::unknown;
    return count(Event::unknown);
  }
  Record& record = its->second;
  call.made_id = call.id;
  if (record.state == State::held && record.end <= now && !end(shard, record, now)) {
    call.outcome = HoldOutcome::failed;
    call.error = request::Error::store;
    return;
  }
  const bool counts = call.ask == HoldAsk::extend || call.ask == HoldAsk::commit;
  if (counts && call.units.size() != record.reserved.size()) {
    call.outcome = HoldOutcome::wrong_number;
    return;
  }
  switch (call.ask) {
    case HoldAsk::extend:
      return extend(call, shard, record, now);
    case HoldAsk::commit:
      return commit(call, shard, record, now);
    case HoldAsk::release:
      return release(call, shard, record, now);
    case HoldAsk::renew:
      if (record.state != State::held) {
        call.outcome = gone(record);
        call.used = record.used;
        return;
      }
      return renew(call, shard, record, now);
    case HoldAsk::reserve:
      break;
  }
  SLUICE_CHECK(false);
}

void Holds::renew(HoldCall& call, Shard& shard, Record& record, base::Time now) {
  if (call.ttl.us > 0) record.ttl = {std::min(call.ttl.us, record.terms.ttl_max.us)};
  record.end = {later_us(now, record.ttl)};
  push_due(shard, *record.name, record.end.us);
  answer_held(call, record, now);
}

void Holds::extend(HoldCall& call, Shard& shard, Record& record, base::Time now) {
  if (record.state != State::held) {
    call.outcome = gone(record);
    call.used = record.used;
    return;
  }
  Settling settling(record.counters.size());
  for (const Counter& counter : record.counters)
    settling.add(spaces_, counter, Verb::reserve, counter.share_of(call.units), 0, false);
  if (!apply(call, settling, now)) {
    if (call.outcome == HoldOutcome::refused) {
      call.reserved = record.reserved;
      count(Event::refused);
    }
    return;
  }
  for (size_t i = 0; i < record.counters.size(); ++i) {
    Counter& counter = record.counters[i];
    const HeldPart& part = settling.held[i].part;
    const Charge& charge = settling.charges[i];
    counter.parts.push_back({source_of(charge, counter.source->rule),
                             part.taken,
                             part.units,
                             part.given,
                             {part.marks.begin(), part.marks.begin() + static_cast<std::ptrdiff_t>(
                                                                           charge.limits.size())}});
  }
  for (size_t i = 0; i < record.reserved.size(); ++i) record.reserved[i] += call.units[i];
  bound_parts(record, now);
  renew(call, shard, record, now);
}

// The oldest parts of a hold that has too many count as used.
void Holds::bound_parts(Record& record, base::Time now) {
  for (Counter& counter : record.counters) {
    if (counter.parts.size() <= parts_max) continue;
    Counter oldest = counter;
    oldest.parts.resize(1);
    oldest.final_units = 0;
    Settling settling(1);
    settling.add(spaces_, oldest, Verb::settle, 0, oldest.units(), true);
    HoldCall unused;
    if (!apply(unused, settling, now)) continue;
    counter.final_units += oldest.units();
    counter.parts.erase(counter.parts.begin());
  }
}

namespace {

// What came of one subject's units: `most` went back to any of its counters.
int64_t returned_of(int64_t reserved, int64_t used, int64_t most) {
  return std::min(std::max<int64_t>(reserved - used, 0), most);
}

}  // namespace

// Settles all counters of the hold with what was used of each subject. False: nothing has changed.
bool Holds::settle_all(HoldCall& call, Record& record, std::span<const int64_t> used,
                       base::Time now) {
  Settling settling(record.counters.size());
  for (const Counter& counter : record.counters) {
    const int64_t its_used = counter.share_of(used);
    settling.add(spaces_, counter, Verb::settle, std::max<int64_t>(its_used - counter.units(), 0),
                 its_used, true);
  }
  if (!apply(call, settling, now)) return false;
  call.returned = call.charged = 0;
  const bool was_released = record.state == State::released;
  for (size_t s = 0; s < used.size(); ++s) {
    int64_t most = 0, dropped = 0;
    bool any = false;
    for (size_t i = 0; i < record.counters.size(); ++i) {
      if ((record.counters[i].subjects >> s & 1) == 0) continue;
      any = true;
      most = std::max(most, settling.held[i].returned);
      dropped = std::max(dropped, settling.charges[i].dropped);
    }
    const int64_t reserved = was_released ? 0 : record.reserved[s];
    call.returned += returned_of(reserved, used[s], most);
    if (any) call.charged += std::max<int64_t>(used[s] - reserved - dropped, 0);
  }
  for (Counter& counter : record.counters) {
    counter.parts.clear();
    counter.final_units = 0;
  }
  return true;
}

void Holds::commit(HoldCall& call, Shard& shard, Record& record, base::Time now) {
  if (record.state == State::committed) {
    if (call.units != record.used) {
      call.outcome = HoldOutcome::settled;
      call.used = record.used;
      return;
    }
    count(Event::repeated);
    return answer_again(call, record);
  }
  const bool late = record.state != State::held;
  if (record.state == State::released && record.terms.ignores_late) {
    call.outcome = HoldOutcome::ended;
    return;
  }
  if (!settle_all(call, record, call.units, now)) return;
  record.counters.clear();
  record.used = call.units;
  record.returned = call.returned;
  record.charged = call.charged;
  record.late = late;
  set_state(shard, record, State::committed, now);
  count(late ? Event::late : Event::committed);
  const auto sum = [](std::span<const int64_t> units) {
    return static_cast<uint64_t>(std::accumulate(units.begin(), units.end(), int64_t{0}));
  };
  reserved_units_.fetch_add(sum(record.reserved), std::memory_order_relaxed);
  used_units_.fetch_add(sum(record.used), std::memory_order_relaxed);
  answer_again(call, record);
  call.repeated = false;
}

void Holds::release(HoldCall& call, Shard& shard, Record& record, base::Time now) {
  call.returned = 0;
  if (record.state == State::committed) {
    call.outcome = HoldOutcome::settled;
    call.used = record.used;
    return;
  }
  if (record.state != State::released) {
    const std::vector<int64_t> nothing(record.reserved.size(), 0);
    if (!settle_all(call, record, nothing, now)) return;
    set_state(shard, record, State::released, now);
    count(Event::released);
  }
  call.outcome = HoldOutcome::done;
  call.reserved = record.reserved;
}

// ---- Ends ----

// The hold's end has come. False: the store cannot settle it now.
bool Holds::end(Shard& shard, Record& record, base::Time now) {
  if (!record.terms.keeps) {
    HoldCall unused;
    const std::vector<int64_t> nothing(record.reserved.size(), 0);
    if (!settle_all(unused, record, nothing, now)) return false;
  }
  count(record.terms.keeps ? Event::kept : Event::expired);
  set_state(shard, record, record.terms.keeps ? State::kept : State::released, now);
  return true;
}

// A record that was remembered long enough. What it kept stays used.
bool Holds::forget(Record& record, base::Time now) {
  if (record.state != State::kept) return true;
  HoldCall unused;
  return settle_all(unused, record, record.reserved, now);
}

// Returns how many it looked at.
size_t Holds::end_due_of(Shard& shard, base::Time now) {
  const std::lock_guard lock(shard.mutex);
  size_t count = 0;
  while (!shard.due.empty() && shard.due.top().at_us <= now.us && count < ends_at_once) {
    ++count;
    const std::string name = shard.due.top().name;
    shard.due.pop();
    const auto its = shard.records.find(name);
    if (its == shard.records.end()) continue;
    Record& record = its->second;
    // It was renewed, or settled: then another one is noted.
    if (record.end > now) continue;
    if (record.state == State::held) {
      if (!end(shard, record, now)) push_due(shard, name, later_us(now, retry_after));
    } else if (forget(record, now)) {
      leave_room(user_in(name));
      shard.records.erase(its);
    } else {
      push_due(shard, name, later_us(now, retry_after));
    }
  }
  return count;
}

void Holds::end_due(base::Time now) {
  if (next_due_us_.load(std::memory_order_relaxed) > now.us) return;
  // What is pushed meanwhile lowers it again.
  next_due_us_.store(never_us);
  for (Shard& shard : *shards_) {
    end_due_of(shard, now);
    const std::lock_guard lock(shard.mutex);
    if (!shard.due.empty()) note_due(shard.due.top().at_us);
  }
}

// ---- For people ----

void Holds::each(base::Time now, const std::function<bool(const Listed&)>& visit) const {
  std::vector<Listed> some;
  for (const Shard& shard : *shards_) {
    some.clear();
    {
      const std::lock_guard lock(shard.mutex);
      for (const auto& [name, record] : shard.records) {
        if (record.state != State::held) continue;
        Listed one{
            .id = std::string(id_in(name)),
            .user = std::string(user_in(name)),
            .holder = record.holder,
            .rule = {},
            .actor = {},
            .counter = {},
            .units = std::accumulate(record.reserved.begin(), record.reserved.end(), int64_t{0}),
            .age = {std::max<int64_t>(now.us - record.began.us, 0)},
            .ends_in = {std::max<int64_t>(record.end.us - now.us, 0)}};
        if (!record.counters.empty()) {
          const Counter& counter = record.counters.front();
          one.rule = counter.source->rule;
          one.actor = counter.key;
          const request::Space& space = *counter.source->space.get();
          one.counter = space.prefix + counter.key + space.suffix;
        }
        some.push_back(std::move(one));
      }
    }
    for (const Listed& one : some)
      if (!visit(one)) return;
  }
}

Holds::Figures Holds::figures() const {
  Figures figures;
  figures.holds = held_.load();
  figures.remembered = records_.load() - std::min(records_.load(), figures.holds);
  for (size_t i = 0; i < events_.size(); ++i) figures.events[i] = events_[i].load();
  figures.reserved_units = reserved_units_.load();
  figures.used_units = used_units_.load();
  return figures;
}

}  // namespace sluice::store
