#include "engine/batch.h"

namespace sluice::engine {

namespace {

// Closed batches that keep what they have allocated.
constexpr size_t spare_max = 256;

}  // namespace

Batch& Batches::open() {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Slot& slot = slots_[number];
  if (slot.batch == nullptr) slot.batch = std::make_unique<Batch>();
  slot.batch->ticket = {number, slot.generation};
  return *slot.batch;
}

void Batches::close(Batch& batch) {
  const uint32_t number = batch.ticket.slot;
  Slot& slot = slots_[number];
  ++slot.generation;
  batch.ticket = request::no_ticket;
  batch.session = nullptr;
  batch.sink = nullptr;
  batch.owner = nullptr;
  batch.requests.clear();
  batch.plan.clear();
  batch.tickets.clear();
  batch.settled = 0;
  batch.policy.reset();
  if (free_.size() >= spare_max) slot.batch.reset();
  free_.push_back(number);
}

Batch* Batches::find(request::Ticket ticket) {
  if (ticket.slot >= slots_.size()) return nullptr;
  Batch* const batch = slots_[ticket.slot].batch.get();
  return batch != nullptr && batch->ticket == ticket ? batch : nullptr;
}

}  // namespace sluice::engine
