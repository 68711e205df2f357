#include "engine/late_replies.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "engine/decision_log.h"
#include "engine/hold_plan.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"

namespace sluice::engine {

void PendingReply::copy(protocol::Protocol its_protocol, const request::Request& its_request,
                        std::span<const request::Entry> its_descriptor,
                        std::span<const limit::Limit> its_limits) {
  brought.assign(its_limits.begin(), its_limits.end());
  protocol = its_protocol;
  tag = its_request.tag;
  message = *its_request.message;
  message.charge_id = nullptr;  // a text of the batch; charges do not wait
  message.hold = nullptr;       // of the batch as well
  for (const auto& [key, value] : its_descriptor) descriptor.emplace_back(key, value);
  request = its_request;
  request.tag = tag;
  request.message = &message;
  request.entry_count = request.limits.count = 0;
}

std::vector<request::Entry> PendingReply::entries() const {
  std::vector<request::Entry> all;
  for (const auto& [key, value] : descriptor) all.push_back({key, value});
  return all;
}

// What a reserve that waits needs beside: its texts, and for each charge what its grant fills in.
constexpr size_t hold_bytes = request::holder_bytes_max + 2 * sizeof(request::HeldCharge);

size_t PendingReply::bytes() const {
  size_t sum = sizeof *this + tag.size() + brought.size() * sizeof(limit::Limit);
  if (request.verb == request::Verb::wait) sum += sizeof(Denial);  // for refused_by
  if (is_hold()) sum += hold_bytes;
  for (const auto& [key, value] : descriptor)
    sum += sizeof descriptor.front() + key.size() + value.size();
  return sum;
}

PendingReply* PendingReplies::add(const Batch& batch, const request::Request& request,
                                  request::Ticket& ticket) {
  ReplySink& sink = *batch.sink;
  if (sink.pending_.size() >= base::bounds::waiting_per_connection_max) return nullptr;
  if (bytes_ >= base::bounds::parked_bytes_max) return nullptr;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<PendingReply>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  PendingReply& pending = *slots_[slot];
  pending.sink = &sink;
  pending.session = batch.session;
  pending.copy(batch.protocol, request, batch.requests.descriptor(request),
               batch.requests.limits(request));
  sink.pending_.insert(slot);
  ++size_;
  bytes_ += pending.bytes();
  ticket = {slot, pending.generation};
  return &pending;
}

PendingReply* PendingReplies::find(request::Ticket ticket) {
  if (ticket.slot >= slots_.size()) return nullptr;
  PendingReply& pending = *slots_[ticket.slot];
  return pending.sink != nullptr && pending.generation == ticket.generation ? &pending : nullptr;
}

void PendingReplies::remove(request::Ticket ticket) {
  PendingReply* const pending = find(ticket);
  if (pending == nullptr) return;
  bytes_ -= pending->bytes();
  --size_;
  ends_.erase({pending->until.us, ticket.slot});
  deadlines_.erase({pending->deadline.us, ticket.slot});
  pending->sink->pending_.erase(ticket.slot);
  const uint32_t generation = pending->generation + 1;
  *pending = PendingReply{};
  pending->generation = generation;
  free_.push_back(ticket.slot);
}

std::vector<request::Ticket> PendingReplies::of(const ReplySink& sink) const {
  std::vector<request::Ticket> tickets;
  for (const uint32_t slot : sink.pending_) tickets.push_back({slot, slots_[slot]->generation});
  return tickets;
}

std::vector<request::Ticket> PendingReplies::kept() const {
  std::vector<std::pair<uint64_t, request::Ticket>> by_arrival;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const PendingReply& pending = *slots_[slot];
    if (pending.kept) by_arrival.push_back({pending.arrival, {slot, pending.generation}});
  }
  std::sort(by_arrival.begin(), by_arrival.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<request::Ticket> tickets;
  for (const auto& [arrival, ticket] : by_arrival) tickets.push_back(ticket);
  return tickets;
}

void PendingReplies::set_until(request::Ticket ticket, base::Time until) {
  PendingReply& pending = *find(ticket);
  ends_.erase({pending.until.us, ticket.slot});
  pending.until = until;
  if (until.us != INT64_MAX) ends_.emplace(until.us, ticket.slot);
}

std::optional<base::Time> PendingReplies::next_end() const {
  if (ends_.empty()) return std::nullopt;
  return base::Time{ends_.begin()->first};
}

void PendingReplies::take_ended(base::Time now, std::vector<request::Ticket>& ended) {
  while (!ends_.empty() && ends_.begin()->first <= now.us) {
    const uint32_t slot = ends_.begin()->second;
    ended.push_back({slot, slots_[slot]->generation});
    ends_.erase(ends_.begin());
  }
}

void PendingReplies::set_deadline(request::Ticket ticket, base::Time deadline) {
  PendingReply& pending = *find(ticket);
  deadlines_.erase({pending.deadline.us, ticket.slot});  // an earlier one
  pending.deadline = deadline;
  deadlines_.emplace(deadline.us, ticket.slot);
}

std::optional<base::Time> PendingReplies::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return base::Time{deadlines_.begin()->first};
}

void PendingReplies::take_expired(base::Time monotonic, std::vector<request::Ticket>& expired) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= monotonic.us) {
    const uint32_t slot = deadlines_.begin()->second;
    expired.push_back({slot, slots_[slot]->generation});
    deadlines_.erase(deadlines_.begin());
  }
}

using request::HoldOutcome;
using request::no_ticket;
using request::Ticket;
using request::Verb;

namespace {

constexpr base::Duration match_later_after = base::milliseconds(5);
constexpr base::Duration look_at_clock_after = base::seconds(1);
constexpr base::Duration match_again_slice = base::milliseconds(1);

}  // namespace

Ticket LateReplies::add(const Batch& batch, const request::Request& request) {
  Ticket ticket;
  PendingReply* const pending = pending_.add(batch, request, ticket);
  if (pending == nullptr) return no_ticket;
  pending->since = decider_.now();
  pending->asked_at = decider_.deps().clock.monotonic();
  return ticket;
}

// May the rules or overrides that it was matched by have changed since, or have they ended?
bool LateReplies::is_outdated(const PendingReply& pending, base::Time now) const {
  return pending.again || pending.until <= now || pending.policy != decider_.policy() ||
         (decider_.deps().overrides != nullptr &&
          pending.overrides_seen != decider_.overrides_changes());
}

// When the first of the rules and overrides ends that the part was matched by. One that was
// replaced meanwhile counts as ended.
base::Time LateReplies::end_of(const Batch& batch, const policy::Plan::RequestPlan& part,
                               base::Time now) const {
  base::Time end{INT64_MAX};
  for (const auto& step : batch.plan.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    end = std::min(end, step.rule->until);
    if (step.override_id == 0) continue;
    policy::Override::Terms terms;
    const bool found = decider_.deps().overrides->find(step.rule->id, step.actor, now, terms);
    end = std::min(end, found && terms.id == step.override_id ? terms.until : now);
  }
  return end;
}

bool LateReplies::keep_or_release(const Batch& batch, const policy::Plan::RequestPlan& part,
                                  Ticket ticket, base::Time now) {
  PendingReply* const pending = pending_.find(ticket);
  SLUICE_CHECK(pending != nullptr);
  const auto steps = batch.plan.steps(part);
  const request::Group& group = batch.plan.group(steps.back());
  if (!group.parked) {
    pending_.remove(ticket);
    return false;
  }
  pending->kept = true;
  pending->again = false;
  pending->arrival = group.arrival;
  pending->policy = batch.policy;
  pending->overrides_seen = batch.overrides_seen;
  pending->needs_commit =
      group.on_error == request::OnError::error || group.on_error == request::OnError::deny;
  pending->limits.clear();
  pending->limit_rules.clear();
  pending->rules.clear();
  for (const auto& step : steps) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    pending->rules.push_back(WorkerStats::name_of(*batch.policy, *step.rule));
    const auto limits = batch.plan.charge(step).limits;
    pending->limits.insert(pending->limits.end(), limits.begin(), limits.end());
    pending->limit_rules.resize(pending->limits.size(), step.rule);
  }
  if (const TopKeys* const keys = decider_.deps().top_keys)
    keys->note_waiting(*batch.policy, batch.plan, part, now, pending->refused_by);
  pending_.set_until(ticket, end_of(batch, part, now));
  const base::Duration patience = pending->message.wait_at_most;
  const bool has_deadline =
      (patience.us > 0 || pending->interrupted) && pending->deadline.us == INT64_MAX;
  if (has_deadline)
    pending_.set_deadline(
        ticket, {pending->interrupted ? pending->asked_at.us : pending->asked_at.us + patience.us});
  // After the clock has gone back waiting requests are decided again, also those without an end.
  advanced_ = std::max(advanced_, now);
  const auto& wake = decider_.deps().wake;
  if (!std::exchange(watching_, true)) wake();
  // This end or deadline may be earlier than the time at which the engine is called next.
  if (pending_.next_end() == pending->until) wake();
  if (has_deadline && pending_.next_deadline() == pending->deadline) wake();
  // match_again skips requests that the store does not keep yet.
  if (is_outdated(*pending, now)) match_later(ticket, {now.us + match_later_after.us});
  return true;
}

void LateReplies::keep_hold(Ticket ticket, const request::HoldCall& call,
                            std::unique_ptr<store::HoldBook::Wait> wait) {
  PendingReply& pending = *pending_.find(ticket);
  pending.hold_user = call.user;
  pending.hold_id = call.id;
  pending.holder = call.holder;
  pending.hold = call;
  pending.hold.user = pending.hold_user;
  pending.hold.id = pending.hold_id;
  pending.hold.holder = pending.holder;
  pending.hold_wait = std::move(wait);
}

// Nobody waits for the hold any more. is_granted: the store has answered already.
void LateReplies::drop_hold(PendingReply& pending, bool is_granted, base::Time now) {
  if (pending.hold_wait == nullptr) return;
  const auto wait = std::move(pending.hold_wait);
  decider_.deps().holds->drop(*wait, is_granted, now);
}

void LateReplies::forget(ReplySink& sink) {
  if (std::exchange(sink.has_replies_, false)) std::erase(sinks_, &sink);
  for (const Ticket ticket : pending_.of(sink)) {
    const base::Time now = decider_.now();
    const bool canceled = decider_.deps().store.cancel(decider_.completions(), ticket, now);
    drop_hold(*pending_.find(ticket), !canceled, now);
    pending_.remove(ticket);
  }
}

// The store has just parked it, so nothing has been taken for it.
bool LateReplies::give_up(const Batch& batch, const policy::Plan::RequestPlan& part, Ticket ticket,
                          base::Time now) {
  decider_.deps().store.cancel(decider_.completions(), ticket, now);
  drop_hold(*pending_.find(ticket), false, now);
  if (TopKeys* const keys = decider_.deps().top_keys) {
    std::vector<Denial> refused_by;
    keys->note_waiting(*batch.policy, batch.plan, part, now, refused_by);
    keys->refused_late(refused_by, now);
  }
  pending_.remove(ticket);
  return false;
}

// Ends waits as if their deadline were over. One that the store does not keep yet ends once the
// store keeps it.
void LateReplies::interrupt(ReplySink& sink, const request::Session* session, bool stops) {
  for (const Ticket ticket : pending_.of(sink)) {
    PendingReply& pending = *pending_.find(ticket);
    if (session != nullptr && !session->has_ended_wait(pending.request)) continue;
    pending.interrupted = true;
    pending.stops |= stops;
    if (pending.kept) pending_.set_deadline(ticket, pending.asked_at);
  }
  decider_.deps().wake();
}

void LateReplies::match_again() {
  if (std::exchange(matching_again_, true)) {
    match_once_more_ = true;
    return;
  }
  match_some_again(pending_.kept(), 0, true);
}

// Works in slices of limited time, so that requests are served between them. `done`: how many of
// the tickets are done.
void LateReplies::match_some_again(std::vector<Ticket> tickets, size_t done, bool all) {
  const base::Time now = decider_.now();
  while (done < tickets.size() && decider_.now().us < now.us + match_again_slice.us)
    match_again(tickets[done++], now);
  again_.plan.clear();
  again_.policy.reset();
  flush();
  if (done < tickets.size()) {
    decider_.deps().run([this, all, done, rest = std::move(tickets)]() mutable {
      match_some_again(std::move(rest), done, all);
    });
    return;
  }
  if (!all) return;
  matching_again_ = false;
  if (std::exchange(match_once_more_, false)) decider_.deps().run([this] { match_again(); });
}

// Takes the requests that the store has named, each the first of its queue: they are matched again
// by the live rules.
void LateReplies::take_named() {
  const base::Time now = decider_.now();
  tickets_.clear();
  decider_.completions().drain_waiters(tickets_);
  for (const Ticket ticket : tickets_) {
    PendingReply* const pending = pending_.find(ticket);
    if (pending == nullptr) continue;
    pending->again = true;
    match_later(ticket, now);
  }
}

// Matches again the requests that were put off, those matched by overrides that have expired, and
// those that the store has named. In order of arrival, so that none overtakes an earlier one.
void LateReplies::match_outdated(base::Time now) {
  // The store names the next of a queue once the first has been matched.
  for (const base::Time end{now.us + match_again_slice.us}; now < end;) {
    take_named();
    now = decider_.now();
    tickets_.clear();
    pending_.take_ended(now, tickets_);
    for (const Ticket ticket : tickets_) match_later(ticket, now);
    // The clock may have gone back since that time was set.
    const int64_t left_us = outdated_at_.us - now.us;
    if (outdated_.empty() || (left_us > 0 && left_us <= match_later_after.us)) return;
    decider_.take_policy();
    auto tickets = std::exchange(outdated_, std::vector<Ticket>());
    std::erase_if(tickets, [this](Ticket ticket) { return pending_.find(ticket) == nullptr; });
    for (const Ticket ticket : tickets) pending_.find(ticket)->later = false;
    std::sort(tickets.begin(), tickets.end(), [this](Ticket a, Ticket b) {
      return pending_.find(a)->arrival < pending_.find(b)->arrival;
    });
    match_some_again(std::move(tickets), 0, false);
  }
}

void LateReplies::match_again(Ticket ticket, base::Time now) {
  PendingReply* const pending = pending_.find(ticket);
  if (pending == nullptr || !pending->kept) return;
  // The clock may have gone back since that end was taken from the list of ends.
  if (!is_outdated(*pending, now)) return pending_.set_until(ticket, pending->until);
  Batch& batch = again_;
  batch.plan.clear();
  if (batch.policy != decider_.policy()) batch.policy = decider_.policy();
  batch.overrides_seen = decider_.overrides_changes();
  const auto entries = pending->entries();
  decider_.forget_plannings();
  policy::Matching matching =
      decider_.matching(pending->protocol, *pending->session, pending->request, entries,
                        pending->brought, pending->sink, now, batch.plan.texts());
  matching.overrides = decider_.overrides();
  if (!decider_.number_limits(matching, pending->sink))
    return match_later(ticket, {now.us + look_at_clock_after.us});
  decider_.rules().match(protocol::dialect_of(pending->protocol), matching, batch.plan);
  const auto& part = batch.plan.parts().back();
  // A request that has its answer was decided by the policy under which it was settled.
  if (batch.plan.may_wait()) {
    batch.plan.let_wait(ticket, pending->arrival);
    batch.settled = part.groups_end - 1;  // shadow rules have counted it
    if (pending->hold_wait == nullptr ? !decider_.settle_all(batch, now)
                                      : !reserve_again(*pending, batch, now))
      return match_later(ticket, {now.us + match_later_after.us});
    const request::Group& group = batch.plan.group(batch.plan.steps(part).back());
    if (group.answered) return;
    if (group.parked) {
      const bool ends = pending->message.must_fit && never_fits(batch.plan, part) &&
                        decider_.deps().store.cancel(decider_.completions(), ticket, now);
      if (ends) drop_hold(*pending, false, now);
      if (!ends) {
        keep_or_release(batch, part, ticket, now);
        return;
      }
    }
  } else if (!decider_.deps().store.cancel(decider_.completions(), ticket, now)) {
    return;
  } else {
    drop_hold(*pending, false, now);
  }
  request::Verdict verdict = verdict_of(batch.plan, part, decider_.deps().store);
  verdict.generation = batch.policy->generation;
  reply(ticket, verdict, now);
}

// Settles the last group of a reserve that waits. False: the store has no answer yet.
bool LateReplies::reserve_again(PendingReply& pending, Batch& batch, base::Time now) {
  request::Batch charges = batch.plan.batch();
  HoldPlan plan(batch.plan, {&pending.request, 1}, pending.hold.terms);
  if (plan.is_mixed) return decider_.settle_all(batch, now);
  plan.lease_places(pending.hold);
  plan.set_costs(charges);
  charges.groups = charges.groups.last(1);
  return decider_.deps().holds->reserve_or_wait(
      pending.hold, plan.terms, charges, plan.shares, plan.units, now,
      {&decider_.completions(), request::no_ticket, batch.policy}, pending.hold_wait);
}

// Matches it again at that time, or before.
void LateReplies::match_later(Ticket ticket, base::Time at) {
  if (std::exchange(pending_.find(ticket)->later, true)) return;
  if (outdated_.empty() || at < outdated_at_) {
    outdated_at_ = at;
    decider_.deps().wake();
  }
  outdated_.push_back(ticket);
}

bool LateReplies::waits(Ticket ticket) {
  const PendingReply* const pending = pending_.find(ticket);
  return pending != nullptr && pending->kept;
}

std::optional<base::Time> LateReplies::advance() {
  // After the clock has gone back, overrides that had expired hold again.
  if (const base::Time now = decider_.now(); now < std::exchange(advanced_, now)) {
    for (const Ticket ticket : pending_.kept()) pending_.find(ticket)->again = true;
    match_again();
  }
  match_outdated(decider_.now());  // before the store answers any of these requests
  auto next = decider_.deps().store.advance(decider_.completions(), decider_.now());
  if (!outdated_.empty() && (!next || outdated_at_ < *next)) next = outdated_at_;
  if (const auto end = pending_.next_end(); end && (!next || *end < *next)) next = end;
  watching_ = pending_.size() > 0;
  if (watching_ && !next) next = base::Time{decider_.now().us + look_at_clock_after.us};
  take_answers();
  expire();
  if (const auto deadline = pending_.next_deadline()) {
    const base::Time now = decider_.now();
    const int64_t left_us = deadline->us - decider_.deps().clock.monotonic().us;
    const base::Time then{now.us + std::max<int64_t>(left_us, 0)};
    if (!next || then < *next) next = then;
  }
  take_named();  // the store does not wake the worker again for these
  flush();
  return next;
}

void LateReplies::take_answers() {
  answers_.clear();
  decider_.completions().drain(answers_);
  for (const store::Settled& settled : answers_) {
    PendingReply* const pending = pending_.find(settled.ticket);
    if (pending == nullptr) continue;
    SLUICE_CHECK(pending->kept);
    request::Verdict verdict;
    verdict.matched = true;
    if (settled.error != request::Error::none) {
      drop_hold(*pending, false, settled.at);
      verdict.error = decider_.deps().store.message_for(settled.error);
      verdict.cause = settled.error;
      reply(settled.ticket, verdict, settled.at);
      continue;
    }
    SLUICE_CHECK(pending->limits.size() == settled.decisions.size());
    // False also if the store failed and the request's rules refuse then.
    verdict.allowed = std::all_of(settled.decisions.begin(), settled.decisions.end(),
                                  [](const limit::Decision& d) { return d.allowed; });
    for (size_t i = 0; i < settled.decisions.size(); ++i) {
      if (!weigh(settled.decisions[i], verdict)) continue;
      verdict.rule = pending->limit_rules[i]->name;
      verdict.unit = pending->limit_rules[i]->unit;
      verdict.limit = &pending->limits[i];
      verdict.inline_limit = pending->limit_rules[i]->limits_from == policy::LimitsFrom::request;
    }
    if (pending->hold_wait != nullptr) {
      if (verdict.allowed)
        decider_.deps().holds->grant(pending->hold, *pending->hold_wait, settled.at);
      else
        drop_hold(*pending, false, settled.at);
      pending->hold_wait.reset();
      verdict.allowed = verdict.allowed && pending->hold.outcome == request::HoldOutcome::done;
    }
    reply(settled.ticket, verdict, settled.at);
  }
}

// Ends requests past their deadline. If the store has answered one already, that answer is on its
// way and counts.
void LateReplies::expire() {
  tickets_.clear();
  pending_.take_expired(decider_.deps().clock.monotonic(), tickets_);
  const base::Time now = decider_.now();
  for (const Ticket ticket : tickets_) {
    if (!decider_.deps().store.cancel(decider_.completions(), ticket, now)) continue;
    drop_hold(*pending_.find(ticket), false, now);
    request::Verdict verdict;
    verdict.matched = true;
    if (pending_.find(ticket)->stops)
      verdict.error = request::server_stops;
    else
      verdict.expired = true;
    reply(ticket, verdict, now);
  }
}

void LateReplies::reply(Ticket ticket, const request::Verdict& given, base::Time now) {
  PendingReply* const pending = pending_.find(ticket);
  request::Verdict verdict = given;
  if (pending->is_hold()) {
    // What did not become a hold is refused, or failed.
    if (pending->hold.outcome == HoldOutcome::waiting)
      pending->hold.outcome = verdict.error.empty() ? HoldOutcome::refused : HoldOutcome::failed;
    pending->hold.error = verdict.cause;
    verdict.hold = &pending->hold;
  }
  verdict.waited = base::Duration{decider_.deps().clock.monotonic().us - pending->asked_at.us};
  if (verdict.generation == 0 && pending->policy != nullptr)
    verdict.generation = pending->policy->generation;
  ReplySink& sink = *pending->sink;
  if (!std::exchange(sink.has_replies_, true)) sinks_.push_back(&sink);
  log_late(decider_.log(), *pending, verdict, now);
  sink.needs_commit_ |= pending->needs_commit && verdict.allowed;
  if (WorkerStats* const stats = decider_.deps().stats)
    stats->late(pending->protocol, pending->request.verb, verdict, pending->rules,
                base::Duration{now.us - pending->since.us});
  const bool refused = verdict.matched && !verdict.allowed && verdict.error.empty();
  if (TopKeys* const keys = decider_.deps().top_keys; keys != nullptr && refused)
    keys->refused_late(pending->refused_by, now);
  if (is_unmatched(pending->request.verb, verdict) && !verdict.expired)
    answer_unmatched(sink.unmatched(), pending->request.verb, verdict);
  sink.reply_late(pending->request, verdict, now);
  pending_.remove(ticket);
}

// A sink that goes while this runs has been removed by `forget`.
void LateReplies::flush() {
  while (!sinks_.empty()) {
    ReplySink* const sink = sinks_.back();
    sinks_.pop_back();
    sink->has_replies_ = false;
    sink->flush_late(std::exchange(sink->needs_commit_, false));
  }
}

}  // namespace sluice::engine
