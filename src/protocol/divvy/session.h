// Divvy's line protocol (docs/divvy-protocol.md): `HIT k=v ...` in, `OK true 2 3600` out. One per
// connection, owned by it, used by its thread. Nearly stateless: it keeps how far the unfinished
// line has been searched, the text of the error that ends the connection, and copies of those lines
// that were not UTF-8.
//
// Entries are views into `in`, or, for a line with ill-formed UTF-8, into the session. Both live
// until the next `receive`; the session's also end with the reply to the last request that is owed
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <string>
#include <string_view>

#include "request/session.h"

namespace sluice::divvy {

class DivvySession final : public request::Session {
 public:
  // `strict`: a request with two equal keys, or with a quote inside a string without quotes, is an
  // error.
  explicit DivvySession(bool strict = false) : strict_(strict) {}

  // `in` begins with what the previous call left over; should it be shorter than that, it is read
  // as new bytes. Each byte is searched for its line's end once, however small the pieces. At a
  // line that is an error everything is consumed: what follows it is not asked for. Once
  // closing, for ever.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // False only for a verdict with an error.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;

  std::string_view fault() const override;

  // The ERR line of the bad line; nothing unless `receive` announced the close.
  void farewell(base::Buffer& out) override;

  void refuse(std::string_view why, base::Buffer& out) override;

 private:
  std::string_view well_formed(std::string_view line);

  const bool strict_;
  uint32_t searched_ = 0;                   // bytes at the front of the next `in` that hold no LF
  uint32_t owed_ = 0;                       // requests without a reply yet
  std::forward_list<std::string> scratch_;  // rewritten lines; nodes, so that views stay
  std::string error_;                       // the ERR line, without its LF
};

}  // namespace sluice::divvy
