#include "engine/errands.h"

#include <string>

namespace sluice::engine {

using request::no_ticket;
using request::Ticket;

bool Errands::begin(const Batch& batch, const request::Request& request,
                    request::Verdict& verdict) {
  if (batch.sink != nullptr) {
    // Copied without its entries, so that no password is kept.
    const Ticket ticket = late_.add(batch.protocol, request, {}, {}, *batch.sink);
    if (ticket != no_ticket && check_password(batch, request, ticket)) return true;
    if (ticket != no_ticket) late_.drop(ticket);
  }
  verdict.error = "too many passwords are being checked, try again later";
  verdict.cause = request::Error::overloaded;
  return false;
}

bool Errands::check_password(const Batch& batch, const request::Request& request, Ticket ticket) {
  access::Access* const access = decider_.deps().access;
  if (access == nullptr) return false;
  const auto entries = batch.requests.descriptor(request);
  return access->check(std::string(entries[0].value), std::string(entries[1].value),
                       entries[2].value, [this, ticket](bool right) {
                         decider_.deps().run([this, ticket, right] {
                           request::Verdict verdict;
                           verdict.matched = true;
                           verdict.allowed = right;
                           late_.answer(ticket, verdict);
                         });
                       });
}

}  // namespace sluice::engine
