#include "engine/engine.h"

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"

namespace sluice::engine {

namespace {

// What a debug line shows of one text, so that a client cannot fill the log's queue with its own.
constexpr size_t told_bytes_max = 256;

}  // namespace

using std::chrono::steady_clock;

using limit::Decision;
using policy::Mode;
using request::no_ticket;
using request::Ticket;
using request::Verb;

namespace {

std::string asked_of(protocol::Protocol protocol, Verb verb,
                     std::span<const request::Entry> descriptor) {
  std::string asked = std::string(name_of(protocol)) + ": " + std::string(name_of(verb));
  const size_t head = asked.size();
  for (const auto& [key, value] : descriptor) {
    if (asked.size() - head >= told_bytes_max) break;
    asked += ' ';
    asked += base::printable(key, told_bytes_max);
    asked += '=';
    asked += base::printable(value, told_bytes_max);
  }
  return asked;
}

}  // namespace

Engine::Engine(Surroundings&& s, std::shared_ptr<spdlog::logger> log)
    : store_(s.store),
      clock_(s.clock),
      live_(s.live),
      lister_(s.lister),
      tally_(s.tally),
      overrides_(s.overrides),
      top_keys_(s.top_keys),
      denials_(s.denials),
      run_(std::move(s.run)),
      wake_(s.wake ? std::move(s.wake) : [] {}),
      policy_(live_.current()),
      rules_(policy_->rules.get()),
      log_(std::move(log)),
      commits_(store_.commits_first()),
      port_(wake_) {
  ticket_ = new_ticket();
  if (overrides_ != nullptr) overrides_reader_.emplace(*overrides_);
}

Engine::~Engine() {
  store_.detach(port_);
}

bool Engine::take_policy() {
  // Nothing that was found among them is held beyond a batch but by value.
  if (overrides_reader_) overrides_reader_->pass();
  if (live_.epoch() == policy_->epoch) return false;
  plan_.clear();  // it points into the old rules
  policy_ = live_.current();
  rules_ = policy_->rules.get();
  return true;
}

Served Engine::serve(protocol::Protocol protocol, request::Session& session,
                     request::Requests& requests, base::Buffer& out, Recipient* recipient) {
  take_policy();
  strict_ = false;
  plan_.clear();
  if (ticket_ == no_ticket) ticket_ = new_ticket();
  Progress progress{
      .protocol = protocol, .session = &session, .recipient = recipient, .now = clock_.now()};
  progress.since = progress.now;
  if (log_->should_log(spdlog::level::debug)) progress.began = steady_clock::now();
  const Served served = go_on(progress, requests, out);
  // The store may hold answers for what is behind, and may still name the ticket.
  if (served == Served::ended) [[unlikely]] {
    store_.abandon(port_, ticket_);
    free_ticket(std::exchange(ticket_, no_ticket));
  }
  return served;
}

Served Engine::go_on(Progress& p, request::Requests& requests, base::Buffer& out) {
  const bool telling = log_->should_log(spdlog::level::debug);
  const uint64_t told_every = denials_ == nullptr ? 0 : denials_->every();
  const CountedBatch counted(tally_, p.protocol, p.now, p.since);
  const auto all = requests.items();
  bool later = false;  // the store has no answer yet for what is behind the groups it has settled
  for (;; p.next = 0) {
    for (; p.next < plan_.parts().size(); ++p.next) {
      const auto& part = plan_.parts()[p.next];
      const auto& request = all[p.first + p.next];
      if (request.verb == Verb::list) [[unlikely]] {
        const Served served = start_list(p, requests, request, out);
        if (served == Served::all) continue;
        return served == Served::later ? suspend(p, requests) : served;
      }
      // What is settled is seen to before the batch is suspended: the store may answer what it has
      // parked at any time from here on.
      if (settled_ < part.groups_end && (later || !settle(part.groups_end, p.now, ticket_, later)))
          [[unlikely]]
        return suspend(p, requests);
      if (commits_) note_strict(part);
      if (tally_ != nullptr) tally_->decided(p.protocol, **pin_, plan_, part, request.verb);
      if (top_keys_ != nullptr) top_keys_->decided(p.now, **pin_, plan_, part, request.verb);
      const auto descriptor = requests.descriptor(request);
      if (telling)
        tell(p.protocol, request.verb, descriptor, p.session->id_of(request), part, p.began);
      if (p.next < tickets_.size() && tickets_[p.next] != no_ticket) [[unlikely]] {
        if (is_parked(part, tickets_[p.next], p.now)) continue;
      }
      const auto verdict = verdict_of(plan_, part, store_);
      if (tally_ != nullptr) tally_->answered(p.protocol, request.verb, verdict);
      if (told_every > 0) [[unlikely]]
        tell_denied(p, request.verb, part, verdict, told_every);
      if (!p.session->reply(request, verdict, p.now, out)) return Served::ended;
    }
    p.first += plan_.parts().size();
    if (p.first >= all.size()) return Served::all;
    match(p.protocol, requests, p.first, p.now, p.recipient);
  }
}

// Before a look-up: what is found may then be newer, never older.
void Engine::note_overrides() {
  if (overrides_ != nullptr) overrides_seen_ = overrides_->changes();
}

const policy::Overrides* Engine::overrides() const {
  return overrides_ != nullptr && overrides_->size() > 0 ? overrides_ : nullptr;
}

// Plans the requests from `first` on, to the end or to one that cannot be decided (it may end the
// session, so nothing behind it is charged yet) or to a list, each with its part.
void Engine::match(protocol::Protocol protocol, const request::Requests& requests, size_t first,
                   base::Time now, Recipient* recipient) {
  plan_.clear();
  pin_ = &policy_;
  tickets_.clear();
  settled_ = 0;
  note_overrides();
  match_all(protocol, requests, first, now, recipient);
  if (const policy::Overrides* const overriding = overrides()) plan_.override_all(*overriding, now);
}

void Engine::match_all(protocol::Protocol protocol, const request::Requests& requests, size_t first,
                       base::Time now, Recipient* recipient) {
  for (const auto& request : requests.items().subspan(first)) {
    if (request.verb == Verb::list) {
      // The plan ends here: a list may suspend the batch, and until it goes on the store must not
      // have settled, or parked, what is behind.
      plan_.skip();
      return;
    }
    const auto descriptor = requests.descriptor(request);
    rules_->match(protocol::dialect_of(protocol),
                  {.descriptor = descriptor,
                   .verb = request.verb,
                   .all = request.all,
                   .fresh = request.fresh,
                   .cost = request.cost,
                   .limits = requests.limits(request),
                   .now = now},
                  plan_);
    if (!plan_.parts().back().error.empty()) return;
    if (request.verb == Verb::wait && recipient != nullptr && plan_.may_wait()) {
      tickets_.resize(plan_.parts().size(), no_ticket);
      tickets_.back() = park(protocol, request, descriptor, recipient);
      if (tickets_.back() != no_ticket) plan_.let_wait(tickets_.back(), 0);
    }
  }
}

// Who is answered before it is committed must not rely on it.
void Engine::note_strict(const policy::Plan::Part& part) {
  for (const auto& step : plan_.steps(part)) {
    const request::Group& group = plan_.group(step);
    const request::Charge& charge = plan_.charge(step);
    if (step.rule->mode != Mode::enforce || group.error != request::Error::none || !group.allowed)
      continue;
    if (request::only_looks(charge.verb) ||
        (!charge.keeps_limits && !limit::is_counted(charge.limits)))
      continue;
    strict_ |=
        group.on_error == request::OnError::error || group.on_error == request::OnError::deny;
  }
}

// The store stops behind a group that failed, in case nothing more is wanted: asked again, it goes
// on. False: it has no answer yet. `later`: nor has it for what is behind; it is not asked again
// before it has named the ticket.
bool Engine::settle(uint32_t groups, base::Time now, Ticket ticket, bool& later) {
  while (settled_ < groups && !later) {
    auto batch = plan_.batch();
    batch.groups = batch.groups.subspan(settled_);
    const store::Applied applied = store_.apply(batch, now, &port_, *pin_, ticket);
    settled_ += static_cast<uint32_t>(applied.settled);
    later = applied.later;
  }
  return settled_ >= groups;
}

bool Engine::settle(uint32_t groups, base::Time now, Ticket ticket) {
  bool later = false;
  return settle(groups, now, ticket, later);
}

void Engine::tell(protocol::Protocol protocol, Verb verb,
                  std::span<const request::Entry> descriptor, std::string_view id,
                  const policy::Plan::Part& part, steady_clock::time_point began) const {
  std::string asked = asked_of(protocol, verb, descriptor);
  if (!id.empty()) asked += " id " + base::printable(id, told_bytes_max);
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - began);
  for (const auto& step : plan_.steps(part)) {
    const auto& rule = *step.rule;
    const auto& group = plan_.group(step);
    std::string left;  // a request may name no limit
    for (const auto& decision : plan_.decisions(step))
      left += fmt::format(", {} of {} left", decision.remaining, decision.limit);
    log_->debug("{} | rule [{}] {}:{}{}{} | {} {}{} | took {} us", asked,
                base::printable(rule.pattern, told_bytes_max), rule.file, rule.line,
                rule.comment.empty() ? "" : " # ", base::printable(rule.comment, told_bytes_max),
                rule.mode == Mode::shadow ? "shadow" : "decides",
                group.error != request::Error::none ? "failed"
                : group.parked                      ? "waits"
                : group.allowed                     ? "allowed"
                                                    : "denied",
                left, took.count());
  }
  if (!part.error.empty())
    log_->debug("{} | failed: {}", asked, part.error);
  else if (part.step_count == 0)
    log_->debug("{} | {} | took {} us", asked,
                verb == Verb::none || verb == Verb::list ? "no rule is asked" : "no rule applies",
                took.count());
}

// If it was, and this one is to be told; by the rule that refused it for the longest.
void Engine::tell_denied(const Progress& progress, Verb verb, const policy::Plan::Part& part,
                         const request::Verdict& verdict, uint64_t every) const {
  if (verb != Verb::take && verb != Verb::wait) return;
  if (fate_of(verb, verdict) != Fate::denied || !denials_->wants(every, progress.now)) return;
  const policy::Plan::Step* by = nullptr;
  base::Duration longest{};
  for (const auto& step : plan_.steps(part)) {
    if (step.rule->mode != Mode::enforce || has_allowed(plan_, step)) continue;
    for (const auto& decision : plan_.decisions(step)) {
      if (decision.allowed || (by != nullptr && decision.retry_after <= longest)) continue;
      by = &step;
      longest = decision.retry_after;
    }
  }
  if (by == nullptr) return;
  const policy::Rule& rule = *by->rule;
  log_->info("denied | {} | rule [{}] | actor {} | retry_after {}", name_of(progress.protocol),
             base::printable(rule.name.empty() ? rule.pattern : rule.name, told_bytes_max),
             base::printable(plan_.charge(*by).key, told_bytes_max),
             longest == base::never
                 ? "never"
                 : fmt::format("{:.3f} s", static_cast<double>(longest.us) / 1e6));
}

void Engine::tell_late(const Parked& parked, const request::Verdict& verdict,
                       base::Time now) const {
  if (!log_->should_log(spdlog::level::debug)) return;
  const std::string asked = asked_of(parked.protocol, parked.request.verb, parked.entries());
  const Decision nothing{};
  const Decision& d = verdict.tightest != nullptr ? *verdict.tightest : nothing;
  log_->debug("{} | late, {}, {} of {} left | took {} us", asked,
              !verdict.error.empty() ? "failed"
              : !verdict.matched     ? "no rule applies"
              : verdict.allowed      ? "allowed"
                                     : "denied",
              d.remaining, d.limit, std::max<int64_t>(now.us - parked.since.us, 0));
}

}  // namespace sluice::engine
