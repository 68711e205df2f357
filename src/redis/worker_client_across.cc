// Groups whose counters are in several slots of Redis Cluster: they are settled slot by slot, in
// the order of the slots. When one refuses or fails, what was taken before is taken back by its
// receipt, once. So nothing is admitted beyond a limit; a request meanwhile may be refused too
// early. A group that waits goes through its slots in one such pass each time that it asks, and
// holds nothing between two passes; it is queued for one counter (Queues), and the order in which
// such groups are served is this server's alone.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "redis/receipts.h"
#include "redis/slots.h"
#include "redis/worker_client.h"

namespace sluice::redis {

using limit::Decision;
using request::Batch;
using request::Charge;
using request::Error;
using request::Group;
using request::Verb;

namespace {

// How long one answer may have to wait for replicas.
int64_t replicas_wait_us(const Shared& shared) {
  return shared.patience_us - shared.options.deadline.us;
}

}  // namespace

bool WorkerClient::settles_across(const Route& route, std::span<const Charge> charges) const {
  return route.what == Route::What::two_slots && shared_.options.settles_across_slots &&
         std::ranges::all_of(charges, has_receipts);
}

WorkerClient::AcrossGroup& WorkerClient::add_across(const Group& group, const Batch& batch,
                                                    const Route& route, base::Time now,
                                                    const store::Pin& pin) {
  auto made = std::make_unique<AcrossGroup>();
  AcrossGroup& a = *made;
  a.id = ++serial_;
  a.links = route.links;
  a.wanted = wanted_of(group, batch, pin);
  a.asked = now;
  a.is_shadow = group.may_fail;
  std::vector<std::pair<uint16_t, const Charge*>> order;
  for (const Charge& charge : a.wanted->charges) {
    if (!charge.counted) continue;
    key_.clear();
    append_stored_name(key_, charge, shared_.options.key_prefix, true, now);
    order.emplace_back(slot_of(key_), &charge);
  }
  std::ranges::stable_sort(order, {}, &std::pair<uint16_t, const Charge*>::first);
  for (const auto& [slot, charge] : order) {
    if (a.parts.empty() || a.parts.back().slot != slot)
      a.parts.push_back({slot, static_cast<uint32_t>(a.charges.size()), 0, false, {}});
    ++a.parts.back().count;
    a.charges.push_back(*charge);
  }
  const bool remembered = std::ranges::all_of(a.parts, [&](const AcrossGroup::Part& part) {
    const auto charges = std::span<const Charge>(a.charges).subspan(part.first, part.count);
    return id_for(group.id, charges, route.links->topology()) != nullptr;
  });
  if (remembered) {
    a.id_name = group.id->name;
    a.charge_id = {a.id_name, group.id->content};
  }
  // Each part may have to wait for replicas.
  const auto parts = static_cast<int64_t>(a.parts.size());
  a.due = {now.us + shared_.options.deadline.us + parts * replicas_wait_us(shared_)};
  across_[a.id] = std::move(made);
  return a;
}

// Not `none`: nothing was sent, and the group is gone.
Error WorkerClient::begin_across(AcrossGroup& a) {
  const Error error = ask_part(a);
  if (error == Error::none)
    shared_.counts.across.fetch_add(1, std::memory_order_relaxed);
  else
    across_.erase(a.id);
  return error;
}

// Not `none`: nothing was sent.
Error WorkerClient::ask_part(AcrossGroup& a) {
  const AcrossGroup::Part& part = a.parts[a.at];
  // A waiting group has no deadline of its own, but its connections have one.
  base::Time due{now_.us + shared_.patience_us};
  if (!a.waits) due = std::min(due, a.due);
  // With less time than this a healthy node would seem to be late, to all other requests as well.
  const int64_t least_us = shared_.options.deadline.us / 4 + replicas_wait_us(shared_);
  if (due.us - now_.us < least_us) return Error::deadline;
  const bool asking = std::exchange(a.ask_link, 0) != 0;
  Link* const link = asking ? a.links->by_id(a.link) : a.links->of_slot(part.slot);
  if (link == nullptr || !link->takes())
    return link != nullptr && link->connection.is_full() ? Error::overloaded : trouble(link);
  a.link = link->id;
  const std::span<const Charge> charges = std::span(a.charges).subspan(part.first, part.count);
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, a.arrival),
                        .hold = a.hold || a.refused,
                        .receipts = true,
                        .id = a.charge_id ? &*a.charge_id : nullptr,
                        .is_shadow = a.is_shadow,
                        .weight = a.weight,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = true,
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = a.asked,
                        .chance = random_()};
  send(*link, what, a.weight, a.by_text, asking, {kind_across, 0, a.id, 0}, due);
  completions_.wake();  // its deadline needs a timer
  return Error::none;
}

void WorkerClient::on_across_answer(Link& link, AcrossGroup& a, Reply reply,
                                    std::string_view text) {
  if (reply == Reply::error) {
    // Nothing was done in this slot.
    if (is_redirected(*a.links, text, a.link, a.redirects, a.ask_link)) {
      if (a.ask_link != 0) a.link = a.ask_link;
      return go_on_across(a, Error::none);
    }
    if (text.starts_with("NOSCRIPT") && !a.by_text) {
      a.by_text = true;
      a.redirects = 0;
      return go_on_across(a, Error::none);
    }
    const AcrossGroup::Part& part = a.parts[a.at];
    const Error error =
        refusal_of(*a.links, text, std::span(a.charges).subspan(part.first, part.count), a.asked);
    if (error == Error::read_only) leave_node(*a.links, link.id);
    return go_on_across(a, error);
  }
  Error error = Error::none;
  if (!part_is_decided(a, text, error)) return part_is_lost(a, error);
  go_on_across(a, Error::none);
}

// Of one slot's answer. False: it says nothing.
bool WorkerClient::part_is_decided(AcrossGroup& a, std::string_view text, Error& error) {
  AcrossGroup::Part& part = a.parts[a.at];
  const std::string_view receipt = cut_receipt(text);
  const request::Known known = cut_known(text);
  if (known == request::Known::other_content) {
    a.known = known;
    a.at = a.parts.size();
    return true;
  }
  bool allowed = false;
  const ScriptReply said = read_answer(text, std::span(a.charges).subspan(part.first, part.count),
                                       a.wanted->decisions, allowed, a.asked);
  const Weight wanted = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
  if (said == ScriptReply::nonsense || (said != ScriptReply::decided && a.weight >= wanted)) {
    shared_.log_refusal("its script answered \"" + std::string(text.substr(0, 100)) + "\"");
    error = Error::store;
    return false;
  }
  a.by_text = false;
  a.redirects = 0;
  if (said != ScriptReply::decided) {
    a.weight = wanted;
    return true;
  }
  a.weight = Weight::light;
  if (known == request::Known::no) a.known = known;
  part.allowed = allowed;
  part.receipt = receipt;
  a.refused |= !allowed;
  ++a.at;
  return true;
}

// It may have been taken there, so it is not taken back: its units stay taken.
void WorkerClient::part_is_lost(AcrossGroup& a, Error error) {
  const AcrossGroup::Part& part = a.parts[a.at];
  shared_.counts.left_taken.fetch_add(
      most_units_of(std::span(a.charges).subspan(part.first, part.count), a.hold || a.refused),
      std::memory_order_relaxed);
  finish_across(a, error, true);
}

// Does anything still need its answer? Not if its batch was abandoned or its client's deadline has
// passed; nor if it waits and was cancelled or replaced. Units that were used already are charged
// in any case.
bool WorkerClient::is_wanted(const AcrossGroup& a) {
  if (a.charges.front().verb == Verb::charge) return true;
  if (!a.waits) return awaited(a.batch) != nullptr;
  const auto at = asked_.find(a.id);
  return at != asked_.end() && !at->second->cancelled && !at->second->next;
}

void WorkerClient::go_on_across(AcrossGroup& a, Error error) {
  if (error == Error::none && a.at < a.parts.size() && is_wanted(a)) {
    error = ask_part(a);
    if (error == Error::none) return;
    // Where it could not be sent, a waiting group asks again later.
    if (a.waits) error = Error::none;
  }
  finish_across(a, error);
}

// What was taken is taken back unless it is granted as a whole, to a client that still wants it.
void WorkerClient::finish_across(AcrossGroup& a, Error error, bool lost) {
  const bool other = a.known == request::Known::other_content;
  const bool allowed = error == Error::none && a.at == a.parts.size() && !a.refused && !a.hold &&
                       is_wanted(a) && !other;
  // With an id the client sends it again, and each slot knows whether it has charged its part.
  if (!allowed && !(a.charge_id && error != Error::none)) undo(a, error == Error::none && !other);
  if (a.waits) {
    on_waiting_across(a, error, lost, allowed);
    across_.erase(a.id);
    return;
  }
  const Sender batch = a.batch;
  Answer* const answer = awaited(batch);
  if (answer == nullptr) {
    across_.erase(a.id);
    return;
  }
  answer->what = error == Error::none ? Answer::What::across : Answer::What::error;
  answer->error = error;
  answer->at = a.id;
  if (error != Error::none) across_.erase(a.id);
  settled(batch);
}

// Its batch was abandoned once it had been settled.
void WorkerClient::drop_across(uint32_t id) {
  const auto at = across_.find(id);
  if (at == across_.end()) return;
  if (!is_wanted(*at->second)) undo(*at->second, true);
  across_.erase(at);
}

// `refused`: what counts although its group is refused stays charged. Not so after an error, as the
// client may send the request again.
void WorkerClient::undo(AcrossGroup& a, bool refused) {
  for (AcrossGroup::Part& part : a.parts) {
    const auto charges = std::span(a.charges).subspan(part.first, part.count);
    const std::string receipt = std::exchange(part.receipt, {});
    undo_part(a, part, refused ? receipt_if_refused(charges, receipt) : receipt);
    if (!std::exchange(part.allowed, false)) continue;
    // The decisions say what remains without it, as far as is known here.
    for (const Charge& charge : charges) {
      if (charge.verb != Verb::take && charge.verb != Verb::count &&
          charge.verb != Verb::would_take)
        continue;
      for (size_t i = 0; i < charge.limits.size(); ++i) {
        Decision& decision = a.wanted->decisions[charge.decision_first + i];
        const int64_t most = limit::units_max(charge.limits[i]);
        const bool stays = charge.verb == Verb::count && limit::has(charge.counts, i);
        if (limit::has_counter(charge.limits[i].algorithm) && !stays)
          decision.remaining = std::min(most - charge.cost, decision.remaining) + charge.cost;
      }
    }
  }
}

void WorkerClient::undo_part(AcrossGroup& a, const AcrossGroup::Part& part,
                             std::string_view receipt) {
  const std::span<const Charge> charges = std::span(a.charges).subspan(part.first, part.count);
  const uint64_t units = units_of(charges, receipt);
  if (units == 0) return;
  Link* const link = a.links->of_slot(part.slot);
  // It is not kept for a connection that is down: once there is another, a replica may have taken
  // over that never had the take, and it would take back units of other requests.
  if (link == nullptr || !link->takes_late()) {
    shared_.counts.left_taken.fetch_add(units, std::memory_order_relaxed);
    return;
  }
  const ScriptCall what{.charges = charges,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = true,
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = a.asked};
  const size_t from = link->connection.out().size();
  append_undo(link->connection.out(), what, receipt, shared_.scripts.undo(), texts_);
  link->sent_on.push(std::string_view(link->connection.out()).substr(from));
  link->connection.sent(
      {kind_undo, static_cast<uint32_t>(std::min<uint64_t>(units, UINT32_MAX)), 0, 0},
      {now_.us + shared_.patience_us});
}

void WorkerClient::on_undo(Link& link, const Sender& sender, Reply reply, std::string_view text,
                           const std::string& call) {
  if ((sender.serial & undo_by_text) != 0) --link.undo_texts;
  const bool sent = reply == Reply::error && (send_undo_again(link, sender, text, call) ||
                                              send_on(link, sender, text, call));
  if (sent) return;
  const auto left = undo_answer(reply == Reply::error ? std::string_view() : text);
  shared_.counts.left_taken.fetch_add(left.value_or(sender.slot), std::memory_order_relaxed);
  if (!left) shared_.log_refusal("units were not taken back: " + std::string(text.substr(0, 300)));
}

// It may have been executed; it is not sent again.
void WorkerClient::on_undo_lost(Link& link, const Sender& sender) {
  if ((sender.serial & undo_by_text) != 0) --link.undo_texts;
  link.sent_on.pop();
  shared_.counts.left_taken.fetch_add(sender.slot, std::memory_order_relaxed);
}

// The node does not have the script, so nothing was executed: the call is sent with the text. Of
// many that find it missing the first brings the text, and the others are sent behind it as they
// are, since so many texts would fill the connection. False: it cannot be sent.
bool WorkerClient::send_undo_again(Link& link, const Sender& sender, std::string_view text,
                                   const std::string& call) {
  if (!text.starts_with("NOSCRIPT") || (sender.serial & undo_by_text) != 0) return false;
  if (!link.takes_late()) return false;
  const base::Time due{now_.us + shared_.patience_us};
  const bool behind = link.undo_texts > 0 && (sender.serial & undo_behind) == 0;
  say_asking(link, (sender.serial & undo_asked) != 0, due);
  if (behind)
    link.connection.out() += call;
  else
    append_undo_by_text(link.connection.out(), call, shared_.scripts.undo());
  link.sent_on.push(call);
  if (!behind) ++link.undo_texts;
  const uint32_t how = (sender.serial & undo_asked) | (behind ? undo_behind : undo_by_text);
  link.connection.sent({kind_undo, sender.slot, how, sender.index}, due);
  return true;
}

// What was settled, into the group of the batch.
void WorkerClient::take_over(const AcrossGroup& a, const Batch& batch, Group& group) {
  group.error = Error::none;
  group.parked = group.answered = false;
  group.allowed = !a.refused && !a.hold;
  group.known = a.known;
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  for (size_t k = 0; k < charges.size(); ++k) {
    const Charge& from = a.wanted->charges[k];
    const auto settled = std::ranges::find(a.charges, from.decision_first, &Charge::decision_first);
    charges[k].dropped = settled == a.charges.end() ? 0 : settled->dropped;
    for (size_t i = 0; from.counted && i < from.limits.size(); ++i)
      batch.decisions[charges[k].decision_first + i] = a.wanted->decisions[from.decision_first + i];
  }
}

}  // namespace sluice::redis
