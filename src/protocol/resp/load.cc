#include "protocol/load.h"

#include <array>

#include "base/arena.h"
#include "base/buffer.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

using namespace std::string_view_literals;
using protocol::LoadOutcome;

class RespLoadClient final : public protocol::OrderedLoadClient {
 public:
  void append_request(std::string_view key, std::string& out) override {
    const std::array<std::string_view, 5> words = {"CL.THROTTLE", key, "999", "1000", "1"};
    frame_.clear();
    wire::append_resp_command(words, frame_);
    out += frame_.view();
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    wire::RespReplyReader reader;
    const auto result = reader.next(text);
    if (result.found == wire::RespReplyReader::Found::incomplete) return 0;
    outcome = LoadOutcome::error;
    if (result.found == wire::RespReplyReader::Found::broken) return text.size();
    wire::RespItems items(text.substr(0, result.consumed));
    wire::RespItem item;
    if (items.next(item) && item.kind == wire::RespItem::Kind::list && item.count == 5 &&
        items.next(item) && item.kind == wire::RespItem::Kind::integer)
      outcome = item.number == 0 ? LoadOutcome::allowed : LoadOutcome::denied;
    return result.consumed;
  }

 private:
  base::Buffer frame_;
};

protocol::LoadRequests count_requests(std::string_view text) {
  static thread_local base::Arena texts;
  protocol::LoadRequests requests;
  wire::RespCommandReader reader;
  for (;;) {
    const auto result = reader.next(text.substr(requests.bytes), texts);
    if (result.found != wire::RespCommandReader::Found::command) return requests;
    requests.bytes += result.consumed;
    ++requests.count;
  }
}

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<RespLoadClient>();
    },
    .count_requests = count_requests,
    .reply = "*5\r\n:0\r\n:1000\r\n:999\r\n:-1\r\n:1\r\n"sv,
};

}  // namespace sluice::resp
