// Any bytes must give the same requests and replies in one piece and in pieces, on a server with
// users and on one without. The first byte says how the rest is cut, and whether the server has
// users.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/users.h"
#include "base/bounds.h"
#include "protocol/resp/session.h"
#include "request/hold.h"
#include "testing/random_cuts.h"

namespace {

using namespace sluice;
using request::Verb;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Server final : request::ServerView {
  std::string_view version() const override { return "1.2.3"; }
  request::ServerFigures figures() const override { return {}; }
};

bool waits(const request::Request& request) {
  return request.verb == Verb::wait ||
         (request.verb == Verb::reserve && request.message->wait_at_most.us > 0);
}

// Makes verdicts that depend only on the request.
class Verdicts {
 public:
  const request::Verdict& of(const request::Request& request, const request::Requests& all) {
    verdict_ = {};
    const auto entries = all.descriptor(request);
    if (request.message->hold != nullptr) settle(*request.message->hold);
    if (request.verb == Verb::settle) return verdict_;
    if (request.verb == Verb::noop) return verdict_;
    if (entries.size() % 4 == 3 && entries[0].key != "command") return verdict_;  // no rule
    size_t weight = static_cast<size_t>(std::max<int64_t>(request.cost, 0)) + entries.size();
    for (const request::Entry& entry : entries) weight += entry.key.size() + entry.value.size();
    verdict_.matched = true;
    verdict_.allowed = weight % 2 == 0;
    verdict_.expired = waits(request) && weight % 3 == 0;
    decision_ = {.allowed = verdict_.allowed,
                 .limit = 9,
                 .remaining = static_cast<int64_t>(weight % 9),
                 .reset_after = {static_cast<int64_t>(weight * 1'000)},
                 .retry_after = verdict_.allowed ? base::Duration{} : base::never};
    verdict_.tightest = &decision_;
    verdict_.rule = weight % 5 == 0 ? "" : "a rule";
    if (weight % 11 == 0) {
      verdict_.error = "the store is away";
      verdict_.cause = request::Error::store;
    }
    return verdict_;
  }

 private:
  // What comes of a message about a hold depends only on what it asks.
  static void settle(request::HoldCall& call) {
    size_t weight = call.id.size() + call.user.size() + call.holder.size() + call.content % 7;
    for (const int64_t one : call.units) weight += static_cast<size_t>(one % 13);
    call.outcome = static_cast<request::HoldOutcome>(weight % 11);
    call.made_id = call.id.empty() ? "hold-0000-0000-1" : std::string(call.id);
    call.ends_in = call.ttl;
    call.reserved = call.used = call.units;
    call.late = weight % 2 == 0;
    call.has_decision = weight % 3 == 0;
  }

  request::Verdict verdict_;
  limit::Decision decision_;
};

struct Transcript {
  std::string requests, replies, fault;
  bool closed = false;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

void append(const request::Request& request, const request::Requests& all, std::string& to) {
  to += std::string(name_of(request.verb)) + " " + std::to_string(request.cost) + " " +
        std::to_string(request.verb == request::Verb::reset) +
        std::to_string(request.message->together) + std::to_string(request.limits.replaces) +
        std::to_string(request.message->must_fit) + " " +
        std::to_string(request.message->wait_at_most.us);
  if (const request::HoldCall* const call = request.message->hold) {
    to += " hold " + std::to_string(static_cast<int>(call->ask)) + " " + std::string(call->user) +
          " " + std::string(call->id) + " " + std::to_string(call->content) + " " +
          std::to_string(call->ttl.us) + " " + std::string(call->holder) +
          std::to_string(call->waits);
    for (const int64_t one : call->units) to += " " + std::to_string(one);
  }
  for (const request::Entry& entry : all.descriptor(request))
    to += " " + std::string(entry.key) + "=" + std::string(entry.value);
  for (const limit::Limit& limit : all.limits(request))
    to += " " + std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + " " +
          std::to_string(limit.window.us) + " " + std::to_string(limit.burst);
  to += "\n";
}

const Server server;

Transcript run(std::string_view bytes, const std::vector<size_t>& cuts,
               const access::Access& access) {
  // Options of this run alone: they number the connections, and the numbers must be the same in
  // every run.
  resp::RespOptions options;
  resp::RespSession session({.server = &server, .options = &options, .access = &access});
  request::Requests requests;
  base::Buffer out, handshake;
  Verdicts verdicts;
  Transcript told;
  std::string in;
  size_t cut = 0;
  for (size_t arrived = 0; arrived < bytes.size() && !told.closed;) {
    const size_t count = cut < cuts.size() ? cuts[cut++] : bytes.size() - arrived;
    in += bytes.substr(arrived, count);
    arrived += count;
    for (;;) {
      requests.clear();
      const auto received = session.receive(in, false, requests, handshake);
      require(received.consumed <= in.size() && handshake.view().empty());
      for (const request::Request& request : requests.items()) {
        // Later requests wait for it, so its message must be the last one of its batch.
        if (waits(request))
          require(request.message == requests.items().back().message && session.state().holds_back);
        if (request.verb != Verb::noop) append(request, requests, told.requests);
        require(
            session.reply(request, verdicts.of(request, requests), {1'795'000'000'000'042}, out));
      }
      require(!session.state().holds_back && !session.state().waits_for_units);
      in.erase(0, received.consumed);
      told.closed = received.closing;
      if (told.closed) session.end(request::Ending::announced, {}, out);
      if (told.closed || (received.consumed == 0 && requests.size() == 0)) break;
    }
  }
  told.replies = out.view();
  told.fault = session.fault().code;
  return told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const access::Access nobody;
  static const access::Access users(std::make_shared<const access::Users>(std::vector<access::User>{
      {"some", {access::Right::take}, access::digest_of("q")},
      {"all",
       {access::Right::take, access::Right::put, access::Right::look, access::Right::admin},
       access::digest_of("p")}}));
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const access::Access& access = (data[0] & 0x80) == 0 ? nobody : users;
  require(run(bytes, {}, access) ==
          run(bytes, sluice::tests::random_cuts(data[0], bytes.size()), access));
  return 0;
}
