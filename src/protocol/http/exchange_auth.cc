// Forward-auth: a proxy asks whether it may forward a request of its client.
#include <algorithm>
#include <string>

#include "protocol/http/auth_request.h"
#include "protocol/http/exchange.h"
#include "protocol/http/worker_state.h"
#include "request/peer.h"

namespace sluice::http {
namespace {

constexpr std::string_view auth_path = "/auth/";

void warn(const ConnectionContext& around, std::string_view profile, std::string_view why) {
  if (around.peer.server == nullptr) return;
  std::string line = "/auth/";
  line.append(profile).append(" asked by ").append(around.peer.address).append(": ").append(why);
  around.peer.server->warn(line);
}

// The client's Accept: the proxy may show a refusal to the client.
std::string_view accept_of(std::span<const wire::HttpField> fields) {
  const auto found = std::ranges::find_if(fields, [](const wire::HttpField& field) {
    return wire::is_http_name(field.name, "accept");
  });
  return found == fields.end() ? std::string_view() : found->value;
}

}  // namespace

Exchange::Begun Exchange::begin_auth(const Question& question, const ConnectionContext& around,
                                     uint32_t note, request::Requests& requests) {
  const std::string_view name = question.path.size() <= auth_path.size()
                                    ? std::string_view()
                                    : question.path.substr(auth_path.size());
  profile_ = around.options.auth.find(name);
  if (profile_ == nullptr) {
    const std::string_view shown = name.substr(0, 64);
    warn(around, shown, "there is no such profile in `http.auth.profiles`");
    return refuse(problems::no_such_profile, "there is no such profile in `http.auth.profiles`");
  }
  std::vector<request::Entry>& entries = around.worker.auth_entries;
  entries.clear();
  const AuthQuestion asked{.method = question.method,
                           .path = question.path,
                           .query = question.query,
                           .host = question.host,
                           .scheme = question.scheme,
                           .fields = question.fields};
  const auto refusal = read_auth_request(asked, *profile_, around.options.auth, around.auth_peer,
                                         requests.texts(), entries);
  if (refusal) {
    warn(around, profile_->name, refusal->message);
    return refuse(refusal->status == 403 ? problems::forbidden : problems::bad_request,
                  refusal->message);
  }
  accept_ = accept_of(question.fields).substr(0, accept_bytes_max);
  requests.open();
  for (const request::Entry& entry : entries) requests.add(entry);
  requests.commit({.scope = request::RuleScope::native,
                   .note = note,
                   .cost = profile_->n,
                   .prefix = {},
                   .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

// A request to which no rule applies is allowed, except with `unmatched: deny`: a proxy asks about
// all of its requests, and most of them need no limit.
void Exchange::take_auth(const request::Verdict& verdict, const ConnectionContext& around) {
  if (!verdict.error.empty()) {
    if (profile_->on_store_error == request::OnError::error) {
      retry_after_ = base::seconds(1);
      refuse(problems::reduced_capacity, verdict.error);
    } else if (profile_->on_store_error == request::OnError::deny) {
      denied_ = true;
      allowed_ = false;
      retry_of_denial_ = base::seconds(1);
    }
    return;
  }
  if (verdict.tightest == nullptr) {
    denied_ = !verdict.matched && around.options.unmatched == Unmatched::deny;
    allowed_ = !denied_;
    retry_of_denial_ = base::never;
    return;
  }
  report_limits(verdict, around);
  note_outcome(verdict.allowed, *verdict.tightest);
  auth_rule_ = verdict.rule;
  if (verdict.counted) auth_remaining_ = std::max<int64_t>(verdict.tightest->remaining, 0);
  if (!verdict.allowed) append_take(verdict, false, members_);
}

}  // namespace sluice::http
