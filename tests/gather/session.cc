#include "tests/gather/session.h"

#include <memory>

#include "base/bounds.h"
#include "protocol/protocol.h"

namespace sluice::tests {

namespace {

std::string_view word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view found = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return found;
}

}  // namespace

request::Received GatherSession::receive(std::string_view in, bool, request::Requests& requests,
                                         base::Buffer& out) {
  if (!greeted_) out.append("hello\n");
  greeted_ = true;
  size_t consumed = 0;
  while (requests.size() == 0) {  // a batch has one line
    const size_t end = in.find('\n', consumed);
    if (end == in.npos) break;
    std::string_view line = in.substr(consumed, end - consumed);
    consumed = end + 1;
    const std::string_view id = word(line), what = word(line);
    if (what == "end") return {consumed, true};
    if (what == "pong") {
      out.append("pong\n");
      if (at_pong) at_pong(++pongs_);
      return {consumed, false};
    }
    if (what == "hoard" || what == "pad" || what == "echo") {
      const size_t bytes = std::stoul(std::string(line));
      if (what == "hoard") hoarded_ = bytes;
      if (what == "pad") pad_ = bytes;
      if (what == "echo") out.append(std::string(bytes, '.') + '\n');
      continue;
    }
    holds_ = what == "hold";
    const request::Message* const message =
        requests.hold(request::Message{.together = what == "all"});
    for (bool begins = true; !line.empty(); begins = false) {
      // Kept by `requests`, as in a protocol that decodes its texts.
      const std::string_view key = requests.hold(word(line));
      requests.open();
      requests.add(request::Entry{"key", key});
      requests.commit(
          {.message = message,
           .note = (begins ? first : 0u) | (line.empty() ? last : 0u) | (what == "all" ? all : 0u),
           .tag = id});
    }
  }
  return {consumed, false};
}

bool GatherSession::reply(const request::Request& request, const request::Verdict& verdict,
                          base::Time, base::Buffer& out) {
  std::string& gathered = gathered_[std::string(request.tag)];
  const bool together = (request.note & all) != 0;
  if (!together || (request.note & first) != 0)
    gathered += verdict.allowed ? " yes" : " no";
  else if (!verdict.allowed)
    gathered = " no";
  if ((request.note & last) == 0) return true;
  out.append(request.tag);
  out.append(gathered);
  gathered_.erase(gathered_.find(request.tag));
  out.append(std::string(pad_, '.'));
  out.append('\n');
  return true;
}

void GatherSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::announced) out.append("farewell\n");
  if (ending == request::Ending::refused) out.append(why);
  if (ending == request::Ending::stopping) out.append("goodbye\n");
}

}  // namespace sluice::tests

namespace sluice::gather {

extern constinit const protocol::Description description = {
    .name = "gather",
    .title = "gather",
    .port = 7001,
    .make_session =
        [](const request::Peer&) {
          return std::unique_ptr<request::Session>(new tests::GatherSession(false));
        },
};

}  // namespace sluice::gather

namespace sluice::gather_in_order {

extern constinit const protocol::Description description = {
    .name = "gather_in_order",
    .title = "gather_in_order",
    .port = 7002,
    .make_session =
        [](const request::Peer&) {
          return std::unique_ptr<request::Session>(new tests::GatherSession(true));
        },
};

}  // namespace sluice::gather_in_order
