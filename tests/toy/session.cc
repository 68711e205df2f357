#include "tests/toy/session.h"

#include <string>

#include "base/bounds.h"

namespace sluice::toy {

namespace {

void append_error(std::string_view why, base::Buffer& out) {
  out.append("error ");
  out.append(why);
  out.append('\n');
}

}  // namespace

request::Received ToySession::receive(std::string_view in, bool, request::Requests& requests,
                                      base::Buffer&) {
  constexpr std::string_view verb = "take ";
  size_t consumed = 0;
  while (requests.size() < base::bounds::batch_requests_max) {
    const size_t end = in.find('\n', consumed);
    if (end == in.npos) return {consumed, in.size() - consumed > base::bounds::line_bytes_max};
    const std::string_view line = in.substr(consumed, end - consumed);
    consumed = end + 1;
    if (!line.starts_with(verb)) return {consumed, true};
    requests.open();
    requests.add(request::Entry{"key", line.substr(verb.size())});
    requests.commit({.tag = {}});
  }
  return {consumed, false};
}

bool ToySession::reply(const request::Request&, const request::Verdict& verdict, base::Time,
                       base::Buffer& out) {
  if (!verdict.error.empty()) {
    append_error(verdict.error, out);
    return true;
  }
  out.append(verdict.allowed ? "yes " : "no ");
  out.append(std::to_string(verdict.tightest != nullptr ? verdict.tightest->remaining : 0));
  out.append('\n');
  return true;
}

void ToySession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::announced) append_error("not a line `take KEY`", out);
  if (ending == request::Ending::refused) append_error(why, out);
}

}  // namespace sluice::toy
