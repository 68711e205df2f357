#include "protocol/resp/clients.h"

#include <algorithm>
#include <utility>

namespace sluice::resp {

std::string client_line(int64_t id, const ClientFacts& facts, base::Time now) {
  const int64_t age_us = facts.since ? std::max<int64_t>(now.us - facts.since->us, 0) : 0;
  return "id=" + std::to_string(id) + " addr=" + facts.address + " name=" + facts.name +
         " age=" + std::to_string(age_us / 1'000'000) + " db=" + std::to_string(facts.database) +
         " resp=" + std::to_string(facts.version) + " user=" + facts.user +
         " lib-name=" + facts.library + " lib-ver=" + facts.library_version + "\n";
}

int64_t Clients::add() {
  const std::lock_guard lock(mutex_);
  clients_.try_emplace(clients_.end(), ++last_);
  return last_;
}

void Clients::remove(int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto at = clients_.find(id);
  if (at->second.waits) --waiting_;
  clients_.erase(at);
}

void Clients::set(int64_t id, const ClientFacts& facts) {
  const std::lock_guard lock(mutex_);
  clients_.find(id)->second.facts = facts;
}

std::string Clients::lines(base::Time now) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [id, client] : clients_) text += client_line(id, client.facts, now);
  return text;
}

uint64_t Clients::keep(Place place) {
  const std::lock_guard lock(mutex_);
  if (places_.size() == scans_max) places_.erase(places_.begin());
  places_.emplace(++last_cursor_, std::move(place));
  return last_cursor_;
}

std::optional<Clients::Place> Clients::find(uint64_t cursor) const {
  const std::lock_guard lock(mutex_);
  const auto at = places_.find(cursor);
  if (at == places_.end()) return std::nullopt;
  return at->second;
}

bool Clients::begin_wait(int64_t id, size_t waiting_max) {
  const std::lock_guard lock(mutex_);
  if (waiting_ >= waiting_max) return false;
  Client& client = clients_.find(id)->second;
  client.ended = Ended::no;
  client.waits = true;
  ++waiting_;
  return true;
}

Clients::Ended Clients::end_wait(int64_t id) {
  const std::lock_guard lock(mutex_);
  Client& client = clients_.find(id)->second;
  if (client.waits) --waiting_;
  client.waits = false;
  const Ended ended = client.ended;
  client.ended = Ended::no;
  return ended;
}

bool Clients::is_ended(int64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = clients_.find(id);
  return at != clients_.end() && at->second.waits && at->second.ended != Ended::no;
}

bool Clients::unblock(int64_t id, Ended how, std::string_view user, bool any) {
  const std::lock_guard lock(mutex_);
  const auto at = clients_.find(id);
  if (at == clients_.end()) return false;
  Client& client = at->second;
  if (!client.waits || client.ended != Ended::no || (!any && client.facts.user != user))
    return false;
  client.ended = how;
  return true;
}

}  // namespace sluice::resp
