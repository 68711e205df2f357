// Groups that wait for units of counters in Redis. The first of each queue asks when its time has
// come; what it asked for and never heard of is not asked for again.

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "redis/worker_client.h"
#include "store/fallback.h"

namespace sluice::redis {

using limit::Charge;
using limit::Decision;
using limit::Error;
using limit::Group;
using limit::Verb;

namespace {

constexpr uint32_t kind_waiting = 2;
// Units that come back by being put back may be put back by another server, which tells nobody.
constexpr int64_t look_again_us = 100'000;
// Who comes to the front asks this often at most.
constexpr int64_t ask_pause_us = 1'000;

std::string name_of(const Charge& charge) {
  return charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

}  // namespace

void WorkerClient::copy_charges(Waiting& w, const Group& group, const limit::Batch& batch) {
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  w.keys.clear();
  w.charges.assign(charges.begin(), charges.end());
  w.decisions.clear();
  for (const Charge& charge : charges) w.keys.emplace_back(charge.key);
  for (size_t k = 0; k < w.charges.size(); ++k) {
    Charge& charge = w.charges[k];
    charge.key = w.keys[k];
    const size_t count = charge.limits.size();
    const auto from = batch.decisions.subspan(charge.decision_first, count);
    charge.decision_first = static_cast<uint32_t>(w.decisions.size());
    w.decisions.insert(w.decisions.end(), from.begin(), from.end());
  }
  w.on_error = group.on_error;
}

// At the counter that lacks units for the longest.
void WorkerClient::enqueue(Waiting& w, base::Time now) {
  int64_t longest = -1;
  size_t at = 0;
  for (size_t k = 0; k < w.charges.size(); ++k) {
    for (size_t j = 0; j < w.charges[k].limits.size(); ++j) {
      const Decision& d = w.decisions[w.charges[k].decision_first + j];
      if (d.allowed || d.retry_after.us <= longest) continue;
      longest = d.retry_after.us;
      at = k;
    }
  }
  const std::string queue = name_of(w.charges[at]);
  if (queue != w.queue) {
    if (!w.queue.empty()) shared_.queues.leave(w.queue, w.arrival);
    w.queue.clear();
    // What can never fit blocks nobody.
    const Charge& charge = w.charges[at];
    int64_t most = INT64_MAX;
    for (const limit::Limit& limit : charge.limits)
      if (limit::has_counter(limit.algorithm))
        most = std::min(most, limit.burst > 0 ? limit.burst : limit.quota);
    if (charge.counted && charge.cost <= most &&
        shared_.queues.enter(queue, w.arrival, charge.cost, port_))
      w.queue = queue;
  }
  w.at = at;
  const bool put_back = std::any_of(
      w.charges[at].limits.begin(), w.charges[at].limits.end(),
      [](const limit::Limit& l) { return l.algorithm == limit::Algorithm::fixed_bucket; });
  int64_t wait_us = longest < 0 ? ask_pause_us : longest;
  if (put_back) wait_us = std::min(wait_us, look_again_us);
  wait_us = std::max(wait_us, ask_pause_us);
  w.due_us = w.queue.empty() || wait_us > INT64_MAX - now.us ? INT64_MAX : now.us + wait_us;
}

void WorkerClient::park(Group& group, const limit::Batch& batch, base::Time now,
                        const store::Pin& pin) {
  if (shared_.queues.size() >= base::bounds::waiting_max) return;
  auto waiting = std::make_unique<Waiting>();
  waiting->ticket = group.ticket;
  waiting->arrival = shared_.queues.new_arrival();
  waiting->pin = pin;
  copy_charges(*waiting, group, batch);
  enqueue(*waiting, now);
  group.parked = true;
  group.arrival = waiting->arrival;
  port_.wake();
  waiting_[key(group.ticket)] = std::move(waiting);
}

// The group takes the place of the one that is parked under its ticket. False: that has its answer.
bool WorkerClient::park_again(Group& group, const limit::Batch& batch, const store::Pin& pin) {
  const auto at = waiting_.find(key(group.ticket));
  if (at == waiting_.end() || at->second->cancelled) return false;
  Waiting& waiting = *at->second;
  waiting.pin = pin;
  if (!waiting.asked) {
    copy_charges(waiting, group, batch);
    for (Decision& d : waiting.decisions) d = {.allowed = false, .retry_after = {}};
    enqueue(waiting, now_);
    if (!waiting.queue.empty()) waiting.due_us = 0;
  }
  group.parked = true;
  port_.wake();
  return true;
}

// Something came back to these counters by us.
void WorkerClient::brought(std::span<const Charge> charges) {
  for (const Charge& charge : charges)
    if (charge.verb == Verb::put || charge.fresh) shared_.queues.wake(name_of(charge));
}

void WorkerClient::ask_waiting(Waiting& w, base::Time now) {
  const auto charges = counted_of(w.charges);
  bool hold = false;
  Group group{.charge_count = static_cast<uint32_t>(w.charges.size())};
  settle_without({{&group, 1}, w.charges, w.decisions}, group, now, hold);
  w.asked = true;
  w.serial = ++serial_;
  asked_[w.serial] = &w;
  const Ask what{.charges = charges,
                 .ahead = ahead_of(charges, w.arrival),
                 .hold = hold,
                 .weight = w.weight,
                 .key_prefix = shared_.options.key_prefix,
                 .kept_linger = shared_.options.kept_linger};
  // It has no deadline of its own; its connection has one.
  send(what, w.weight, w.by_text, {kind_waiting, 0, w.serial, 0},
       {now.us + shared_.options.deadline.us});
}

void WorkerClient::on_waiting_answer(const Sender& sender, Reply reply, std::string_view text) {
  const auto at = asked_.find(sender.serial);
  if (at == asked_.end()) return;
  Waiting& w = *at->second;
  asked_.erase(at);
  w.asked = false;
  if (reply == Reply::error) {
    if (text.starts_with("NOSCRIPT") && !w.by_text) {
      w.by_text = true;
      w.due_us = 0;
      port_.wake();
      return;
    }
    return on_waiting_lost(w, error_of(text));
  }
  w.by_text = false;
  bool allowed = false;
  counted_of(w.charges);
  const bool all =
      std::all_of(w.charges.begin(), w.charges.end(), [](const Charge& c) { return c.counted; });
  const Said said =
      read_answer(text, all ? std::span(w.charges) : std::span(counted_), w.decisions, allowed);
  if (said == Said::again_full || said == Said::again_wide) {
    const Weight wanted = said == Said::again_wide ? Weight::wide : Weight::full;
    if (w.weight >= wanted) return on_waiting_lost(w, Error::store);
    w.weight = wanted;
    w.due_us = 0;
    port_.wake();
    return;
  }
  if (said == Said::nonsense) return on_waiting_lost(w, Error::store);
  if (allowed && w.cancelled) give_back(w);
  if (allowed || w.cancelled) return answer(w, Error::none, now_);
  enqueue(w, now_);
  port_.wake();
}

// It may have been charged, so it is not asked again: its rules say what it is answered.
void WorkerClient::on_waiting_lost(Waiting& w, Error error) {
  w.asked = false;
  if (w.cancelled) return answer(w, Error::none, now_);
  Group group{.charge_count = static_cast<uint32_t>(w.charges.size()), .on_error = w.on_error};
  fail({{&group, 1}, w.charges, w.decisions}, 0, error, now_, w.pin);
  answer(w, group.error, now_);
}

void WorkerClient::answer(Waiting& w, Error error, base::Time now) {
  if (!w.queue.empty()) shared_.queues.leave(w.queue, w.arrival);
  if (!w.cancelled) port_.settle({w.ticket, error, now, std::move(w.decisions)});
  waiting_.erase(key(w.ticket));
}

// Taken for somebody who had gone.
void WorkerClient::give_back(Waiting& w) {
  if (!link_.takes() || link_.is_full()) return;
  std::vector<Charge> charges = w.charges;
  for (Charge& charge : charges) charge.verb = Verb::put;
  const auto counted = counted_of(charges);
  Weight weight;
  send({.charges = counted,
        .weight = Weight::full,
        .key_prefix = shared_.options.key_prefix,
        .kept_linger = shared_.options.kept_linger},
       weight, true, {}, {now_.us + shared_.options.deadline.us});
}

bool WorkerClient::cancel(limit::Ticket ticket) {
  const auto at = waiting_.find(key(ticket));
  if (at == waiting_.end()) return false;
  Waiting& w = *at->second;
  if (!w.queue.empty()) {
    shared_.queues.leave(w.queue, w.arrival);
    w.queue.clear();
  }
  if (w.asked)
    w.cancelled = true;  // its answer is given back
  else
    waiting_.erase(at);
  return true;
}

std::optional<base::Time> WorkerClient::advance(base::Time now) {
  now_ = std::max(now_, now);
  int64_t next_us = INT64_MAX;
  for (const auto& [ticket, waiting] : waiting_) {
    Waiting& w = *waiting;
    if (w.asked || w.queue.empty()) continue;
    const bool first = shared_.queues.is_first(w.queue, w.arrival);
    if (!first) continue;
    const uint64_t woken = shared_.queues.woken(w.queue);
    if (w.due_us <= now.us || woken != w.woken) {
      w.woken = woken;
      if (link_.takes() && !link_.is_full()) {
        ask_waiting(w, now);
        continue;
      }
      w.due_us = now.us + look_again_us;  // it waits on, until Redis is back
    }
    next_us = std::min(next_us, w.due_us);
  }
  if (const auto next = link_.advance(now)) next_us = std::min(next_us, next->us);
  if (next_us == INT64_MAX) return std::nullopt;
  return base::Time{next_us};
}

}  // namespace sluice::redis
