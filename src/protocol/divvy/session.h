// The session of Divvy's line protocol (docs/divvy-protocol.md): `HIT k=v ...` is answered by
// `OK true 2 3600`. One for each connection, owned by it and used by its thread. It has little
// state: how far the unfinished line was searched, the text of the error that ends the connection,
// and copies of lines that were not UTF-8.
//
// Entries are views into `in` or, for a line with ill-formed UTF-8, into the session. They are
// valid until the next `receive`; views into the session also end with the last outstanding reply.
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
  // `strict`: a request with two equal keys, or with a quote inside an unquoted string, is an
  // error.
  explicit DivvySession(bool strict = false) : strict_(strict) {}

  // `in` begins with the bytes that the previous call did not consume; if it is shorter than those,
  // all of it counts as new. Each byte is searched once for the end of its line, however small the
  // pieces. After a line with an error everything is consumed and ignored, in this call and in all
  // later ones.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // Returns false only for a verdict with an error.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;

  request::Fault fault() const override;

  // Appends an ERR line: that of the line with an error, or the reason of a refusal.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  std::string_view well_formed(std::string_view line);

  const bool strict_;
  uint32_t searched_ = 0;                   // bytes at the front of the next `in` without an LF
  uint32_t owed_ = 0;                       // requests that have no reply yet
  std::forward_list<std::string> scratch_;  // repaired lines; nodes do not move, so views stay
  std::string error_;                       // the ERR line, without LF
};

}  // namespace sluice::divvy
