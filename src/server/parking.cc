#include "server/parking.h"

#include "base/bounds.h"

namespace sluice::server {

std::vector<limit::Entry> Parked::entries() const {
  std::vector<limit::Entry> all;
  for (const auto& [key, value] : descriptor) all.push_back({key, value});
  return all;
}

size_t Parked::bytes() const {
  size_t sum = sizeof *this + tag.size() + prefix.size();
  for (const auto& [key, value] : descriptor)
    sum += sizeof descriptor.front() + key.size() + value.size();
  return sum;
}

Parked* Parking::park(Recipient& recipient, Protocol protocol, const wire::Request& request,
                      std::span<const limit::Entry> descriptor, limit::Ticket& ticket) {
  if (recipient.parked_.size() >= base::bounds::waiting_per_connection_max) return nullptr;
  if (bytes_ >= base::bounds::parked_bytes_max) return nullptr;
  const bool lists = request.verb == limit::Verb::list;
  if (lists && recipient.lists_ >= base::bounds::lists_per_connection_max) return nullptr;
  recipient.lists_ += lists ? 1 : 0;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<Parked>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Parked& parked = *slots_[slot];
  parked.recipient = &recipient;
  parked.protocol = protocol;
  parked.tag = request.tag;
  parked.prefix = request.prefix;
  for (const auto& [key, value] : descriptor) parked.descriptor.emplace_back(key, value);
  parked.request = request;
  parked.request.tag = parked.tag;
  parked.request.prefix = parked.prefix;
  parked.request.entry_count = parked.request.limit_count = 0;
  recipient.parked_.insert(slot);
  ++size_;
  bytes_ += parked.bytes();
  ticket = {slot, parked.generation};
  return &parked;
}

Parked* Parking::find(limit::Ticket ticket) {
  if (ticket.slot >= slots_.size()) return nullptr;
  Parked& parked = *slots_[ticket.slot];
  return parked.recipient != nullptr && parked.generation == ticket.generation ? &parked : nullptr;
}

void Parking::leave(limit::Ticket ticket) {
  Parked* const parked = find(ticket);
  if (parked == nullptr) return;
  bytes_ -= parked->bytes();
  --size_;
  parked->recipient->parked_.erase(ticket.slot);
  if (parked->request.verb == limit::Verb::list) --parked->recipient->lists_;
  const uint32_t generation = parked->generation + 1;
  *parked = Parked{};
  parked->generation = generation;
  free_.push_back(ticket.slot);
}

std::vector<limit::Ticket> Parking::of(const Recipient& recipient) const {
  std::vector<limit::Ticket> tickets;
  for (const uint32_t slot : recipient.parked_) tickets.push_back({slot, slots_[slot]->generation});
  return tickets;
}

std::vector<limit::Ticket> Parking::all() const {
  std::vector<limit::Ticket> tickets;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot]->recipient != nullptr) tickets.push_back({slot, slots_[slot]->generation});
  return tickets;
}

}  // namespace sluice::server
