#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "access/users.h"
#include "base/bounds.h"
#include "base/check.h"
#include "engine/admin_query.h"
#include "engine/decision_log.h"
#include "engine/hold_plan.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"
#include "store/hold_book.h"

namespace sluice::engine {

using policy::Mode;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::no_ticket;
using request::Ticket;
using request::too_many_inline_limits;
using request::Verb;

namespace {

// A reply sent before its commit must not grant anything that depends on it.
bool must_be_committed(const policy::Plan& plan, const policy::Plan::RequestPlan& part) {
  for (const auto& step : plan.steps(part)) {
    const request::Group& group = plan.group(step);
    const request::Charge& charge = plan.charge(step);
    // A refusal is a change only where it was charged.
    const bool changes = group.allowed || charge.verb == Verb::count;
    if (step.rule->mode != Mode::enforce || group.error != request::Error::none || !changes)
      continue;
    if (request::only_looks(charge.verb) ||
        (!charge.keeps_limits && !limit::is_counted(charge.limits)))
      continue;
    if (group.on_error == request::OnError::error || group.on_error == request::OnError::deny)
      return true;
  }
  return false;
}

}  // namespace

Engine::Engine(Deps&& deps, std::shared_ptr<spdlog::logger> log)
    : decider_(std::move(deps), std::move(log)),
      late_(decider_),
      lists_(decider_),
      commits_(decider_.deps().store.committer() != nullptr &&
               decider_.deps().store.committer()->commits_first()) {}

Batch& Engine::next_batch() {
  Batch& batch = decider_.next();
  batch.requests.clear();
  needs_commit_ = false;
  return batch;
}

Served Engine::serve(Batch& batch, protocol::Protocol protocol, request::Session& session,
                     base::Buffer& out, ReplySink* sink) {
  decider_.take_policy();
  needs_commit_ = false;
  batch.plan.clear();
  batch.protocol = protocol;
  batch.session = &session;
  batch.sink = sink;
  batch.first = batch.next = 0;
  batch.settled = 0;
  batch.hold = nullptr;
  batch.now = batch.since = decider_.now();
  end_holds(batch.now);
  if (decider_.log().should_log(spdlog::level::debug))
    batch.began = std::chrono::steady_clock::now();
  const Served served = answer_batch(batch, out);
  if (served == Served::all) [[likely]]
    return served;
  decider_.take_next();
  return served == Served::ended ? end(batch) : suspend(batch);
}

Served Engine::resume(Batch& batch, base::Buffer& out) {
  SLUICE_CHECK(batch.owner != nullptr);
  batch.owner = nullptr;
  std::erase(batch.sink->suspended_, &batch);
  batch.now = decider_.now();
  end_holds(batch.now);
  needs_commit_ = false;
  const Served served = answer_batch(batch, out);
  if (served == Served::later) return suspend(batch);
  if (served == Served::ended) return end(batch);
  decider_.batches().close(batch);
  return served;
}

// The store knows the batch by its ticket.
Served Engine::suspend(Batch& batch) {
  SLUICE_CHECK(batch.sink != nullptr);
  batch.owner = batch.sink;
  batch.sink->suspended_.push_back(&batch);
  return Served::later;
}

// The store may hold answers for the groups that were not reached, and may still name the ticket:
// both are void.
Served Engine::end(Batch& batch) {
  decider_.deps().store.abandon(decider_.completions(), batch.ticket);
  decider_.batches().close(batch);
  return Served::ended;
}

Served Engine::answer_batch(Batch& batch, base::Buffer& out) {
  const Decider::Deps& deps = decider_.deps();
  const bool telling = decider_.log().should_log(spdlog::level::debug);
  const uint64_t told_every = deps.denials == nullptr ? 0 : deps.denials->every();
  WorkerStats* const stats = deps.stats;
  const CountedBatch counted(stats, batch.protocol, batch.now, batch.since);
  const auto all = batch.requests.items();
  policy::Plan& plan = batch.plan;
  bool later = false;  // the store has no answer yet for the groups after `settled`
  for (;; batch.next = 0) {
    if (batch.hold != nullptr && batch.next == 0 && !settle_hold(batch)) [[unlikely]]
      return Served::later;
    for (; batch.next < plan.parts().size(); ++batch.next) {
      const auto& part = plan.parts()[batch.next];
      const auto& request = all[batch.first + batch.next];
      const Verb verb = request::told_as(request.verb);
      if (verb == Verb::list) [[unlikely]] {
        request::Verdict verdict;
        const Lists::Started started = lists_.start(batch, request, verdict);
        if (started == Lists::Started::begun) continue;
        if (started == Lists::Started::no_room) return Served::later;
        if (stats != nullptr) stats->answered(batch.protocol, verb, verdict);
        if (!batch.session->reply(request, verdict, batch.now, out)) return Served::ended;
        continue;
      }
      // Parts that are settled get their replies before the batch is suspended: from here on the
      // store may answer at any time the groups that it has parked.
      if (batch.settled < part.groups_end &&
          (later || !decider_.settle(batch, part.groups_end, batch.now, later))) [[unlikely]]
        return Served::later;
      if (batch.hold != nullptr) [[unlikely]] {
        needs_commit_ |= commits_;
        if (batch.hold_step == Batch::HoldStep::answered) {
          if (!reply_hold(batch, request, out)) return Served::ended;
          continue;
        }
      }
      plan.settled(part);
      if (commits_ && !needs_commit_) needs_commit_ = must_be_committed(plan, part);
      if (stats != nullptr) stats->decided(batch.protocol, *batch.policy, plan, part, verb);
      if (deps.top_keys != nullptr)
        deps.top_keys->decided(batch.now, *batch.policy, plan, part, verb);
      if (telling) log_decision(decider_.log(), batch, request, part);
      if (batch.next < batch.tickets.size() && batch.tickets[batch.next] != no_ticket)
          [[unlikely]] {
        const Ticket ticket = batch.tickets[batch.next];
        const bool waits = request.message->must_fit && never_fits(plan, part)
                               ? late_.give_up(batch, part, ticket, batch.now)
                               : late_.keep_or_release(batch, part, ticket, batch.now);
        if (waits) {
          batch.session->on_parked(request);
          continue;
        }
        if (batch.hold != nullptr && batch.hold->outcome == HoldOutcome::waiting)
          batch.hold->outcome = HoldOutcome::refused;
      }
      request::Verdict verdict = verdict_of(plan, part, deps.store);
      if (verb == Verb::charge) [[unlikely]]
        report_charge(plan, part, request.cost, verdict);
      verdict.generation = batch.policy->generation;
      if (stats != nullptr) stats->answered(batch.protocol, verb, verdict);
      if (verb == Verb::charge) [[unlikely]] {
        // Not a look, whatever its cost is.
      } else if (request.cost == 0 || verb == Verb::peek) [[unlikely]] {
        if (verdict.allowed) leaks_.looked(plan, part, batch.now);
      } else if (!verdict.allowed && verb == Verb::take) {
        leaks_.refused(decider_.log(), plan, part, batch.now);
      }
      if (is_unmatched(verb, verdict) && batch.sink != nullptr) [[unlikely]] {
        const request::ListenerView* const listener = batch.sink->listener();
        // If a rule in shadow applies, the request has a rule.
        if (listener != nullptr && part.step_count == 0 && listener->is_unmatched_due(batch.now))
          listener->unmatched(batch.now, example_of(batch.requests.descriptor(request)));
        answer_unmatched(batch.sink->unmatched(), verb, verdict);
      }
      if (told_every > 0) [[unlikely]]
        log_denied(decider_.log(), *deps.denials, told_every, batch, verb, part, verdict);
      if (!batch.session->reply(request, verdict, batch.now, out)) return Served::ended;
    }
    batch.first += plan.parts().size();
    if (batch.first >= all.size()) return Served::all;
    match(batch);
  }
}

// Plans the requests from `first` on, one part for each, up to the end, to a list, to a message
// that is not permitted, or to a request that cannot be decided: that one may end the session, so
// no request after it may be charged yet.
void Engine::match(Batch& batch) {
  batch.plan.clear();
  // While a batch was suspended another policy may have become live.
  if (batch.policy != decider_.policy()) [[unlikely]]
    batch.policy = decider_.policy();
  batch.hold = nullptr;
  batch.tickets.clear();
  batch.settled = 0;
  batch.overrides_seen = decider_.overrides_changes();
  size_t end = batch.requests.size();
  if (batch.requests.has_guarded()) [[unlikely]] {
    end = judge(batch);
    if (end == batch.first) return batch.plan.refuse(request::not_permitted);
  }
  match_all(batch, end);
  override_plan(batch);
}

void Engine::override_plan(Batch& batch) {
  if (const policy::Overrides* const overriding = decider_.overrides())
    batch.plan.override_all(*overriding, batch.now);
}

// False: it brings limits that are not known.
inline bool Engine::match_one(Batch& batch, const request::Request& request) {
  decider_.forget_plannings();
  policy::Matching matching = matching_of(batch, request, batch.plan);
  if (!decider_.number_limits(matching, batch.sink)) [[unlikely]] {
    batch.plan.refuse(too_many_inline_limits);
    return false;
  }
  decider_.rules().match(protocol::dialect_of(batch.protocol), matching, batch.plan);
  return true;
}

void Engine::match_all(Batch& batch, size_t end) {
  policy::Plan& plan = batch.plan;
  const auto all = batch.requests.items();
  for (size_t i = batch.first; i < end; ++i) {
    const request::Request& request = all[i];
    const request::Message& message = *request.message;
    if (message.hold != nullptr) [[unlikely]] {
      // In a plan of its own, after what comes before it.
      if (i == batch.first) match_hold(batch);
      return;
    }
    if (message.together && i + 1 < all.size() && all[i + 1].message == &message) [[unlikely]] {
      i = match_together(batch, i);
      if (!plan.parts().back().error.empty()) return;
      continue;
    }
    if (request.verb == Verb::list) {
      // The plan ends here: a list may suspend the batch, and until the batch is resumed the store
      // must not settle or park a request after the list.
      plan.skip();
      return;
    }
    if (!match_one(batch, request)) [[unlikely]]
      return;
    if (message.answer_by.us != INT64_MAX) [[unlikely]]
      plan.answer_by(plan.parts().size() - 1, message.answer_by);
    if (message.charge_id != nullptr) [[unlikely]]
      plan.charge_id(plan.parts().size() - 1, message.charge_id);
    if (!plan.parts().back().error.empty()) return;
    if (request.verb == Verb::wait && batch.sink != nullptr && plan.may_wait()) {
      batch.tickets.resize(plan.parts().size(), no_ticket);
      batch.tickets.back() = late_.add(batch, request);
      if (batch.tickets.back() == no_ticket) continue;
      plan.let_wait(batch.tickets.back(), 0);
      if (batch.session->has_ended_wait(request)) [[unlikely]]
        late_.interrupt(*batch.sink, batch.session);
    }
  }
}

// ---- Holds ----

// Ends those that are due, so that the decisions that follow see their units.
inline void Engine::end_holds(base::Time now) {
  store::HoldBook* const holds = decider_.deps().holds;
  if (holds != nullptr && holds->next_due() <= now) [[unlikely]]
    holds->end_due(now);
}

// How many requests the message of the batch's first has.
size_t Engine::subjects_of_hold(const Batch& batch) {
  const auto all = batch.requests.items().subspan(batch.first);
  size_t count = 1;
  while (count < all.size() && all[count].message == all[0].message) ++count;
  return count;
}

// Plans a message about a hold: a reserve as takes; other messages are settled without a plan.
void Engine::match_hold(Batch& batch) {
  const request::Request& first = batch.requests.items()[batch.first];
  SLUICE_CHECK(decider_.deps().holds != nullptr);
  if (first.message->hold->ask == HoldAsk::reserve) {
    plan_hold(batch);
    batch.hold_step = Batch::HoldStep::reserve;
    return;
  }
  for (size_t left = subjects_of_hold(batch); left > 0; --left) batch.plan.skip();
  batch.hold = first.message->hold;
  batch.hold_step = Batch::HoldStep::settle;
}

// Without a plan the parts say why.
void Engine::plan_hold(Batch& batch) {
  const request::Request& first = batch.requests.items()[batch.first];
  first.message->hold->outcome = HoldOutcome::failed;
  if (subjects_of_hold(batch) > 1)
    match_together(batch, batch.first);
  else
    match_one(batch, first);
  if (first.message->answer_by.us != INT64_MAX) batch.plan.answer_by(0, first.message->answer_by);
  batch.hold = batch.plan.parts().back().error.empty() ? first.message->hold : nullptr;
}

// Does what is to be done for the batch's hold. False: the store has no answer yet.
bool Engine::settle_hold(Batch& batch) {
  if (!do_hold_step(batch)) return false;
  // What is planned for it is settled, or must not be.
  if (batch.hold != nullptr) batch.settled = batch.plan.parts().back().groups_end;
  return true;
}

bool Engine::do_hold_step(Batch& batch) {
  using Step = Batch::HoldStep;
  HoldCall& call = *batch.hold;
  store::HoldBook& holds = *decider_.deps().holds;
  const store::HoldBook::Asker asker{&decider_.completions(), batch.ticket};
  if (batch.hold_step == Step::settle) {
    if (!holds.settle(call, batch.now, asker)) return false;
    batch.hold_step = Step::answered;
    const bool charges = batch.requests.items()[batch.first].verb == Verb::charge &&
                         call.outcome == HoldOutcome::unknown;
    if (!charges) {
      wake_for(call, batch.now);
      return true;
    }
    batch.plan.clear();
    plan_hold(batch);
    if (batch.hold == nullptr) return true;
    override_plan(batch);
    batch.hold_step = Step::charge;
  }
  if (batch.hold_step == Step::reserve) return reserve(batch);
  if (batch.hold_step == Step::charge) return charge_unknown(batch);
  return true;
}

// A commit of a hold that is not known charges its subjects, if a rule applies to one.
bool Engine::charge_unknown(Batch& batch) {
  const auto all = batch.requests.items().subspan(batch.first, batch.plan.parts().size());
  const HoldPlan plan(batch.plan, all, {});
  batch.hold_step = Batch::HoldStep::answered;
  if (!plan.any) {  // it stays unknown
    batch.hold->outcome = HoldOutcome::unknown;
    return true;
  }
  if (plan.is_mixed) {
    batch.hold->outcome = HoldOutcome::failed;
    return true;
  }
  bool known = false;
  if (!decider_.deps().holds->charge_unknown(*batch.hold, batch.plan.batch(), plan.shares,
                                             batch.now, {&decider_.completions(), batch.ticket},
                                             known)) {
    batch.hold_step = Batch::HoldStep::charge;
    return false;
  }
  if (known) return true;
  batch.hold_step = Batch::HoldStep::decided;
  return true;
}

bool Engine::reserve(Batch& batch) {
  HoldCall& call = *batch.hold;
  store::HoldBook& holds = *decider_.deps().holds;
  const auto all = batch.requests.items().subspan(batch.first, batch.plan.parts().size());
  HoldPlan plan(batch.plan, all, call.terms);
  batch.hold_step = Batch::HoldStep::decided;
  if (!plan.any) {
    // No rule decides it, so the listener does, and there is nothing to hold. Those in shadow take
    // it as they take all else.
    call.outcome = HoldOutcome::not_held;
    return decider_.settle_all(batch, batch.now);
  }
  if (plan.is_mixed) {
    batch.hold_step = Batch::HoldStep::answered;
    return true;
  }
  if (call.is_place && !plan.has_places) {
    call.outcome = HoldOutcome::no_places;
    batch.hold_step = Batch::HoldStep::answered;
    return true;
  }
  plan.lease_places(call);
  if (call.closes && batch.sink != nullptr) call.owner = batch.sink->hold_owner();
  plan.set_costs(batch.plan.batch());
  // A reserve of several subjects does not wait: sessions refuse it.
  const bool waits = call.waits && all.size() == 1 && batch.sink != nullptr && holds.can_wait() &&
                     batch.plan.may_wait();
  if (waits && batch.tickets.empty()) batch.tickets.push_back(late_.add(batch, all.front()));
  const store::HoldBook::Asker asker{&decider_.completions(), batch.ticket, batch.policy};
  bool answered;
  if (waits && batch.tickets.front() != no_ticket) {
    const Ticket ticket = batch.tickets.front();
    batch.plan.let_wait(ticket, 0);
    std::unique_ptr<store::HoldBook::Wait> wait;
    answered = holds.reserve_or_wait(call, plan.terms, batch.plan.batch(), plan.shares, plan.units,
                                     batch.now, asker, wait);
    if (wait != nullptr) {
      late_.keep_hold(ticket, call, std::move(wait));
      if (batch.session->has_ended_wait(all.front())) [[unlikely]]
        late_.interrupt(*batch.sink, batch.session);
    }
  } else {
    answered = holds.reserve(call, plan.terms, batch.plan.batch(), plan.shares, plan.units,
                             batch.now, asker);
  }
  if (!answered) {
    batch.hold_step = Batch::HoldStep::reserve;
    return false;
  }
  const bool is_decided =
      call.outcome == HoldOutcome::done || call.outcome == HoldOutcome::refused ||
      call.outcome == HoldOutcome::failed || call.outcome == HoldOutcome::waiting;
  if (!is_decided) {
    batch.hold_step = Batch::HoldStep::answered;
    // It does not wait.
    if (!batch.tickets.empty() && batch.tickets.front() != no_ticket)
      late_.keep_or_release(batch, batch.plan.parts().front(), batch.tickets.front(), batch.now);
  }
  wake_for(call, batch.now);
  return true;
}

// The worker looks again when the hold ends, if no other one ends before.
void Engine::wake_for(const HoldCall& call, base::Time now) {
  // Never: other threads end the holds of that book.
  const int64_t next_us = decider_.deps().holds->next_due().us;
  if (call.outcome == HoldOutcome::done && call.ends_in.us > 0 && next_us != INT64_MAX &&
      next_us - now.us >= call.ends_in.us)
    decider_.deps().wake();
}

// Replies to a request whose answer the call alone is. False: the session ends.
bool Engine::reply_hold(Batch& batch, const request::Request& request, base::Buffer& out) {
  const HoldCall& call = *batch.hold;
  request::Verdict verdict;
  verdict.matched = true;
  verdict.allowed = call.outcome == HoldOutcome::done || call.outcome == HoldOutcome::not_held;
  if (call.has_decision) {
    verdict.tightest = &call.decision;
    verdict.limit = &call.limit;
    verdict.rule = call.rule;
    verdict.unit = batch.policy->rules->unit_named(call.rule);
  }
  if (call.outcome == HoldOutcome::failed) {
    verdict.cause = call.error;
    verdict.error = decider_.deps().store.message_for(call.error);
  }
  verdict.generation = batch.policy->generation;
  if (decider_.deps().stats != nullptr)
    decider_.deps().stats->answered(batch.protocol, request::told_as(request.verb), verdict);
  return batch.session->reply(request, verdict, batch.now, out);
}

// Judges the messages of users with limited rights, each once and as a whole, before any request of
// it is charged: a policy that becomes live while the batch is suspended changes nothing of that.
// Returns the first request from `first` on that is refused, or the number of all.
size_t Engine::judge(Batch& batch) {
  using Judged = request::Requests::Guarded::Judged;
  size_t end = batch.requests.size();
  for (request::Requests::Guarded& message : batch.requests.guarded()) {
    if (message.judged == Judged::not_yet)
      message.judged = is_permitted(batch, message) ? Judged::permitted : Judged::refused;
    if (message.judged == Judged::refused && message.end > batch.first)
      end = std::min(end, std::max(message.first, batch.first));
  }
  return end;
}

// Each rule that applies is looked at, also one without a counter: an override may give it one.
// Rules in shadow are not, unless the protocol shows their state: a trial of a rule must not refuse
// anything. Nor are those by which a protocol tells its sessions something.
bool Engine::is_permitted(Batch& batch, const request::Requests::Guarded& message) {
  const policy::RuleSet& rules = decider_.rules();
  const auto all = batch.requests.items();
  const policy::Dialect* const dialect = protocol::dialect_of(batch.protocol);
  for (size_t i = message.first; i < message.end; ++i) {
    const request::Request& request = all[i];
    const access::Reach& reach = message.reach_of(request);
    // A hold that was made is its user's.
    if (!reach.is_limited() || request.verb == Verb::settle) continue;
    judged_.clear();
    decider_.forget_plannings();
    rules.match(dialect, matching_of(batch, request, judged_), judged_);
    for (const auto& step : judged_.steps(judged_.parts().front())) {
      const policy::Rule& rule = *step.rule;
      const bool is_trial = rule.mode != Mode::enforce && !rule.is_planned;
      const bool only_tells = rule.built_in && rule.limits_from == policy::LimitsFrom::rule;
      if (is_trial || only_tells) continue;
      const std::string_view name = rule.name.empty() ? rule.pattern : rule.name;
      if (reach.allows(name, step.actor)) continue;
      const request::ListenerView* const listener =
          batch.sink == nullptr ? nullptr : batch.sink->listener();
      if (listener != nullptr) {
        const bool puts = request::told_as(request.verb) == Verb::put;
        const access::Right right = puts ? access::Right::put : message.right;
        listener->refused("forbidden",
                          "the right `" +
                              std::string(access::right_names[static_cast<size_t>(right)]) +
                              "` of user " + message.user->name + " does not reach " +
                              std::string(name) + ":" + std::string(step.actor));
      }
      return false;
    }
  }
  return true;
}

policy::Matching Engine::matching_of(Batch& batch, const request::Request& request,
                                     policy::Plan& plan) {
  return decider_.matching(batch.protocol, *batch.session, request,
                           batch.requests.descriptor(request), batch.requests.limits(request),
                           batch.sink, batch.now, plan.texts());
}

// Matches the request `first` together with the ones after it of its message. Returns the last of
// them.
size_t Engine::match_together(Batch& batch, size_t first) {
  const auto all = batch.requests.items();
  const request::Message& message = *all[first].message;
  const size_t part = batch.plan.parts().size();
  size_t end = first;
  bool refused = false;
  decider_.forget_plannings();
  together_.clear();
  do {
    const request::Request& request = all[end++];
    SLUICE_CHECK(request::facts_of(request.verb).settles_together);
    refused |= !decider_.number_limits(
        together_.emplace_back(matching_of(batch, request, batch.plan)), batch.sink);
  } while (end < all.size() && all[end].message == &message &&
           together_.size() < base::bounds::together_max);
  if (refused) [[unlikely]] {
    for (size_t i = first; i < end; ++i) batch.plan.refuse(too_many_inline_limits);
    return end - 1;
  }
  decider_.rules().match_together(protocol::dialect_of(batch.protocol), together_, batch.plan,
                                  decider_.inline_limits());
  if (message.answer_by.us != INT64_MAX) batch.plan.answer_by(part, message.answer_by);
  if (message.charge_id != nullptr) batch.plan.charge_id(part, message.charge_id);
  return end - 1;
}

std::optional<base::Time> Engine::advance() {
  end_holds(decider_.now());
  // Late replies are sent before batches and lists continue, as those may end a sink.
  const auto next = late_.advance();
  ready_.clear();
  decider_.completions().drain_batches(ready_);
  for (const Ticket ticket : ready_) {
    Batch* const batch = decider_.batches().find(ticket);
    if (batch != nullptr && batch->owner != nullptr) batch->owner->resume(*batch);
  }
  const store::HoldBook* const holds = decider_.deps().holds;
  if (holds == nullptr || holds->next_due().us == INT64_MAX) return next;
  return next ? std::min(*next, holds->next_due()) : holds->next_due();
}

void Engine::forget(ReplySink& sink) {
  if (sink.hold_owner_ != 0) decider_.deps().holds->close(sink.hold_owner_, decider_.now());
  lists_.forget(sink);
  for (Batch* const batch : std::exchange(sink.suspended_, {})) {
    decider_.deps().store.abandon(decider_.completions(), batch->ticket);
    decider_.batches().close(*batch);
  }
  late_.forget(sink);
}

Engine::Held Engine::held() const {
  return {late_.size(), decider_.under_way(), late_.to_match_again()};
}

void Engine::run_query(std::shared_ptr<AdminQuery> query) {
  query->engine_ = this;
  query->batch_ = &decider_.batches().open();
  query->batch_->policy = query->policy_;
  queries_.push_back(query);
  continue_query(*query);
}

// Runs rounds of the query as long as the store answers at once.
void Engine::continue_query(AdminQuery& query) {
  Batch& batch = *query.batch_;
  store::Store& store = decider_.deps().store;
  batch.owner = nullptr;
  for (;;) {
    const base::Time now = decider_.now();
    if (!decider_.settle_all(batch, now)) {
      batch.owner = &query;
      return;
    }
    batch.settled = 0;
    if (!query.next(batch.plan, {now, store, decider_.overrides()})) break;
  }
  decider_.batches().close(batch);
  const auto its = std::find_if(queries_.begin(), queries_.end(),
                                [&](const auto& one) { return one.get() == &query; });
  const std::shared_ptr<AdminQuery> last = std::move(*its);
  queries_.erase(its);
  store::Committer* const committer = store.committer();
  if (query.changes() && committer != nullptr) query.commit_seq_ = committer->commit_seq(true);
  query.under_way_.reset();
  query.answered_.set_value();
}

}  // namespace sluice::engine
