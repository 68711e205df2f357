#include "embed/waits.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/bounds.h"
#include "embed/caught.h"
#include "embed/core.h"
#include "embed/decisions.h"

namespace sluice::detail {

using embed::failed;
using embed::internal;

namespace {

// Asked for again in the same way as at first.
waits::Asked asked_of(const std::vector<charge>& charges, const std::vector<entry>& descriptor,
                      const waits::Waiting& one) {
  return {.charges = charges,
          .descriptor = descriptor,
          .by_policy = one.by_policy,
          .cost = one.by_policy ? one.costs.front() : 1,
          .pending = one.pending};
}

}  // namespace

waits::waits(core& its_core) : core_(its_core), completions_([this] { signal(); }) {}

void waits::signal() noexcept {
  woken_.store(true);
  if (!core_.how().wake) return;
  try {
    core_.how().wake();
  } catch (...) {  // it must not throw
  }
}

void waits::note_end(time_point end) {
  const std::lock_guard lock(mutex_);
  if (end < next_) signal();
}

size_t waits::bytes_of(const Asked& asked) {
  size_t bytes = 0;
  for (const charge& one : asked.charges) bytes += sizeof one + 2 * one.key.size();
  for (const entry& one : asked.descriptor)
    bytes += sizeof one + 2 * (one.key.size() + one.value.size());
  return bytes;
}

waiting waits::wait(const Asked& asked, time_point deadline, wait_callback callback,
                    time_point now) {
  core_.end_holds(internal(now));
  const std::lock_guard lock(mutex_);
  if (deadline <= now && !asked.pending) return refuse_late(asked, now);
  const size_t bytes = bytes_of(asked);
  if (places_.size() >= core_.how().waiting_max ||
      bytes > base::bounds::parked_bytes_max - std::min(base::bounds::parked_bytes_max, bytes_))
    return {failed(errc::too_many_waiting)};
  // All that takes memory before it is asked for.
  Done made(1);
  Waiting& one = made.front();
  one.id = ++last_id_;
  one.deadline = std::min(deadline, latest_time);
  one.callback = std::move(callback);
  one.bytes = bytes;
  remember(one, asked);
  std::map<wait_id, Place> place;
  place.emplace(one.id, Place{});
  std::set<std::pair<time_point, wait_id>> its_deadline{{one.deadline, one.id}};

  const Asking asking = ask(asked, internal(now), ticket_of(one.id), one.arrival);
  if (!asking.parked) {
    waiting at_once{asking.answer};
    if (!asking.answer.allowed && asking.answer.error == errc::ok && asking.fits)
      at_once.now.error = errc::too_many_waiting;
    return at_once;
  }
  one.last = asking.answer;
  const waiting later{asking.answer, one.id};
  if (one.deadline < next_) signal();
  bytes_ += one.bytes;
  Place& its = place.begin()->second;
  its.waiting = made.begin();
  its.deadline = deadlines_.insert(its_deadline.extract(its_deadline.begin())).position;
  waiting_.splice(waiting_.end(), made);
  const auto at = places_.insert(place.extract(place.begin())).position;
  // It can never be granted. Where it has its answer all the same, that is called back.
  if (!asking.fits && cancel_parked(later.id, internal(now))) {
    take_out(at, internal(now));
    return {asking.answer};
  }
  return later;
}

// There is no time to wait: as a take.
waiting waits::refuse_late(const Asked& asked, time_point now) {
  decision answer = asked.by_policy
                        ? core_.decide(asked.descriptor, asked.cost, request::Verb::wait, now)
                        : core_.settle_all(asked.charges, request::Verb::wait, now, nullptr);
  if (!answer.allowed && answer.error == errc::ok) answer.error = errc::timed_out;
  return {answer};
}

void waits::remember(Waiting& one, const Asked& asked) {
  for (const charge& its : asked.charges) {
    one.handles.push_back(its.by == nullptr ? handle() : *its.by);
    one.keys.emplace_back(its.key);
    one.costs.push_back(its.cost);
  }
  for (const entry& its : asked.descriptor) {
    one.words.emplace_back(its.key);
    one.words.emplace_back(its.value);
  }
  one.by_policy = asked.by_policy;
  one.pending = asked.pending;
  if (asked.by_policy) one.costs.push_back(asked.cost);
}

waits::Asking waits::ask(const Asked& asked, base::Time now, request::Ticket ticket,
                         uint64_t& arrival) {
  if (asked.pending) return ask_to_hold(asked, now, ticket, arrival);
  const embed::Gate::Inside inside(core_.gate());
  scratch_.clear();
  Asking asking = asked.by_policy ? ask_by_policy(asked, now, ticket, arrival)
                                  : ask_by_charges(asked, now, ticket, arrival);
  scratch_.clear();
  return asking;
}

waits::Asking waits::ask_by_policy(const Asked& asked, base::Time now, request::Ticket ticket,
                                   uint64_t& arrival) {
  const bool again = arrival != 0;
  entries_.clear();
  for (const entry& one : asked.descriptor) entries_.push_back({one.key, one.value});
  policy::Plan& plan = scratch_.plan;
  core_.policy()->rules.match(
      nullptr,
      {.descriptor = entries_,
       .request = {.verb = request::Verb::wait, .cost = asked.cost, .tag = {}},
       .now = now,
       .overrides = core_.overrides_table()},
      plan);
  if (!plan.parts().back().error.empty()) return {failed(errc::cannot_match)};
  request::Batch batch = plan.batch();
  if (!plan.may_wait()) {
    if (!again) core_.store().apply(batch, now);
    return {embed::unmatched()};
  }
  plan.let_wait(ticket, arrival);
  if (again) batch.groups = batch.groups.last(1);  // shadow rules have counted it
  return settle(batch, now, core_.policy(), arrival);
}

waits::Asking waits::ask_by_charges(const Asked& asked, base::Time now, request::Ticket ticket,
                                    uint64_t& arrival) {
  embed::Charges& together = scratch_.together;
  if (const errc why = core_.plan(asked.charges, request::Verb::wait, now, together);
      why != errc::ok)
    return {failed(why)};
  if (together.charges.empty()) return {embed::unmatched()};
  request::Group group;
  group.charge_count = static_cast<uint32_t>(together.charges.size());
  group.may_wait = true;
  group.ticket = ticket;
  group.arrival = arrival;
  return settle({{&group, 1}, together.charges, together.decisions}, now, {}, arrival);
}

waits::Asking waits::ask_to_hold(const Asked& asked, base::Time now, request::Ticket ticket,
                                 uint64_t& arrival) {
  reservations::Pending& its = *asked.pending;
  reservations& all = *core_.reservations();
  its.asker = {&completions_, ticket, core_.policy()};
  its.answered = false;
  its.call.outcome = request::HoldOutcome::failed;
  its.answer =
      asked.by_policy
          ? all.reserve(its.kind, asked.descriptor, asked.cost, its.ttl, embed::external(now), &its)
          : all.reserve(its.kind, asked.charges, its.ttl, embed::external(now), nullptr, &its);
  arrival = its.arrival;
  Asking asking;
  asking.answer = its.answer.now;
  asking.parked = its.wait != nullptr && its.call.outcome == request::HoldOutcome::waiting;
  asking.asked = its.wait == nullptr || asking.answer.error == errc::ok;
  asking.answered = its.answered;
  asking.fits = its.fits;
  return asking;
}

// It is not held, or not any more. Its parked group is gone.
void waits::drop_hold(Waiting& one, bool is_granted, base::Time now) noexcept {
  if (!one.pending || one.pending->wait == nullptr) return;
  try {
    core_.reservations()->drop(*one.pending, is_granted, embed::external(now));
  } catch (...) {  // without memory units of shadow rules stay taken
  }
}

void waits::drop_holds() noexcept {
  const std::lock_guard lock(mutex_);
  const base::Time now = internal(ran_);
  for (Waiting& one : waiting_)
    if (one.pending && one.pending->wait != nullptr)
      drop_hold(one, !cancel_parked(one.id, now), now);
}

// The last group is the one that may wait.
waits::Asking waits::settle(request::Batch batch, base::Time now, const store::Pin& pin,
                            uint64_t& arrival) {
  core_.store().apply(batch, now, &completions_, pin);
  const request::Group& group = batch.groups.back();
  Asking asking;
  asking.asked = true;
  asking.parked = group.parked;
  asking.answered = group.answered;
  arrival = group.arrival;
  if (group.error != request::Error::none) {
    asking.answer = failed(embed::error_of(group.error));
    return asking;
  }
  embed::Shown shown(request::Verb::wait);
  for (const auto& its : batch.charges.subspan(group.charge_first, group.charge_count)) {
    const auto decisions = batch.decisions.subspan(its.decision_first, its.limits.size());
    shown.add(decisions);
    // (Of a group that was asked again under the same limits decisions are void, without a time.)
    for (const limit::Decision& one : decisions)
      if (!one.allowed && one.retry_after.us != 0 && (its.cost > one.limit || one.limit == 0))
        asking.fits = false;
  }
  asking.answer = shown.of(group.allowed);
  return asking;
}

bool waits::cancel(wait_id id, time_point now) {
  const std::lock_guard lock(mutex_);
  const auto at = places_.find(id);
  if (at == places_.end() || !core_.store().cancel(completions_, ticket_of(id), internal(now)))
    return false;
  take_out(at, internal(now));
  return true;
}

// It waits no more. Allocates nothing, as the next, but for reserves.
waits::Done waits::take_out(std::map<wait_id, Place>::iterator at, base::Time now) {
  const Place place = at->second;
  Done out;
  out.splice(out.end(), waiting_, place.waiting);
  bytes_ -= out.front().bytes;
  if (place.deadline != deadlines_.end()) deadlines_.erase(place.deadline);
  places_.erase(at);
  drop_hold(out.front(), false, now);
  return out;
}

// It has its answer, which the next `run` hands out.
void waits::finish(wait_id id, const decision& answer, base::Time now) {
  const auto at = places_.find(id);
  if (at == places_.end()) return;
  Done out = take_out(at, now);
  out.front().last = answer;
  done_.splice(done_.end(), out);
  woken_.store(true);
}

waits::Asking waits::ask_anew(Waiting& one, base::Time now) {
  std::vector<charge> charges;
  for (size_t i = 0; i < one.handles.size(); ++i)
    charges.push_back({&one.handles[i], one.keys[i], one.costs[i]});
  std::vector<entry> descriptor;
  for (size_t i = 0; i + 1 < one.words.size(); i += 2)
    descriptor.push_back({one.words[i], one.words[i + 1]});
  return ask(asked_of(charges, descriptor, one), now, ticket_of(one.id), one.arrival);
}

// A change of the rules must not fail because a wait cannot be asked again: without memory the wait
// ends.
void waits::ask_again(Waiting& one, base::Time now) noexcept {
  Asking asking;
  try {
    asking = ask_anew(one, now);
  } catch (...) {
    asking.answer = failed(embed::caught().code);
  }
  if (asking.answered || (asking.parked && asking.fits)) return;
  // Where it is parked still: unless it was answered meanwhile.
  if ((!asking.asked || asking.parked) && !cancel_parked(one.id, now)) return;
  if (asking.asked && asking.fits && !asking.answer.allowed && asking.answer.error == errc::ok)
    asking.answer.error = errc::too_many_waiting;
  finish(one.id, asking.answer, now);
}

// False: it has its answer; or it could not be looked for, and waits as it did.
bool waits::cancel_parked(wait_id id, base::Time now) noexcept {
  try {
    return core_.store().cancel(completions_, ticket_of(id), now);
  } catch (...) {
    return false;
  }
}

void waits::ask_all_again(base::Time now) {
  for (auto at = places_.begin(); at != places_.end();) {
    Waiting& one = *at->second.waiting;
    ++at;  // it may be taken out
    ask_again(one, now);
  }
}

void waits::change(time_point now, const std::function<void()>& exchange) {
  const std::lock_guard lock(mutex_);
  {
    const embed::Gate::Closed closed(core_.gate());
    exchange();
  }
  if (waiting_.empty()) return;
  ask_all_again(internal(now));
  signal();
}

// What becomes of one that was granted.
decision waits::granted(wait_id id, const decision& answer, base::Time at) {
  const auto place = places_.find(id);
  if (place == places_.end()) return answer;
  Waiting& one = *place->second.waiting;
  if (!one.pending || one.pending->wait == nullptr) return answer;
  try {
    core_.reservations()->grant(*one.pending, answer, embed::external(at));
    return one.pending->answer.now;
  } catch (...) {
    const decision why = failed(embed::caught().code);
    drop_hold(one, true, at);
    return why;
  }
}

void waits::drain() {
  settled_.clear();
  completions_.drain(settled_);
  for (const store::Settled& settled : settled_) {
    embed::Shown shown(request::Verb::wait);
    shown.add(settled.decisions);
    const bool allowed = settled.error == request::Error::none;
    const wait_id id = id_of(settled.ticket);
    decision answer = allowed ? shown.of(true) : failed(embed::error_of(settled.error));
    if (allowed) answer = granted(id, answer, settled.at);
    finish(id, answer, settled.at);
  }
}

// The first of queues whose counters were written under other limits.
void waits::drain_named(base::Time now) {
  named_.clear();
  completions_.drain_waiters(named_);
  for (const request::Ticket ticket : named_) {
    const auto at = places_.find(id_of(ticket));
    if (at != places_.end()) ask_again(*at->second.waiting, now);
  }
}

void waits::expire(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const wait_id id = deadlines_.begin()->second;
    Place& its = places_.at(id);
    if (!core_.store().cancel(completions_, ticket_of(id), internal(now))) {
      deadlines_.erase(its.deadline);  // it was granted, and is drained next
      its.deadline = deadlines_.end();
      continue;
    }
    decision late = its.waiting->last;
    late.error = errc::timed_out;
    finish(id, late, internal(now));
  }
}

time_point waits::run(time_point now, const std::set<time_point>& ends, Done& done) {
  constexpr int rounds_max = 8;
  const std::lock_guard lock(mutex_);
  const auto end = ends.upper_bound(ran_);
  const bool ended = now < ran_ || (end != ends.end() && *end <= now);
  ran_ = now;
  if (ended) ask_all_again(internal(now));
  for (int round = 0; round < rounds_max; ++round) {
    woken_.store(false);
    const auto at = core_.store().advance(completions_, internal(now));
    next_ = at ? std::max(now, embed::external(*at)) : latest_time;
    drain_named(internal(now));
    drain();
    expire(now);
    drain();
    if (!woken_.load()) break;
    next_ = now;
  }
  if (!deadlines_.empty()) next_ = std::min(next_, deadlines_.begin()->first);
  if (const auto after = ends.upper_bound(now); !waiting_.empty() && after != ends.end())
    next_ = std::min(next_, *after);
  next_ = std::max(now, std::min(next_, core_.next_hold_end()));
  done.splice(done.end(), done_);
  return next_;
}

}  // namespace sluice::detail
