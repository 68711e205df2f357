// Replies that come later: of requests that wait for units, and of batches that the store has to
// ask elsewhere about.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/inquiry.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"

namespace sluice::engine {

using request::no_ticket;
using request::Ticket;
using request::Verb;

namespace {

constexpr base::Duration match_later_after = base::milliseconds(5);
constexpr base::Duration look_at_clock_after = base::seconds(1);
constexpr base::Duration match_again_slice = base::milliseconds(1);
// Suspended batches that are kept to be used again.
constexpr size_t spare_max = 256;

}  // namespace

Ticket Engine::park(protocol::Protocol protocol, const request::Request& request,
                    std::span<const request::Entry> descriptor, Recipient* recipient) {
  Ticket ticket;
  Parked* const parked = parking_.park(*recipient, protocol, request, descriptor, ticket);
  if (parked == nullptr) return no_ticket;
  parked->since = clock_.now();
  return ticket;
}

// Was it matched by rules or overrides that may have changed since, or have ended?
bool Engine::is_outdated(const Parked& parked, base::Time now) const {
  return parked.again || parked.until <= now || parked.policy != policy_ ||
         (overrides_ != nullptr && parked.overrides_seen != overrides_->changes());
}

// When the first of those rules and overrides ends that the part was matched by. What was replaced
// since has ended.
base::Time Engine::end_of(const policy::Plan::Part& part, base::Time now) const {
  base::Time end{INT64_MAX};
  for (const auto& step : plan_.steps(part)) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    end = std::min(end, step.rule->until);
    if (step.override_id == 0) continue;
    policy::Override::Terms terms;
    const bool found = overrides_->find(step.rule->id, plan_.charge(step).key, now, terms);
    end = std::min(end, found && terms.id == step.override_id ? terms.until : now);
  }
  return end;
}

// Did the store park the part's group? Then what its reply will need is kept; else its ticket is
// free again.
bool Engine::is_parked(const policy::Plan::Part& part, Ticket ticket, base::Time now) {
  Parked* const parked = parking_.find(ticket);
  SLUICE_CHECK(parked != nullptr);
  const auto steps = plan_.steps(part);
  const request::Group& group = plan_.group(steps.back());
  if (!group.parked) {
    parking_.leave(ticket);
    return false;
  }
  parked->kept = true;
  parked->again = false;
  parked->arrival = group.arrival;
  parked->policy = *pin_;
  parked->overrides_seen = overrides_seen_;
  parked->strict =
      group.on_error == request::OnError::error || group.on_error == request::OnError::deny;
  parked->limits.clear();
  parked->rules.clear();
  for (const auto& step : steps) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    parked->rules.push_back(Tally::name_of(**pin_, *step.rule));
    const auto limits = plan_.charge(step).limits;
    parked->limits.insert(parked->limits.end(), limits.begin(), limits.end());
  }
  parking_.set_until(ticket, end_of(part, now));
  // Waiting requests are decided again where the clock goes back, also those without a time.
  advanced_ = std::max(advanced_, now);
  if (!std::exchange(watching_, true)) wake_();
  if (parking_.next_end() == parked->until) wake_();  // it may be earlier than what is waited for
  // match_again has passed over what the store did not keep yet.
  if (is_outdated(*parked, now)) match_later(ticket, {now.us + match_later_after.us});
  return true;
}

Ticket Engine::new_ticket() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(waiting_.size()));
    waiting_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return {slot, waiting_[slot].generation};
}

void Engine::free_ticket(Ticket ticket) {
  waiting_[ticket.slot] = {nullptr, ticket.generation + 1};
  free_slots_.push_back(ticket.slot);
}

Served Engine::suspend(const Progress& progress, request::Requests& requests) {
  Recipient* const recipient = progress.recipient;
  SLUICE_CHECK(recipient != nullptr && recipient->suspended_ == nullptr);
  if (spare_.empty()) spare_.push_back(std::make_unique<Suspended>());
  auto s = std::move(spare_.back());
  spare_.pop_back();
  s->progress = progress;
  std::swap(s->requests, requests);
  std::swap(s->plan, plan_);
  std::swap(s->tickets, tickets_);
  s->settled = settled_;
  s->policy = *pin_;
  s->overrides_seen = overrides_seen_;
  s->ticket = std::exchange(ticket_, no_ticket);
  waiting_[s->ticket.slot].recipient = recipient;
  recipient->suspended_ = std::move(s);
  return Served::later;
}

Served Engine::resume(Recipient& recipient, base::Buffer& out) {
  SLUICE_CHECK(recipient.suspended_ != nullptr);
  auto s = std::move(recipient.suspended_);
  std::swap(s->plan, plan_);
  std::swap(s->tickets, tickets_);
  settled_ = s->settled;
  pin_ = &s->policy;
  overrides_seen_ = s->overrides_seen;
  // The store knows the batch by its ticket.
  const Ticket other = std::exchange(ticket_, s->ticket);
  waiting_[ticket_.slot].recipient = nullptr;
  s->progress.now = clock_.now();
  strict_ = false;
  const Served served = go_on(s->progress, s->requests, out);
  if (served == Served::ended) store_.abandon(port_, ticket_);
  if (served != Served::later) free_ticket(ticket_);
  ticket_ = other;
  pin_ = &policy_;
  recycle(std::move(s));
  return served;
}

void Engine::recycle(std::unique_ptr<Suspended> s) {
  s->requests.clear();
  s->plan.clear();
  s->tickets.clear();
  s->policy.reset();
  if (spare_.size() < spare_max) spare_.push_back(std::move(s));
}

std::optional<base::Time> Engine::advance() {
  // Where the clock has gone back, what had ended holds again.
  if (const base::Time now = clock_.now(); now < std::exchange(advanced_, now)) {
    for (const Ticket ticket : parking_.kept()) parking_.find(ticket)->again = true;
    match_again();
  }
  match_ended_again(clock_.now());  // before the store answers any of them
  auto next = store_.advance(port_, clock_.now());
  if (!later_.empty() && (!next || later_at_ < *next)) next = later_at_;
  if (const auto end = parking_.next_end(); end && (!next || *end < *next)) next = end;
  watching_ = parking_.size() > 0;
  if (watching_ && !next) next = base::Time{clock_.now().us + look_at_clock_after.us};
  strict_ = false;
  late_.clear();
  port_.drain(late_);
  for (const store::Settled& settled : late_) {
    const Parked* const parked = parking_.find(settled.ticket);
    if (parked == nullptr) continue;
    SLUICE_CHECK(parked->kept);
    request::Verdict verdict;
    verdict.matched = true;
    if (settled.error != request::Error::none) {
      verdict.error = store_.words_of(settled.error);
      reply_late(settled.ticket, verdict, settled.at);
      continue;
    }
    SLUICE_CHECK(parked->limits.size() == settled.decisions.size());
    verdict.delayed = true;
    // Not where the store failed and its rules refuse then.
    verdict.allowed = std::all_of(settled.decisions.begin(), settled.decisions.end(),
                                  [](const limit::Decision& d) { return d.allowed; });
    for (size_t i = 0; i < settled.decisions.size(); ++i)
      weigh(settled.decisions[i], has_counter(parked->limits[i].algorithm), verdict);
    reply_late(settled.ticket, verdict, settled.at);
  }
  take_named();  // what the store has named since, it has woken for already
  // Before batches and lists go on: these may end a recipient, and have a strict_ of their own.
  send_late();
  ready_.clear();
  port_.drain_batches(ready_);
  for (const Ticket ticket : ready_) {
    const Waiting& waiting = waiting_[ticket.slot];
    if (waiting.recipient != nullptr && waiting.generation == ticket.generation)
      waiting.recipient->go_on();
  }
  return next;
}

void Engine::reply_late(Ticket ticket, const request::Verdict& verdict, base::Time now) {
  const Parked* const parked = parking_.find(ticket);
  if (!std::exchange(parked->recipient->has_replies_, true))
    recipients_.push_back(parked->recipient);
  tell_late(*parked, verdict, now);
  strict_ |= parked->strict && verdict.allowed;
  if (tally_ != nullptr)
    tally_->late(parked->protocol, parked->request.verb, verdict, parked->rules,
                 base::Duration{now.us - parked->since.us});
  parked->recipient->reply_late(parked->request, verdict, now);
  parking_.leave(ticket);
}

// A recipient that goes meanwhile is forgotten.
void Engine::send_late() {
  while (!recipients_.empty()) {
    Recipient* const recipient = recipients_.back();
    recipients_.pop_back();
    recipient->has_replies_ = false;
    recipient->send_late();
  }
}

void Engine::forget(Recipient& recipient) {
  if (std::exchange(recipient.has_replies_, false)) std::erase(recipients_, &recipient);
  if (has_lists(recipient)) forget_lists(recipient);
  if (recipient.suspended_ != nullptr) {
    store_.abandon(port_, recipient.suspended_->ticket);
    free_ticket(recipient.suspended_->ticket);
    recycle(std::move(recipient.suspended_));
  }
  for (const Ticket ticket : parking_.of(recipient)) {
    store_.cancel(port_, ticket, clock_.now());
    parking_.leave(ticket);
  }
}

void Engine::match_again() {
  if (std::exchange(matching_again_, true)) {
    match_once_more_ = true;
    return;
  }
  match_some_again(parking_.kept(), 0, true);
}

// A little at a time: requests are not to wait for all that waits. `done`: of the tickets, so many
// are.
void Engine::match_some_again(std::vector<Ticket> tickets, size_t done, bool all) {
  const base::Time now = clock_.now();
  strict_ = false;
  while (done < tickets.size() && clock_.now().us < now.us + match_again_slice.us)
    match_again(tickets[done++], now);
  send_late();
  if (done < tickets.size()) {
    run_([this, all, done, rest = std::move(tickets)]() mutable {
      match_some_again(std::move(rest), done, all);
    });
    return;
  }
  if (!all) return;
  matching_again_ = false;
  if (std::exchange(match_once_more_, false)) run_([this] { match_again(); });
}

void Engine::take_named() {
  const base::Time now = clock_.now();
  ended_.clear();
  port_.drain_waiters(ended_);
  for (const Ticket ticket : ended_) {
    Parked* const parked = parking_.find(ticket);
    if (parked == nullptr) continue;
    parked->again = true;
    match_later(ticket, now);
  }
}

// What was put off, what was matched by what has ended, and what the store wants matched again; in
// order of arrival, as nobody may be asked in front of another who came before.
void Engine::match_ended_again(base::Time now) {
  // The next of a queue is named when the first has been matched.
  for (const base::Time end{now.us + match_again_slice.us}; now < end;) {
    take_named();
    now = clock_.now();
    ended_.clear();
    parking_.take_ended(now, ended_);
    for (const Ticket ticket : ended_) match_later(ticket, now);
    // The clock may have gone back since that time was set.
    const int64_t left_us = later_at_.us - now.us;
    if (later_.empty() || (left_us > 0 && left_us <= match_later_after.us)) return;
    take_policy();
    auto tickets = std::exchange(later_, std::vector<Ticket>());
    std::erase_if(tickets, [this](Ticket ticket) { return parking_.find(ticket) == nullptr; });
    for (const Ticket ticket : tickets) parking_.find(ticket)->later = false;
    std::sort(tickets.begin(), tickets.end(), [this](Ticket a, Ticket b) {
      return parking_.find(a)->arrival < parking_.find(b)->arrival;
    });
    match_some_again(std::move(tickets), 0, false);
  }
}

void Engine::match_again(Ticket ticket, base::Time now) {
  Parked* const parked = parking_.find(ticket);
  if (parked == nullptr || !parked->kept) return;
  // The clock may have gone back since that end was taken from the list of ends.
  if (!is_outdated(*parked, now)) return parking_.set_until(ticket, parked->until);
  plan_.clear();
  note_overrides();
  const auto entries = parked->entries();
  rules_->match(protocol::dialect_of(parked->protocol),
                {.descriptor = entries,
                 .verb = Verb::wait,
                 .cost = parked->request.cost,
                 .now = now,
                 .overrides = overrides()},
                plan_);
  const auto& part = plan_.parts().back();
  // If it is answered it was by the policy that it was given under.
  if (plan_.may_wait()) {
    plan_.let_wait(ticket, parked->arrival);
    settled_ = part.groups_end - 1;  // shadow rules have counted it
    if (!settle(part.groups_end, now, no_ticket))
      return match_later(ticket, {now.us + match_later_after.us});
    const request::Group& group = plan_.group(plan_.steps(part).back());
    if (group.answered) return;
    if (group.parked) {
      is_parked(part, ticket, now);
      return;
    }
  } else if (!store_.cancel(port_, ticket, now)) {
    return;
  }
  request::Verdict verdict = verdict_of(plan_, part, store_);
  verdict.delayed = verdict.allowed;
  reply_late(ticket, verdict, now);
}

// At that time at the latest.
void Engine::match_later(Ticket ticket, base::Time at) {
  if (std::exchange(parking_.find(ticket)->later, true)) return;
  if (later_.empty() || at < later_at_) {
    later_at_ = at;
    wake_();
  }
  later_.push_back(ticket);
}

bool Engine::waits(Ticket ticket) {
  const Parked* const parked = parking_.find(ticket);
  return parked != nullptr && parked->kept;
}

Engine::Held Engine::held() const {
  // One ticket is the next batch's.
  const size_t free = free_slots_.size() + (ticket_ == no_ticket ? 0 : 1);
  return {parking_.size(), waiting_.size() - free, later_.size()};
}

void Engine::inquire(std::shared_ptr<Inquiry> inquiry) {
  inquiry->engine_ = this;
  inquiry->ticket_ = new_ticket();
  inquiries_.push_back(inquiry);
  pursue(*inquiry);
}

// Round by round, as long as the store answers at once.
void Engine::pursue(Inquiry& inquiry) {
  std::swap(plan_, inquiry.plan_);
  std::swap(settled_, inquiry.settled_);
  pin_ = &inquiry.policy_;
  waiting_[inquiry.ticket_.slot].recipient = nullptr;
  bool answered = true;
  for (;;) {
    const base::Time now = clock_.now();
    const auto parts = plan_.parts();
    if (!parts.empty()) answered = settle(parts.back().groups_end, now, inquiry.ticket_);
    if (!answered) break;
    settled_ = 0;
    if (!inquiry.next(plan_, {now, store_, overrides()})) break;
  }
  std::swap(plan_, inquiry.plan_);
  std::swap(settled_, inquiry.settled_);
  pin_ = &policy_;
  if (!answered) {
    waiting_[inquiry.ticket_.slot].recipient = &inquiry;
    return;
  }
  free_ticket(inquiry.ticket_);
  const auto its = std::find_if(inquiries_.begin(), inquiries_.end(),
                                [&](const auto& one) { return one.get() == &inquiry; });
  const std::shared_ptr<Inquiry> last = std::move(*its);
  inquiries_.erase(its);
  if (inquiry.changes()) inquiry.gate_ = store_.gate(true);
  inquiry.under_way_.reset();
  inquiry.answered_.set_value();
}

}  // namespace sluice::engine
