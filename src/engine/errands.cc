#include "engine/errands.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/table_scanner.h"
#include "policy/inline_limits.h"
#include "protocol/protocol.h"
#include "request/space_index.h"

namespace sluice::engine {

using request::no_ticket;
using request::Ticket;
using request::Verb;

bool Errands::begin(const Batch& batch, const request::Request& request,
                    request::Verdict& verdict) {
  if (batch.sink != nullptr) {
    // Without its entries: no password is kept.
    const Ticket ticket = late_.add(batch.protocol, request, {}, {}, *batch.sink);
    const bool begun = ticket != no_ticket &&
                       (request.verb == Verb::log_in ? check_password(batch, request, ticket)
                                                     : scan(batch, request, ticket));
    if (begun) return true;
    if (ticket != no_ticket) late_.drop(ticket);
  }
  verdict.error = request.verb == Verb::log_in
                      ? "too many passwords are being checked, try again later"
                      : "too many searches are under way, try again later";
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

namespace {

struct Search {
  std::shared_ptr<const live::LivePolicy> policy;  // keeps the rules' spaces known
  std::vector<request::SpaceRef> inline_spaces;
  request::SpaceIndex spaces;
  std::string from, after;
  size_t max;
  store::ScanPage found;
};

void tell(const Search& search, LateReplies& late, Ticket ticket, const store::Store& store) {
  const store::ScanPage& found = search.found;
  request::Verdict verdict;
  verdict.matched = verdict.allowed = true;
  if (found.failed) verdict.error = store.message_for(request::Error::store);
  if (found.failed) verdict.cause = request::Error::store;
  std::vector<request::Listed> names;
  for (const std::string& name : found.keys) names.push_back({name, {}});
  verdict.listed = names;
  if (found.more || found.keys.size() == search.max)
    verdict.resume_at = {found.again, found.keys.empty() ? std::string_view() : found.keys.back()};
  else
    verdict.resume_at = {found.rest, {}};
  late.answer(ticket, verdict);
}

}  // namespace

bool Errands::scan(const Batch& batch, const request::Request& request, Ticket ticket) {
  TableScanner* const scanner = decider_.deps().scanner;
  if (scanner == nullptr) return false;
  const auto search = std::make_shared<Search>();
  search->policy = decider_.policy();
  std::vector<const request::Space*> spaces;
  for (const policy::Rule& rule :
       search->policy->rules->rules(protocol::dialect_of(batch.protocol)))
    if (rule.space != nullptr) spaces.push_back(rule.space);
  if (decider_.deps().spaces != nullptr)
    search->inline_spaces = decider_.deps().spaces->hold_all(policy::inline_prefix);
  for (const request::SpaceRef& space : search->inline_spaces) spaces.push_back(space.get());
  search->spaces = request::SpaceIndex(spaces);
  search->from = request.prefix;
  search->after = request.tag;
  search->max = static_cast<size_t>(request.cost);
  return scanner->look([this, search, ticket](store::Catalog& catalog) {
    search->found = catalog.scan_page(search->spaces, {}, search->after, search->max, search->from);
    decider_.deps().run(
        [this, search, ticket] { tell(*search, late_, ticket, decider_.deps().store); });
  });
}

}  // namespace sluice::engine
