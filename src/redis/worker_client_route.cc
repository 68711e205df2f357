// Chooses the connection for a group, and sends commands on whose slot is at another node.
#include <algorithm>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "redis/receipts.h"
#include "redis/redirects.h"
#include "redis/slots.h"
#include "redis/window_text.h"
#include "redis/worker_client.h"

namespace sluice::redis {

using request::Charge;
using request::Error;

namespace {

// Is the charge's counter in the second Redis, if there is one?
bool is_in_second(const Charge& charge) {
  return window_text::holds(charge) && charge.limits.front().window == base::seconds(1);
}

}  // namespace

WorkerClient::Route WorkerClient::route_of(std::span<const Charge> charges, base::Time now,
                                           bool looks) {
  Route route{Route::What::to, &first_, nullptr};
  if (second_ != nullptr) [[unlikely]] {
    const auto count = std::ranges::count_if(charges, is_in_second);
    if (count > 0) route.links = second_.get();
    if (count > 0 && static_cast<size_t>(count) < charges.size()) {
      route.what = Route::What::two_redis;
      return route;
    }
  }
  if (!route.links->topology().has_slots()) [[likely]] {
    route.link = route.links->primary(looks);
  } else {
    uint16_t slot = 0;
    for (size_t k = 0; k < charges.size(); ++k) {
      key_.clear();
      append_stored_name(key_, charges[k], shared_.options.key_prefix, true, now);
      const uint16_t its = slot_of(key_);
      if (k > 0 && its != slot) {
        route.what = Route::What::two_slots;
        return route;
      }
      slot = its;
    }
    route.link = route.links->of_slot(slot, looks);
  }
  if (route.link == nullptr) route.what = Route::What::unknown;
  return route;
}

// Null: the script does not remember the id.
const request::ChargeId* WorkerClient::id_for(const request::ChargeId* id,
                                              std::span<const Charge> charges,
                                              const Topology& topology) {
  if (id == nullptr || charges.front().verb != request::Verb::charge) return nullptr;
  return remembers(charges, topology.has_slots()) ? id : nullptr;
}

void WorkerClient::say_apart(Route::What what) {
  if (what == Route::What::two_redis)
    shared_.log_refusal(
        "a request needs counters of both Redis in one step; keep limits of one second and longer "
        "ones in one Redis, or ask for each by itself");
  if (what != Route::What::two_slots) return;
  shared_.counts.apart.fetch_add(1, std::memory_order_relaxed);
  shared_.log_refusal(
      std::string("a request needs counters of several slots of Redis Cluster in one step; ") +
      (shared_.options.settles_across_slots ? "" : "set store.redis.across_slots: settle, or ") +
      "have its rules count by the same actor, or ask for each by itself");
}

Links& WorkerClient::links_of(const Link& link) {
  return &link.topology == &shared_.first ? first_ : *second_;
}

// Does the error name another node? Nothing was executed then, so the command may be sent on
// without being charged twice. `link`: the one that answered; `ask_link` is set for ASK, to the
// link for one command. False: do not send it on.
bool WorkerClient::is_redirected(Links& links, std::string_view text, uint32_t link,
                                 uint32_t& redirects, uint32_t& ask_link) {
  if (!links.topology().has_slots()) return false;
  if (text.starts_with("CLUSTERDOWN")) links.topology().want_look();
  const Link* const from = links.by_id(link);
  const auto redirect = redirect_of(text, from != nullptr ? from->host() : std::string());
  if (!redirect) return false;
  links.topology().want_look();
  if (redirect->node.host.empty()) return false;
  if (redirects >= shared_.redirects_max) {
    shared_.counts.given_up.fetch_add(1, std::memory_order_relaxed);
    shared_.log_refusal("a command was sent on " + std::to_string(redirects) +
                        " times and not executed, the last answer was \"" +
                        std::string(text.substr(0, 100)) +
                        "\"; compare CLUSTER SLOTS of the nodes: they may disagree");
    return false;
  }
  ++redirects;
  (redirect->ask ? shared_.counts.asked_on : shared_.counts.moved)
      .fetch_add(1, std::memory_order_relaxed);
  if (redirect->ask)
    ask_link = links.of_node(redirect->node)->id;
  else
    links.topology().follow(*redirect);
  return true;
}

// The node takes no writes: with fixed nodes the next one is tried.
void WorkerClient::leave_node(Links& links, uint32_t link) {
  Link* const at = links.by_id(link);
  if (at == nullptr) return;
  if (links.topology().is_fixed())
    at->connection.leave_node();
  else
    links.topology().want_look();
}

void WorkerClient::on_change(Link& link) {
  completions_.wake();
  if (link.connection.losses() > 0 && link.connection.state() != ConnectionState::up)
    link.topology.want_look();
}

// Sends ASKING: the node then executes the next command, and only that, for a slot that is being
// moved to it.
void WorkerClient::say_asking(Link& link, bool asking, base::Time due) {
  if (!asking) [[likely]]
    return;
  append_array(link.connection.out(), 1);
  append_bulk(link.connection.out(), std::string_view("ASKING"));
  link.connection.sent({kind_asking, 0, 0, 0}, due);
}

void WorkerClient::send(Link& link, const ScriptCall& what, Weight& weight, bool by_text,
                        bool asking, const Sender& sender, base::Time due) {
  say_asking(link, asking, due);
  const Script& script = script_of(what, shared_.scripts, texts_, weight);
  append_call(link.connection.out(), what, script, !by_text, shared_.scripts, texts_);
  link.connection.sent(sender, due);
  shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
}

// Only the answer of the first command goes to the sender.
void WorkerClient::send_plain(Link& link, const ScriptCall& what, bool asking, const Sender& sender,
                              base::Time due) {
  say_asking(link, asking, due);
  append_plain(link.connection.out(), what);
  link.connection.sent(sender, due);
  shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
  if (!may_make_key(what)) return;
  send_life(link, what, link.expire_nx != ExpireNx::yes, asking, due);
  if (link.expire_nx != ExpireNx::unknown) return;
  say_asking(link, asking, due);
  append_life(link.connection.out(), what, false);
  link.connection.sent({kind_probe, 0, 0, 0}, due);
  link.expire_nx = ExpireNx::asked;
}

// Sets the expiry of a key. Its slot may move between the count and this command; then the key
// would have no expiry, so this is sent on as well.
void WorkerClient::send_life(Link& link, const ScriptCall& what, bool renews, bool asking,
                             base::Time due) {
  say_asking(link, asking, due);
  std::string& out = link.connection.out();
  const size_t from = out.size();
  append_life(out, what, renews);
  if (link.topology.has_slots()) link.sent_on.push(std::string_view(out).substr(from));
  link.connection.sent({kind_life, 0, 0, 0}, due);
}

void WorkerClient::on_answer(Link& link, const Sender& sender, Reply reply, std::string_view text) {
  command_.clear();
  if (has_copy(link, sender)) {
    if (reply == Reply::error) command_ = link.sent_on.front();  // only errors send it again
    link.sent_on.pop();
  }
  if (reply == Reply::error && pause(link, sender, text, command_)) return;
  take_answer(link, sender, reply, text, command_);
}

// How often the command was sent on, as far as it is still of use.
uint32_t WorkerClient::redirects_of(const Sender& sender) {
  if (sender.kind == kind_batch) {
    const Answer* const answer = awaited(sender);
    return answer == nullptr ? 0 : answer->redirects;
  }
  if (sender.kind == kind_waiting) {
    const auto at = asked_.find(sender.serial);
    return at == asked_.end() ? 0 : at->second->redirects;
  }
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    return at == across_.end() ? 0 : at->second->redirects;
  }
  return sender.index;
}

// Keeps an answer that names another node until its pause is over. There are as many at most as one
// connection may have commands under way; past that there are no pauses. False: there is none.
bool WorkerClient::pause(Link& link, const Sender& sender, std::string_view text,
                         const std::string& command) {
  if (!link.topology.has_slots()) return false;
  const uint32_t times = redirects_of(sender);
  const int64_t pause_us = redirect_pause_us(times);
  if (pause_us == 0 || times >= shared_.redirects_max) return false;
  if (paused_.size() >= base::bounds::redis_commands_max) return false;
  const auto redirect = redirect_of(text, link.host());
  if (!redirect) return false;
  if (redirect->ask)
    link.topology.want_look();
  else
    link.topology.follow(*redirect);
  ++link.paused;
  paused_.emplace(now_.us + pause_us, Paused{&link, sender, std::string(text), command});
  completions_.wake();  // its end needs a timer
  return true;
}

void WorkerClient::end_pauses(base::Time now) {
  while (!paused_.empty() && paused_.begin()->first <= now.us) {
    Paused one = std::move(paused_.extract(paused_.begin()).mapped());
    --one.link->paused;
    // The map knew of this answer when the pause began. What it has learned since then is newer:
    // the node that the answer names may be gone.
    const auto redirect = redirect_of(one.text, one.link->host());
    if (redirect && !redirect->ask) {
      const auto map = one.link->topology.map();
      if (const Node* const owner = map->owner_of(redirect->slot))
        one.text = "MOVED " + std::to_string(redirect->slot) + ' ' + owner->host + ':' +
                   std::to_string(owner->port);
    }
    take_answer(*one.link, one.sender, Reply::error, one.text, one.command);
  }
}

// Handles the answer of a command that no request waits for.
void WorkerClient::on_life(Link& link, const Sender& sender, Reply reply, std::string_view text,
                           const std::string& command) {
  if (sender.kind == kind_undo) return on_undo(link, sender, reply, text, command);
  const bool sent_on =
      reply == Reply::error && has_copy(link, sender) && send_on(link, sender, text, command);
  if (sender.kind == kind_probe) {
    // An error that names another node does not say whether this node knows the command.
    const bool elsewhere = redirect_of(text, link.host()).has_value() ||
                           text.starts_with("TRYAGAIN") || text.starts_with("CLUSTERDOWN");
    link.expire_nx = reply != Reply::error ? ExpireNx::yes
                     : elsewhere           ? ExpireNx::unknown
                                           : ExpireNx::no;
  } else if (sender.kind == kind_life && reply == Reply::error && !sent_on) {
    // another Redis may answer there now
    if (!link.topology.has_slots()) link.expire_nx = ExpireNx::no;
    shared_.log_refusal("a counter was given no end: " + std::string(text.substr(0, 300)));
  }
}

void WorkerClient::on_life_lost(Link& link, const Sender& sender) {
  if (sender.kind == kind_undo) return on_undo_lost(link, sender);
  if (sender.kind == kind_probe) link.expire_nx = ExpireNx::unknown;
  if (has_copy(link, sender)) link.sent_on.pop();
}

// Sends on a command that was not executed, as its slot is at another node or being moved there.
// False: the command is lost.
bool WorkerClient::send_on(Link& link, const Sender& sender, std::string_view text,
                           const std::string& command) {
  Links& links = links_of(link);
  uint32_t redirects = sender.index;
  uint32_t ask_link = 0;
  const auto redirect = redirect_of(text, link.host());
  if (!redirect || !is_redirected(links, text, link.id, redirects, ask_link)) return false;
  Link* const to = ask_link != 0 ? links.by_id(ask_link) : links.of_slot(redirect->slot);
  if (to == nullptr || !to->takes_late()) return false;
  const base::Time due{now_.us + shared_.patience_us};
  say_asking(*to, ask_link != 0, due);
  to->connection.out() += command;
  to->sent_on.push(command);
  // The copy of an undo has the script's hash, also where its text was sent.
  const uint32_t how = sender.kind == kind_undo && ask_link != 0 ? undo_asked : 0;
  to->connection.sent({sender.kind, sender.slot, how, redirects}, due);
  return true;
}

WorkerClient::Route WorkerClient::route_of(const Waiting& w) {
  return route_of(counted_of(w.wanted.charges), now_);
}

// A group whose counters are apart and cannot be settled together may be asked as well: it fails
// then.
bool WorkerClient::may_ask(const Waiting& w) {
  const auto charges = counted_of(w.wanted.charges);
  const Route route = route_of(charges, now_);
  if (route.what == Route::What::to) return route.link->takes();
  if (settles_across(route, charges)) return all_take(*route.links, charges);
  return route.what != Route::What::unknown;
}

bool WorkerClient::all_take(Links& links, std::span<const Charge> charges) {
  bool all = true;
  for (const Charge& charge : charges) {
    key_.clear();
    append_stored_name(key_, charge, shared_.options.key_prefix, true, now_);
    Link* const link = links.of_slot(slot_of(key_));  // looks for the primary if it is unknown
    all &= link != nullptr && link->takes();
  }
  return all;
}

}  // namespace sluice::redis
