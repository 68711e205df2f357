// limitd's protocol (docs/limitd-protocol.md): frames of a length and one protobuf message, either
// way; replies in any order, matched by their id. One per connection, owned by it, used by its
// thread. It keeps nothing of a request: what a reply needs is in the request's note, its cost and
// its tag, which is the id.
//
// Views in `requests` point into `in` and live until the next `receive`; entries' keys are
// literals.
#pragma once

#include <string_view>

#include "request/session.h"

namespace sluice::limitd {

class LimitdSession final : public request::Session {
 public:
  // At bytes that are not a request everything is consumed: what follows them is not asked for.
  // Once closing, for ever. So it goes with a connection that begins as HTTP does.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // Needs a list's `tightest` (of whatever content) to know that its type exists, unless something
  // was listed. Always true.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  std::string_view fault() const override { return closing_ ? "frame" : ""; }

  // Nothing: the protocol has no words for either.
  void farewell(base::Buffer&) override {}
  void refuse(std::string_view, base::Buffer&) override {}

 private:
  bool begun_ = false;  // the connection's first bytes are known not to be HTTP's
  bool closing_ = false;
};

}  // namespace sluice::limitd
