#include "engine/pending_replies.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::engine {

void PendingReply::copy(protocol::Protocol its_protocol, const request::Request& its_request,
                        std::span<const request::Entry> its_descriptor,
                        std::span<const limit::Limit> its_limits) {
  brought.assign(its_limits.begin(), its_limits.end());
  protocol = its_protocol;
  tag = its_request.tag;
  prefix = its_request.prefix;
  for (const auto& [key, value] : its_descriptor) descriptor.emplace_back(key, value);
  request = its_request;
  request.tag = tag;
  request.prefix = prefix;
  request.entry_count = request.limit_count = 0;
}

std::vector<request::Entry> PendingReply::entries() const {
  std::vector<request::Entry> all;
  for (const auto& [key, value] : descriptor) all.push_back({key, value});
  return all;
}

size_t PendingReply::bytes() const {
  size_t sum = sizeof *this + tag.size() + prefix.size() + brought.size() * sizeof(limit::Limit);
  if (request.verb == request::Verb::wait) sum += sizeof(Denial);  // for refused_by
  for (const auto& [key, value] : descriptor)
    sum += sizeof descriptor.front() + key.size() + value.size();
  return sum;
}

PendingReply* PendingReplies::add(ReplySink& sink, protocol::Protocol protocol,
                                  const request::Request& request,
                                  std::span<const request::Entry> descriptor,
                                  std::span<const limit::Limit> limits, request::Ticket& ticket) {
  if (sink.pending_.size() >= base::bounds::waiting_per_connection_max) return nullptr;
  if (bytes_ >= base::bounds::parked_bytes_max) return nullptr;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<PendingReply>());
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  PendingReply& pending = *slots_[slot];
  pending.sink = &sink;
  pending.copy(protocol, request, descriptor, limits);
  sink.pending_.insert(slot);
  ++size_;
  bytes_ += pending.bytes();
  ticket = {slot, pending.generation};
  return &pending;
}

PendingReply* PendingReplies::find(request::Ticket ticket) {
  if (ticket.slot >= slots_.size()) return nullptr;
  PendingReply& pending = *slots_[ticket.slot];
  return pending.sink != nullptr && pending.generation == ticket.generation ? &pending : nullptr;
}

void PendingReplies::remove(request::Ticket ticket) {
  PendingReply* const pending = find(ticket);
  if (pending == nullptr) return;
  bytes_ -= pending->bytes();
  --size_;
  ends_.erase({pending->until.us, ticket.slot});
  deadlines_.erase({pending->deadline.us, ticket.slot});
  pending->sink->pending_.erase(ticket.slot);
  const uint32_t generation = pending->generation + 1;
  *pending = PendingReply{};
  pending->generation = generation;
  free_.push_back(ticket.slot);
}

std::vector<request::Ticket> PendingReplies::of(const ReplySink& sink) const {
  std::vector<request::Ticket> tickets;
  for (const uint32_t slot : sink.pending_) tickets.push_back({slot, slots_[slot]->generation});
  return tickets;
}

std::vector<request::Ticket> PendingReplies::kept() const {
  std::vector<std::pair<uint64_t, request::Ticket>> by_arrival;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const PendingReply& pending = *slots_[slot];
    if (pending.kept) by_arrival.push_back({pending.arrival, {slot, pending.generation}});
  }
  std::sort(by_arrival.begin(), by_arrival.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<request::Ticket> tickets;
  for (const auto& [arrival, ticket] : by_arrival) tickets.push_back(ticket);
  return tickets;
}

void PendingReplies::set_until(request::Ticket ticket, base::Time until) {
  PendingReply& pending = *find(ticket);
  ends_.erase({pending.until.us, ticket.slot});
  pending.until = until;
  if (until.us != INT64_MAX) ends_.emplace(until.us, ticket.slot);
}

std::optional<base::Time> PendingReplies::next_end() const {
  if (ends_.empty()) return std::nullopt;
  return base::Time{ends_.begin()->first};
}

void PendingReplies::take_ended(base::Time now, std::vector<request::Ticket>& ended) {
  while (!ends_.empty() && ends_.begin()->first <= now.us) {
    const uint32_t slot = ends_.begin()->second;
    ended.push_back({slot, slots_[slot]->generation});
    ends_.erase(ends_.begin());
  }
}

void PendingReplies::set_deadline(request::Ticket ticket, base::Time deadline) {
  PendingReply& pending = *find(ticket);
  deadlines_.erase({pending.deadline.us, ticket.slot});  // an earlier one
  pending.deadline = deadline;
  deadlines_.emplace(deadline.us, ticket.slot);
}

std::optional<base::Time> PendingReplies::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return base::Time{deadlines_.begin()->first};
}

void PendingReplies::take_expired(base::Time monotonic, std::vector<request::Ticket>& expired) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= monotonic.us) {
    const uint32_t slot = deadlines_.begin()->second;
    expired.push_back({slot, slots_[slot]->generation});
    deadlines_.erase(deadlines_.begin());
  }
}

}  // namespace sluice::engine
