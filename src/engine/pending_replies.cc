#include "engine/parking.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::engine {

void Parked::copy(protocol::Protocol its_protocol, const request::Request& its_request,
                  std::span<const request::Entry> its_descriptor) {
  protocol = its_protocol;
  tag = its_request.tag;
  prefix = its_request.prefix;
  for (const auto& [key, value] : its_descriptor) descriptor.emplace_back(key, value);
  request = its_request;
  request.tag = tag;
  request.prefix = prefix;
  request.entry_count = request.limit_count = 0;
}

std::vector<request::Entry> Parked::entries() const {
  std::vector<request::Entry> all;
  for (const auto& [key, value] : descriptor) all.push_back({key, value});
  return all;
}

size_t Parked::bytes() const {
  size_t sum = sizeof *this + tag.size() + prefix.size();
  for (const auto& [key, value] : descriptor)
    sum += sizeof descriptor.front() + key.size() + value.size();
  return sum;
}

Parked* Parking::park(Recipient& recipient, protocol::Protocol protocol,
                      const request::Request& request, std::span<const request::Entry> descriptor,
                      request::Ticket& ticket) {
  if (recipient.parked_.size() >= base::bounds::waiting_per_connection_max) return nullptr;
  if (bytes_ >= base::bounds::parked_bytes_max) return nullptr;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<Parked>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Parked& parked = *slots_[slot];
  parked.recipient = &recipient;
  parked.copy(protocol, request, descriptor);
  recipient.parked_.insert(slot);
  ++size_;
  bytes_ += parked.bytes();
  ticket = {slot, parked.generation};
  return &parked;
}

Parked* Parking::find(request::Ticket ticket) {
  if (ticket.slot >= slots_.size()) return nullptr;
  Parked& parked = *slots_[ticket.slot];
  return parked.recipient != nullptr && parked.generation == ticket.generation ? &parked : nullptr;
}

void Parking::leave(request::Ticket ticket) {
  Parked* const parked = find(ticket);
  if (parked == nullptr) return;
  bytes_ -= parked->bytes();
  --size_;
  ends_.erase({parked->until.us, ticket.slot});
  parked->recipient->parked_.erase(ticket.slot);
  const uint32_t generation = parked->generation + 1;
  *parked = Parked{};
  parked->generation = generation;
  free_.push_back(ticket.slot);
}

std::vector<request::Ticket> Parking::of(const Recipient& recipient) const {
  std::vector<request::Ticket> tickets;
  for (const uint32_t slot : recipient.parked_) tickets.push_back({slot, slots_[slot]->generation});
  return tickets;
}

std::vector<request::Ticket> Parking::kept() const {
  std::vector<std::pair<uint64_t, request::Ticket>> by_arrival;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const Parked& parked = *slots_[slot];
    if (parked.kept) by_arrival.push_back({parked.arrival, {slot, parked.generation}});
  }
  std::sort(by_arrival.begin(), by_arrival.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<request::Ticket> tickets;
  for (const auto& [arrival, ticket] : by_arrival) tickets.push_back(ticket);
  return tickets;
}

void Parking::set_until(request::Ticket ticket, base::Time until) {
  Parked& parked = *find(ticket);
  ends_.erase({parked.until.us, ticket.slot});
  parked.until = until;
  if (until.us != INT64_MAX) ends_.emplace(until.us, ticket.slot);
}

std::optional<base::Time> Parking::next_end() const {
  if (ends_.empty()) return std::nullopt;
  return base::Time{ends_.begin()->first};
}

void Parking::take_ended(base::Time now, std::vector<request::Ticket>& ended) {
  while (!ends_.empty() && ends_.begin()->first <= now.us) {
    const uint32_t slot = ends_.begin()->second;
    ended.push_back({slot, slots_[slot]->generation});
    ends_.erase(ends_.begin());
  }
}

}  // namespace sluice::engine
