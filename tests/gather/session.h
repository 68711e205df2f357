// A session for tests of several batches of one connection under way, and of messages with several
// decisions and one reply. Lines:
//
//   ID all KEY...    `ID yes` if each of the keys has a unit left, and one is taken of each; else
//                    `ID no`, and none is taken
//   ID each KEY...   `ID` and `yes` or `no` for each
//   ID hold KEY...   as `each`; from now on the session holds back
//   ID end           the peer breaks the protocol: nothing after this line is taken
//   ID hoard BYTES   no reply: from now on the session holds so many bytes of a request
//   ID pad BYTES     no reply: from now on every reply ends with so many dots
//   ID echo BYTES    so many dots and a line feed, at once
//   ID pong          `pong` at once; the rest of the input is left for the next call
//
// A key is the entry `key` of a request. `gather` may reply to batches in any order,
// `gather_in_order` must reply in order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "request/session.h"

namespace sluice::tests {

class GatherSession final : public request::Session {
 public:
  explicit GatherSession(bool in_order) : in_order_(in_order) {}

  // Called by the worker's thread for each `pong`, with the session's number of pongs so far.
  static inline std::function<void(size_t)> at_pong;

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::SessionState state() const override {
    return {
        .holds_back = holds_, .takes_several_batches = !in_order_, .unfinished_bytes = hoarded_};
  }
  request::Fault fault() const override { return {"end"}; }
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  // The bits of a request's note.
  enum Note : uint32_t { first = 1, last = 2, all = 4 };

  const bool in_order_;
  bool greeted_ = false, holds_ = false;
  size_t hoarded_ = 0, pad_ = 0, pongs_ = 0;
  // Incomplete replies by id: replies of another batch may come in between.
  std::map<std::string, std::string, std::less<>> gathered_;
};

}  // namespace sluice::tests
