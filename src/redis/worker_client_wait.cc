// Groups that wait for units of counters in Redis. The first of each queue asks Redis when its time
// is reached; a command whose answer was lost is not sent again.

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "redis/worker_client.h"
#include "store/fallback.h"

namespace sluice::redis {

using limit::Decision;
using request::Charge;
using request::Error;
using request::Group;
using request::OnError;
using request::Verb;

namespace {

// A waiting group is looked at this often: another server may return units without notice, and so
// may a group over several slots that took some for a moment; and a Redis that is back is noticed
// within this time.
constexpr int64_t look_again_us = 100'000;
// A group at the front of its queue asks Redis this often at most.
constexpr int64_t ask_pause_us = 1'000;
// The pause for each waiting group of a worker between two looks: 20,000 looks a second.
constexpr int64_t look_pause_us = 50;

std::string name_of(const Charge& charge) {
  return charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

}  // namespace

std::unique_ptr<WorkerClient::Wanted> WorkerClient::wanted_of(const Group& group,
                                                              const request::Batch& batch,
                                                              const store::Pin& pin) {
  auto wanted = std::make_unique<Wanted>();
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  wanted->pin = pin;
  wanted->on_error = group.on_error;
  wanted->charges.assign(charges.begin(), charges.end());
  size_t limits = 0;
  for (const Charge& charge : charges) {
    wanted->keys.emplace_back(charge.key);
    limits += charge.limits.size();
  }
  wanted->limits.reserve(limits);  // so that pointers to them stay valid
  for (size_t k = 0; k < charges.size(); ++k) {
    Charge& charge = wanted->charges[k];
    charge.key = wanted->keys[k];
    const size_t first_limit = wanted->limits.size();
    wanted->limits.insert(wanted->limits.end(), charge.limits.begin(), charge.limits.end());
    charge.limits = std::span(wanted->limits).subspan(first_limit);
    const auto from = batch.decisions.subspan(charge.decision_first, charge.limits.size());
    charge.decision_first = static_cast<uint32_t>(wanted->decisions.size());
    wanted->decisions.insert(wanted->decisions.end(), from.begin(), from.end());
  }
  return wanted;
}

// Queues the group for the counter with the longest wait.
void WorkerClient::enqueue(Waiting& w, base::Time now) {
  int64_t longest = -1;
  size_t at = 0;
  for (size_t k = 0; k < w.wanted.charges.size(); ++k) {
    for (size_t j = 0; j < w.wanted.charges[k].limits.size(); ++j) {
      const Decision& d = w.wanted.decisions[w.wanted.charges[k].decision_first + j];
      if (d.allowed || d.retry_after.us <= longest) continue;
      longest = d.retry_after.us;
      at = k;
    }
  }
  const Charge& charge = w.wanted.charges[at];
  // A group that can never fit blocks no other, even if it could when it came.
  int64_t most = INT64_MAX;
  for (const limit::Limit& limit : charge.limits)
    if (limit::has_counter(limit.algorithm)) most = std::min(most, limit::units_max(limit));
  const std::string queue = charge.counted && charge.cost <= most ? name_of(charge) : std::string();
  if (queue != w.queue) {
    if (!w.queue.empty()) shared_.queues.leave(w.queue, w.arrival);
    w.queue = queue;
    if (!queue.empty()) shared_.queues.enter(queue, w.arrival, charge.cost, completions_);
  }
  w.at = at;
  const bool put_back = std::any_of(
      charge.limits.begin(), charge.limits.end(),
      [](const limit::Limit& l) { return l.algorithm == limit::Algorithm::fixed_bucket; });
  const bool taken_back = shared_.first.has_slots() && shared_.options.settles_across_slots;
  int64_t wait_us = longest < 0 ? ask_pause_us : longest;
  if (put_back || taken_back || !may_ask(w)) wait_us = std::min(wait_us, look_again());
  wait_us = std::max(wait_us, ask_pause_us);
  const bool ever = !w.queue.empty() && wait_us <= INT64_MAX - now.us;
  schedule(w, ever ? now.us + wait_us : INT64_MAX);
}

// Less often if many groups wait.
int64_t WorkerClient::look_again() const {
  return std::max(look_again_us, static_cast<int64_t>(waiting_.size()) * look_pause_us);
}

// The group's charges have changed: it asks as soon as it is the first.
void WorkerClient::enqueue_anew(Waiting& w) {
  for (const Charge& charge : w.wanted.charges) {
    if (!charge.counted) continue;
    for (size_t i = 0; i < charge.limits.size(); ++i)
      w.wanted.decisions[charge.decision_first + i] = {.allowed = false, .retry_after = {}};
  }
  enqueue(w, now_);
  if (!w.queue.empty()) schedule(w, now_.us);
  completions_.wake();
}

void WorkerClient::schedule(Waiting& w, int64_t due_us) {
  if (w.due_us != INT64_MAX) due_.erase({w.due_us, w.arrival});
  w.due_us = due_us;
  if (due_us != INT64_MAX) due_.emplace(due_us, w.arrival);
}

void WorkerClient::park(Group& group, const request::Batch& batch, base::Time now,
                        const store::Pin& pin) {
  if (!shared_.take_place()) return;
  auto waiting = std::make_unique<Waiting>();
  waiting->ticket = group.ticket;
  waiting->arrival = shared_.queues.new_arrival();
  waiting->wanted = std::move(*wanted_of(group, batch, pin));
  by_arrival_[waiting->arrival] = waiting.get();
  enqueue(*waiting, now);
  group.parked = true;
  group.arrival = waiting->arrival;
  completions_.wake();
  SLUICE_CHECK(waiting_.emplace(key(group.ticket), std::move(waiting)).second);
}

namespace {

// Are these the same charges on the same counters, under the same limits?
bool asks_the_same(std::span<const Charge> a, std::span<const Charge> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Charge& x, const Charge& y) {
    return x.space == y.space && x.key == y.key && x.cost == y.cost && x.limits_id == y.limits_id &&
           x.limits_id != 0;
  });
}

}  // namespace

// Replaces the group that is parked under its ticket. False: that one has its answer already.
bool WorkerClient::park_again(Group& group, const request::Batch& batch, const store::Pin& pin) {
  const auto at = waiting_.find(key(group.ticket));
  if (at == waiting_.end() || at->second->cancelled) return false;
  Waiting& w = *at->second;
  group.parked = true;
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  if (!w.next && asks_the_same(w.wanted.charges, charges)) {
    // It keeps its place, and a call to Redis under way counts: otherwise every change of an
    // override would drop that answer and ask again.
    for (size_t i = 0; i < charges.size(); ++i)
      w.wanted.charges[i].rule_name = charges[i].rule_name;
    w.wanted.pin = pin;
    w.wanted.on_error = group.on_error;
    return true;
  }
  w.next = wanted_of(group, batch, pin);
  if (w.asked) return true;
  take_next(w);
  enqueue_anew(w);
  return true;
}

// This server has returned units to these counters.
void WorkerClient::brought(std::span<const Charge> charges) {
  for (const Charge& charge : charges)
    if (charge.verb == Verb::put || charge.reset_first) shared_.queues.call(name_of(charge));
}

void WorkerClient::look_at(Waiting& w, base::Time now) {
  if (may_ask(w)) return ask_waiting(w, now);
  if (granted_here(w, now)) return;
  schedule(w, now.us + look_again());  // it goes on waiting until Redis is back
}

// Grants by this server's table while Redis does not decide, if the group's rules say so.
bool WorkerClient::granted_here(Waiting& w, base::Time now) {
  if (w.wanted.on_error != OnError::local) return false;
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size())};
  decide_here({{&group, 1}, w.wanted.charges, w.wanted.decisions}, group, now, w.wanted.pin);
  if (group.error != Error::none || !group.allowed) return false;
  shared_.counts.errors[static_cast<size_t>(trouble(route_of(w).link))].fetch_add(
      1, std::memory_order_relaxed);
  shared_.counts.local.fetch_add(1, std::memory_order_relaxed);
  answer(w, Error::none, now);
  return true;
}

void WorkerClient::ask_waiting(Waiting& w, base::Time now) {
  bool hold = false;
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size())};
  settle_without({{&group, 1}, w.wanted.charges, w.wanted.decisions}, group, now, hold);
  const auto charges = counted_of(w.wanted.charges);
  const Route route = route_of(charges, now);
  const bool asking = std::exchange(w.ask_link, 0) != 0;
  Link* const link = asking && route.links != nullptr ? route.links->by_id(w.link) : route.link;
  if (settles_across(route, charges)) return ask_waiting_across(w, route, group, hold, now);
  if (link == nullptr || !link->takes()) {
    say_apart(route.what);
    return on_waiting_lost(w, trouble(link));
  }
  w.link = link->id;
  w.asked = true;
  w.called = false;
  w.serial = ++serial_;
  asked_[w.serial] = &w;
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, w.arrival),
                        .hold = hold,
                        .weight = w.weight,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = route.links->topology().has_slots(),
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = now,
                        .chance = random_()};
  w.asked_at = now;
  // It has no deadline of its own, but its connection has one.
  send(*link, what, w.weight, w.by_text, asking, {kind_waiting, 0, w.serial, 0},
       {now.us + shared_.patience_us});
}

void WorkerClient::ask_waiting_across(Waiting& w, const Route& route, const Group& group, bool hold,
                                      base::Time now) {
  const request::Batch batch{{}, w.wanted.charges, w.wanted.decisions};
  AcrossGroup& across = add_across(group, batch, route, now, w.wanted.pin);
  across.waits = true;
  across.hold = hold;
  across.arrival = w.arrival;
  const uint32_t id = across.id;
  if (begin_across(across) != Error::none) return schedule(w, now.us + look_again());
  w.asked = true;
  w.called = false;
  w.serial = id;
  w.asked_at = now;
  asked_[id] = &w;
}

void WorkerClient::on_waiting_answer(Link& link, const Sender& sender, Reply reply,
                                     std::string_view text) {
  const auto at = asked_.find(sender.serial);
  if (at == asked_.end()) return;
  Waiting& w = *at->second;
  asked_.erase(at);
  w.asked = false;
  ScriptReply said = ScriptReply::nonsense;
  bool allowed = false;
  if (reply == Reply::error) {
    if (is_redirected(links_of(link), text, w.link, w.redirects, w.ask_link)) {
      if (w.ask_link != 0) w.link = w.ask_link;
    } else if (text.starts_with("NOSCRIPT") && !w.by_text) {
      w.by_text = true;
      w.redirects = 0;
    } else {
      const Error error = refusal_of(links_of(link), text, w.wanted.charges, w.asked_at);
      w.redirects = 0;
      if (error == Error::read_only) leave_node(links_of(link), link.id);
      return on_waiting_refused(w, error);
    }
  } else {
    w.by_text = false;
    w.redirects = 0;
    const auto counted = counted_of(w.wanted.charges);
    // Reads into the charges themselves, unless some of them have no counter.
    said = read_answer(
        text, counted.size() == w.wanted.charges.size() ? std::span(w.wanted.charges) : counted_,
        w.wanted.decisions, allowed, w.asked_at);
    const Weight wanted = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
    if (said == ScriptReply::nonsense || (said != ScriptReply::decided && w.weight >= wanted))
      return on_waiting_lost(w, Error::store);
    // The limits that it waits under may be outdated. Only once, as other servers may have other
    // rules permanently.
    if (said == ScriptReply::again_full && w.weight == Weight::light && !w.cancelled)
      completions_.resume_waiter(w.ticket);
    if (said != ScriptReply::decided) w.weight = wanted;
  }
  if (allowed && (w.cancelled || w.next)) give_back(w);
  on_waiting_decided(w, said, allowed);
}

// Of a group over several slots, whose units are taken back unless it is allowed. `lost`: it is not
// known what one slot did.
void WorkerClient::on_waiting_across(const AcrossGroup& a, Error error, bool lost, bool allowed) {
  const auto at = asked_.find(a.id);
  SLUICE_CHECK(at != asked_.end());
  Waiting& w = *at->second;
  asked_.erase(at);
  w.asked = false;
  if (lost) return on_waiting_lost(w, error);
  if (error != Error::none) return on_waiting_refused(w, error);
  if (w.cancelled || w.next || a.at == a.parts.size()) {
    if (!w.next) w.wanted.decisions = a.wanted->decisions;
    return on_waiting_decided(w, ScriptReply::decided, allowed);
  }
  schedule(w, now_.us + look_again());
  completions_.wake();
}

// Where it is cancelled or replaced, what was taken has been returned.
void WorkerClient::on_waiting_decided(Waiting& w, ScriptReply said, bool allowed) {
  if (w.cancelled) return erase(w);
  if (w.next) {
    take_next(w);
    enqueue_anew(w);
    return;
  }
  if (allowed) return answer(w, Error::none, now_);
  if (said == ScriptReply::decided) enqueue(w, now_);
  if (said != ScriptReply::decided || (w.called && !w.queue.empty())) schedule(w, now_.us);
  completions_.wake();
}

// Nothing was done. While Redis takes no writes, a waiting request waits for a node that does.
void WorkerClient::on_waiting_refused(Waiting& w, Error error) {
  if (w.cancelled || error != Error::read_only || w.wanted.on_error != OnError::local)
    return on_waiting_lost(w, error);
  if (w.next) take_next(w);
  if (granted_here(w, now_)) return;
  schedule(w, now_.us + look_again());
  completions_.wake();
}

void WorkerClient::take_next(Waiting& w) {
  w.wanted = std::move(*w.next);
  w.next.reset();
  w.weight = Weight::light;
  w.by_text = false;
  w.redirects = w.ask_link = 0;  // its counters may be at other nodes
}

// It may have been charged, so it is not sent again: its rules say how it is answered.
void WorkerClient::on_waiting_lost(Waiting& w, Error error) {
  w.asked = false;
  if (w.cancelled) return erase(w);
  if (w.next) take_next(w);
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size()),
              .on_error = w.wanted.on_error};
  fail({{&group, 1}, w.wanted.charges, w.wanted.decisions}, 0, error, now_, w.wanted.pin);
  answer(w, group.error, now_);
}

void WorkerClient::answer(Waiting& w, Error error, base::Time now) {
  completions_.settle({w.ticket, error, now, std::move(w.wanted.decisions)});
  erase(w);
}

void WorkerClient::erase(Waiting& w) {
  if (!w.queue.empty()) shared_.queues.leave(w.queue, w.arrival);
  schedule(w, INT64_MAX);
  by_arrival_.erase(w.arrival);
  if (!w.cancelled) shared_.free_place();
  waiting_.erase(key(w.ticket));
}

// Returns units that were taken for a client that has gone, or under limits that do not apply any
// more.
void WorkerClient::give_back(Waiting& w) {
  std::vector<Charge> charges = w.wanted.charges;
  for (Charge& charge : charges) charge.verb = Verb::put;
  const auto counted = counted_of(charges);
  const Route route = route_of(counted, w.asked_at);
  if (route.link == nullptr || !route.link->takes()) return;
  Link& link = *route.link;
  const ScriptCall what{.charges = counted,
                        .weight = Weight::full,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = link.topology.has_slots(),
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = w.asked_at};
  const size_t from = link.connection.out().size();
  Weight weight;
  send(link, what, weight, true, false, {kind_given, 0, 0, 0}, {now_.us + shared_.patience_us});
  if (link.topology.has_slots())
    link.sent_on.push(std::string_view(link.connection.out()).substr(from));
}

bool WorkerClient::cancel(request::Ticket ticket) {
  const auto at = waiting_.find(key(ticket));
  if (at == waiting_.end()) return false;
  Waiting& w = *at->second;
  if (!w.asked) {
    erase(w);
    return true;
  }
  w.cancelled = true;  // the units of its answer are returned
  if (!w.queue.empty()) shared_.queues.leave(w.queue, w.arrival);
  w.queue.clear();
  shared_.free_place();
  return true;
}

// A batch may be a little older than the latest time. A larger step back means that the clock was
// set back: then all times here are moved with it.
void WorkerClient::see(base::Time now) {
  constexpr int64_t older_max_us = 1'000'000;
  const int64_t back_us = now_.us - now.us;
  if (back_us <= older_max_us) {
    now_ = std::max(now_, now);
    return;
  }
  now_ = now;
  first_.step_back({back_us});
  if (second_ != nullptr) second_->step_back({back_us});
  for (AnswerBy& one : answers_by_) one.due_us -= back_us;
  for (const auto& [id, across] : across_) across->due.us -= back_us;
  std::set<std::pair<int64_t, uint64_t>> earlier;
  for (const auto& [due_us, arrival] : due_) {
    by_arrival_.at(arrival)->due_us = due_us - back_us;
    earlier.emplace_hint(earlier.end(), due_us - back_us, arrival);
  }
  due_ = std::move(earlier);
  std::multimap<int64_t, Paused> pauses;
  for (auto& [due_us, one] : paused_)
    pauses.emplace_hint(pauses.end(), due_us - back_us, std::move(one));
  paused_ = std::move(pauses);
}

std::optional<base::Time> WorkerClient::advance(base::Time now) {
  see(now);
  end_pauses(now);
  if (!by_arrival_.empty()) {
    called_.clear();
    shared_.queues.take_called(completions_, called_);
    for (const uint64_t arrival : called_) {
      const auto at = by_arrival_.find(arrival);
      if (at == by_arrival_.end()) continue;
      at->second->called = true;
      if (!at->second->asked) schedule(*at->second, now.us);
    }
  }
  while (!due_.empty() && due_.begin()->first <= now.us) {
    Waiting& w = *by_arrival_.at(due_.begin()->second);
    schedule(w, INT64_MAX);
    // A group that is not the first is called once it is.
    if (!w.asked && shared_.queues.is_first(w.queue, w.arrival)) look_at(w, now);
  }
  int64_t next_us = due_.empty() ? INT64_MAX : due_.begin()->first;
  for (Links* const links : {&first_, second_.get()}) {
    if (links == nullptr) continue;
    if (const auto next = links->advance(now)) next_us = std::min(next_us, next->us);
  }
  give_up_late(now);
  if (!paused_.empty()) next_us = std::min(next_us, paused_.begin()->first);
  if (!answers_by_.empty()) next_us = std::min(next_us, answers_by_.front().due_us);
  timer_us_ = next_us;
  if (next_us == INT64_MAX) return std::nullopt;
  return base::Time{next_us};
}

}  // namespace sluice::redis
