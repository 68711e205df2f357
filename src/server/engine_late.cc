// Replies that come later: of requests that wait for units, of lists, and of batches that the store
// has to ask elsewhere about.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/engine.h"
#include "server/inquiry.h"
#include "server/lister.h"
#include "server/protocol.h"
#include "server/verdict.h"

namespace sluice::server {

using limit::no_ticket;
using limit::Ticket;
using limit::Verb;

namespace {

constexpr base::Duration match_later_after = base::milliseconds(5);
constexpr base::Duration match_again_slice = base::milliseconds(1);
// Suspended batches that are kept to be used again.
constexpr size_t spare_max = 256;

}  // namespace

Ticket Engine::park(Protocol protocol, const wire::Request& request,
                    std::span<const limit::Entry> descriptor, Recipient* recipient) {
  Ticket ticket;
  Parked* const parked = parking_.park(*recipient, protocol, request, descriptor, ticket);
  if (parked == nullptr) return no_ticket;
  parked->since = clock_.now();
  return ticket;
}

// Was it matched by rules or overrides that may have changed since?
bool Engine::is_outdated(const Parked& parked) const {
  return parked.policy != policy_ ||
         (overrides_ != nullptr && parked.overrides_seen != overrides_->changes());
}

// Did the store park the part's group? Then what its reply will need is kept; else its ticket is
// free again.
bool Engine::is_parked(const policy::Plan::Part& part, Ticket ticket) {
  Parked* const parked = parking_.find(ticket);
  SLUICE_CHECK(parked != nullptr);
  const auto steps = plan_.steps(part);
  const limit::Group& group = plan_.group(steps.back());
  if (!group.parked) {
    parking_.leave(ticket);
    return false;
  }
  parked->arrival = group.arrival;
  parked->policy = *pin_;
  parked->overrides_seen = overrides_seen_;
  parked->strict =
      group.on_error == limit::OnError::error || group.on_error == limit::OnError::deny;
  parked->limits.clear();
  parked->rules.clear();
  for (const auto& step : steps) {
    if (step.rule->mode != policy::Mode::enforce) continue;
    parked->rules.push_back(Tally::name_of(**pin_, *step.rule));
    const auto limits = plan_.charge(step).limits;
    parked->limits.insert(parked->limits.end(), limits.begin(), limits.end());
  }
  // Who looked through those that wait has not seen it.
  if (is_outdated(*parked)) match_later(ticket, clock_.now());
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

Served Engine::suspend(const Progress& progress, wire::Requests& requests) {
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
  if (!later_.empty() && clock_.now() >= later_at_)
    match_some_again(std::exchange(later_, std::vector<Ticket>()), false);
  auto next = store_.advance(port_, clock_.now());
  if (!later_.empty() && (!next || later_at_ < *next)) next = later_at_;
  strict_ = false;
  late_.clear();
  port_.drain(late_);
  for (const store::Settled& settled : late_) {
    const Parked* const parked = parking_.find(settled.ticket);
    if (parked == nullptr) continue;
    wire::Verdict verdict;
    verdict.matched = true;
    if (settled.error != limit::Error::none) {
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
  const bool late_strict = strict_;  // those that go on have their own
  ready_.clear();
  port_.drain_batches(ready_);
  for (const Ticket ticket : ready_) {
    const Waiting& waiting = waiting_[ticket.slot];
    if (waiting.recipient != nullptr && waiting.generation == ticket.generation)
      waiting.recipient->go_on();
  }
  strict_ = late_strict;
  send_late();
  return next;
}

void Engine::reply_late(Ticket ticket, const wire::Verdict& verdict, base::Time now) {
  const Parked* const parked = parking_.find(ticket);
  if (std::find(recipients_.begin(), recipients_.end(), parked->recipient) == recipients_.end())
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
    recipient->send_late();
  }
}

void Engine::forget(Recipient& recipient) {
  std::erase(recipients_, &recipient);
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
  auto tickets = parking_.all();
  std::sort(tickets.begin(), tickets.end(), [this](Ticket a, Ticket b) {
    return parking_.find(a)->arrival < parking_.find(b)->arrival;
  });
  match_some_again(std::move(tickets), true);
}

// A little at a time: requests are not to wait for all that waits.
void Engine::match_some_again(std::vector<Ticket> tickets, bool all) {
  const base::Time now = clock_.now();
  strict_ = false;
  size_t done = 0;
  while (done < tickets.size() && clock_.now().us < now.us + match_again_slice.us)
    match_again(tickets[done++], now);
  send_late();
  tickets.erase(tickets.begin(), tickets.begin() + static_cast<std::ptrdiff_t>(done));
  if (!tickets.empty()) {
    run_([this, all, rest = std::move(tickets)]() mutable {
      match_some_again(std::move(rest), all);
    });
    return;
  }
  if (!all) return;
  matching_again_ = false;
  if (std::exchange(match_once_more_, false)) run_([this] { match_again(); });
}

void Engine::match_again(Ticket ticket, base::Time now) {
  Parked* const parked = parking_.find(ticket);
  if (parked == nullptr || parked->request.verb != Verb::wait) return;
  if (!is_outdated(*parked)) return;
  plan_.clear();
  note_overrides();
  const auto entries = parked->entries();
  rules_->match(dialect_of(parked->protocol),
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
    if (!settle(part.groups_end, now, no_ticket)) return match_later(ticket, now);
    const limit::Group& group = plan_.group(plan_.steps(part).back());
    if (group.answered) return;
    if (group.parked) {
      is_parked(part, ticket);
      return;
    }
  } else if (!store_.cancel(port_, ticket, now)) {
    return;
  }
  wire::Verdict verdict = verdict_of(plan_, part, store_);
  verdict.delayed = verdict.allowed;
  reply_late(ticket, verdict, now);
}

// The store has to ask elsewhere first, and names nobody.
void Engine::match_later(Ticket ticket, base::Time now) {
  later_.push_back(ticket);
  later_at_ = {now.us + match_later_after.us};
  if (later_.size() == 1) wake_();
}

// The verdict at once if there is nothing to look for, or nobody who could.
std::optional<wire::Verdict> Engine::start_list(Protocol protocol, const wire::Request& request,
                                                std::span<const limit::Entry> descriptor,
                                                Recipient* recipient) {
  wire::Verdict verdict;
  std::string_view error;
  const policy::Rule* const rule = rules_->decider(dialect_of(protocol), descriptor, error);
  if (rule == nullptr) return verdict;
  verdict.allowed = verdict.matched = true;
  if (lister_ == nullptr || recipient == nullptr) return verdict;
  const Ticket ticket = park(protocol, request, descriptor, recipient);
  if (ticket == no_ticket) return verdict;
  const bool begun = lister_->list(*rule->space, std::string(request.prefix),
                                   [this, ticket](std::vector<std::string> keys) {
                                     run_([this, ticket, keys = std::move(keys)]() mutable {
                                       on_listed(ticket, std::move(keys));
                                     });
                                   });
  if (begun) return std::nullopt;
  parking_.leave(ticket);
  return verdict;
}

// A list that was asked for, as whose recipient the store's answers come.
struct Engine::Listing final : Recipient {
  Listing(Engine& its_engine, Ticket its_ticket, std::vector<std::string> its_keys)
      : engine(its_engine), ticket(its_ticket), keys(std::move(its_keys)) {}
  void reply_late(const wire::Request&, const wire::Verdict&, base::Time) override {}
  void send_late() override {}
  void go_on() override { engine.look_at(*this); }

  Engine& engine;
  const Ticket ticket;  // of the request
  Ticket batch{};       // of what the store is asked
  const std::vector<std::string> keys;
  std::vector<std::pair<std::string, std::string>> descriptor;
  std::shared_ptr<const LivePolicy> policy;
  policy::Plan plan;  // a part for each key
  uint32_t settled = 0;
  bool matched = false;
};

// Looks at each counter as a request would: by the rules that are live now.
void Engine::on_listed(Ticket ticket, std::vector<std::string> keys) {
  const Parked* const parked = parking_.find(ticket);
  if (parked == nullptr) return;
  strict_ = false;
  auto& listing =
      *listings_.emplace_back(std::make_shared<Listing>(*this, ticket, std::move(keys)));
  listing.policy = policy_;
  listing.batch = new_ticket();
  listing.descriptor = parked->descriptor;
  const policy::Dialect dialect = dialect_of(parked->protocol);
  std::vector<limit::Entry> entries;
  for (const auto& [key, value] : listing.descriptor) entries.push_back({key, value});
  std::string_view error;
  const policy::Rule* const rule = rules_->decider(dialect, entries, error);
  listing.matched = rule != nullptr;
  if (rule != nullptr) {
    const base::Time now = clock_.now();
    entries.push_back({rule->actor.front(), {}});
    for (const std::string& key : listing.keys) {
      entries.back().value = key;
      rules_->match(
          dialect,
          {.descriptor = entries, .verb = Verb::peek, .now = now, .overrides = overrides()},
          listing.plan);
    }
  }
  look_at(listing);
  send_late();
}

// With what the store answers; as often as it says that it will answer later.
void Engine::look_at(Listing& listing) {
  const base::Time now = clock_.now();
  std::swap(plan_, listing.plan);
  std::swap(settled_, listing.settled);
  pin_ = &listing.policy;
  waiting_[listing.batch.slot].recipient = nullptr;
  const auto parts = plan_.parts();
  const bool answered = parts.empty() || settle(parts.back().groups_end, now, listing.batch);
  std::vector<wire::Listed> listed;
  for (size_t i = 0; answered && i < parts.size(); ++i) {
    const wire::Verdict verdict = verdict_of(plan_, parts[i], store_);
    if (verdict.tightest == nullptr || !verdict.error.empty() || !verdict.counted) continue;
    // One that is full and would not have been otherwise without a put is as if it were not.
    const limit::Decision& d = *verdict.tightest;
    if (d.reset_after == base::never && d.remaining == d.limit) continue;
    listed.push_back({listing.keys[i], d});
  }
  std::swap(plan_, listing.plan);
  std::swap(settled_, listing.settled);
  pin_ = &policy_;
  if (!answered) {
    waiting_[listing.batch.slot].recipient = &listing;
    return;
  }
  if (parking_.find(listing.ticket) != nullptr) {
    wire::Verdict verdict;
    verdict.allowed = true;
    verdict.matched = listing.matched;
    verdict.listed = listed;
    reply_late(listing.ticket, verdict, now);
  }
  free_ticket(listing.batch);
  std::erase_if(listings_, [&](const auto& one) { return one.get() == &listing; });
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

}  // namespace sluice::server
