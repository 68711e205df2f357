// The session of limitd's protocol (docs/limitd-protocol.md): frames that consist of a length and
// one protobuf message, in both directions. Replies may have any order; an id matches them to
// requests. One session for each connection, owned by it and used by its thread. It keeps no data
// of requests: a reply needs only the request's note, its cost and its tag, which is the id.
//
// Views in `requests` point into `in`, and are valid until the next `receive`; the keys of entries
// are literals.
#pragma once

#include <string_view>

#include "request/session.h"

namespace sluice::limitd {

class LimitdSession final : public request::Session {
 public:
  // After bytes that are not a request, this and all later calls consume and ignore everything. A
  // connection that begins with an HTTP request is treated in the same way.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // In the verdict of a list without counters, a `tightest` that is not null shows that the type
  // exists. Always returns true.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::Fault fault() const override { return {closing_ ? "frame" : ""}; }
  // Appends nothing, because the protocol has no such messages.
  void end(request::Ending, std::string_view, base::Buffer&) override {}

 private:
  bool begun_ = false;  // the first bytes of the connection are known not to be an HTTP request
  bool closing_ = false;
};

}  // namespace sluice::limitd
