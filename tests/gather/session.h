// A session double for what no protocol of the program does yet: one question with several
// decisions behind its one reply, and several batches of one connection under way. Lines:
//
//   ID all KEY...    `ID yes` if each of the keys has a unit left, and one is taken of each; else
//                    `ID no`, and none is taken
//   ID each KEY...   `ID` and `yes` or `no` for each
//   ID hold KEY...   as `each`; from here on the session holds back
//   ID end           nothing is behind it: the peer breaks the protocol
//   ID hoard BYTES   no reply: from here on the session holds so many bytes of a request
//   ID pad BYTES     no reply: from here on every reply ends with so many dots
//   ID echo BYTES    so many dots and a line's end, at once
//   ID pong          `pong`, at once, and nothing else is taken from the input with it
//
// A key is the entry `key` of a request. `gather` may reply to batches in any order,
// `gather_in_order` must keep it.
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

  // Called by the worker's thread for each `pong`, with how many its session has had.
  static inline std::function<void(size_t)> at_pong;

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool takes_several_batches() const override { return !in_order_; }
  bool holds_back() const override { return holds_; }
  size_t unfinished_bytes() const override { return hoarded_; }
  std::string_view fault() const override { return "end"; }
  void farewell(base::Buffer& out) override { out.append("farewell\n"); }
  void refuse(std::string_view why, base::Buffer& out) override { out.append(why); }
  void goodbye(base::Buffer& out) override { out.append("goodbye\n"); }

 private:
  // What a request's note says of it, in bits.
  enum Note : uint32_t { first = 1, last = 2, all = 4 };

  const bool in_order_;
  bool greeted_ = false, holds_ = false;
  size_t hoarded_ = 0, pad_ = 0, pongs_ = 0;
  // Of questions whose reply is not complete, by their ids: another batch's replies may come in
  // between.
  std::map<std::string, std::string, std::less<>> gathered_;
};

}  // namespace sluice::tests
