#include "protocol/load.h"

#include <algorithm>

#include "protocol/divvy/line.h"

namespace sluice::divvy {
namespace {

using protocol::LoadOutcome;

class DivvyLoadClient final : public protocol::OrderedLoadClient {
 public:
  // Strings are not quoted, unlike in divvy_request, so that results remain comparable with earlier
  // measurements.
  void append_request(std::string_view key, std::string& out) override {
    out += "HIT method=GET path=/bench ip=";
    out += key;
    out += '\n';
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return 0;
    DivvyReply reply;
    outcome = !read_divvy_reply(text.substr(0, end), reply) ? LoadOutcome::error
              : reply.allowed                               ? LoadOutcome::allowed
                                                            : LoadOutcome::denied;
    return end + 1;
  }
};

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<DivvyLoadClient>();
    },
    // A line that was cut in two needs no state, because only line ends are counted.
    .count_requests = [](std::string_view text) -> protocol::LoadRequests {
      return {static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), text.size()};
    },
    .reply = "OK true 999 60\n",
};

}  // namespace sluice::divvy
