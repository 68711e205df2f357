#include "engine/batch.h"

#include <utility>

#include "base/bounds.h"
#include "engine/late_replies.h"

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
  batch.hold = nullptr;
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

Decider::Decider(Deps&& deps, std::shared_ptr<spdlog::logger> log)
    : deps_(std::move(deps)),
      log_(std::move(log)),
      policy_(deps_.live.current()),
      rules_(policy_->rules.get()),
      completions_(deps_.wake) {
  if (deps_.overrides != nullptr) overrides_reader_.emplace(*deps_.overrides);
  if (deps_.spaces != nullptr) inline_limits_.emplace(*deps_.spaces, deps_.shares);
}

Decider::~Decider() {
  deps_.store.attach(completions_, nullptr);
}

bool Decider::take_policy() {
  // Nothing that a lookup of overrides found is kept beyond a batch, except by value.
  if (overrides_reader_) overrides_reader_->quiesce();
  if (deps_.live.epoch() == policy_->epoch) return false;
  policy_ = deps_.live.current();
  rules_ = policy_->rules.get();
  if (inline_limits_) inline_limits_->release_given_way();
  if (next_ != nullptr) {
    next_->plan.clear();  // it points into the old rules
    next_->policy = policy_;
  }
  return true;
}

policy::Matching Decider::matching(protocol::Protocol protocol, request::Session& session,
                                   const request::Request& request,
                                   std::span<const request::Entry> descriptor,
                                   std::span<const limit::Limit> limits, const ReplySink* sink,
                                   base::Time now, base::Arena& texts) {
  policy::Matching matching{
      .descriptor = descriptor, .request = request, .limits = limits, .now = now};
  if (const auto* const rules = rules_->planned(protocol::dialect_of(protocol)); rules != nullptr)
      [[unlikely]]
    matching.planning = planned(*rules, session, request, texts);
  // Without a sink, as in tests, the client is not known.
  if (rules_->asks_certificate() && sink != nullptr) [[unlikely]]
    matching.certificate = sink->certificate();
  return matching;
}

policy::Planning* Decider::planned(const policy::RuleSet::DialectRules& rules,
                                   request::Session& session, const request::Request& request,
                                   base::Arena& texts) {
  plannings_.reserve(base::bounds::together_max);  // so that none moves
  policy::Planning& planning = plannings_.emplace_back(
      policy::Planning{.rules = rules.rules(), .own = *rules.own(), .texts = texts});
  session.plan(request, planning);
  return &planning;
}

bool Decider::find_inline(policy::Matching& matching, const ReplySink* sink) {
  if (!inline_limits_) return false;
  if (matching.limits.empty()) {
    // A look or reset of the counter itself; a take must bring limits.
    const request::Verb verb = matching.request.verb;
    if (verb != request::Verb::peek && verb != request::Verb::reset) return false;
    matching.limits = {&policy::any_limit, 1};
  }
  const uint64_t client = sink == nullptr ? 0 : sink->client();
  const uint64_t user = matching.request.message->brought_by;
  inline_limits_->serve(user != 0 ? user : client, matching.now);
  matching.limits_id = inline_limits_->find(matching.limits);
  return matching.limits_id != 0;
}

Batch& Decider::next() {
  if (next_ == nullptr) [[unlikely]] {
    next_ = &batches_.open();
    next_->policy = policy_;
  }
  return *next_;
}

}  // namespace sluice::engine
