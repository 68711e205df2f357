#include "protocol/load.h"

#include "base/buffer.h"
#include "protocol/limitd/message.h"

namespace sluice::limitd {
namespace {

using namespace std::string_view_literals;
using protocol::LoadOutcome;

// The same id in every request.
constexpr LimitdId request_id{"1"};
constexpr size_t reply_bytes_max = 127, request_bytes_max = size_t{1} << 20;

class LimitdLoadClient final : public protocol::OrderedLoadClient {
 public:
  void append_request(std::string_view key, std::string& out) override {
    frame_.clear();
    append_limitd_request({.id = request_id, .type = "bench", .key = key, .has_count = true},
                          frame_);
    out += frame_.view();
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    std::string_view body;
    size_t used = 0;
    switch (find_limitd_frame(text, reply_bytes_max, body, used)) {
      case LimitdFrame::unfinished:
        return 0;
      case LimitdFrame::bad:  // the next frame cannot be found
        outcome = LoadOutcome::error;
        return text.size();
      case LimitdFrame::whole:
        break;
    }
    LimitdReply reply;
    const bool mine = read_limitd_reply(body, reply) && reply.kind == LimitdReply::Kind::take &&
                      !reply.id.numeric && reply.id.bytes == request_id.bytes;
    outcome = !mine              ? LoadOutcome::error
              : reply.conformant ? LoadOutcome::allowed
                                 : LoadOutcome::denied;
    return used;
  }

 private:
  base::Buffer frame_;
};

protocol::LoadRequests count_requests(std::string_view text) {
  return protocol::count_frames(text, [](std::string_view rest) -> size_t {
    std::string_view body;
    size_t used = 0;
    const LimitdFrame frame = find_limitd_frame(rest, request_bytes_max, body, used);
    return frame == LimitdFrame::whole ? used : 0;
  });
}

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<LimitdLoadClient>();
    },
    .count_requests = count_requests,
    .reply =
        "\x14\x0a\x01"
        "1\xaa\x06\x0e\x08\x01\x18\xe7\x07\x20\x8c\xa2\xf7\xa7\x05\x28\xe8\x07"sv,
};

}  // namespace sluice::limitd
