// Frames as WebsocketReader reads and the writers write them, judged by wslay.
#include <gtest/gtest.h>
#include <wslay/wslay.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "wire/websocket.h"

namespace sluice::wire {
namespace {

struct Frame {
  uint8_t first = 0;  // the final bit, reserved bits and the opcode
  std::string payload;
  friend bool operator==(const Frame&, const Frame&) = default;
};

// The frames at the front of `bytes` as wslay reads them, up to the first that it takes for broken.
struct Judged {
  std::vector<Frame> frames;
  bool is_broken = false;
};

Judged judge(std::string_view bytes) {
  const auto feed = [](uint8_t* to, size_t room, int, void* rest) -> ssize_t {
    auto& in = *static_cast<std::string_view*>(rest);
    const size_t n = std::min(room, in.size());
    if (n == 0) return -1;
    std::memcpy(to, in.data(), n);
    in.remove_prefix(n);
    return static_cast<ssize_t>(n);
  };
  const wslay_frame_callbacks callbacks{nullptr, feed, nullptr};
  wslay_frame_context_ptr context = nullptr;
  EXPECT_EQ(wslay_frame_context_init(&context, &callbacks, &bytes), 0);
  const std::unique_ptr<wslay_frame_context, void (*)(wslay_frame_context*)> owner(
      context, wslay_frame_context_free);
  Judged judged;
  Frame frame;
  while (true) {
    wslay_frame_iocb part{};
    const ssize_t n = wslay_frame_recv(context, &part);
    if (n == WSLAY_ERR_WANT_READ) return judged;  // no more bytes
    if (n < 0) {
      judged.is_broken = true;
      return judged;
    }
    frame.first = static_cast<uint8_t>(part.fin << 7 | part.rsv << 4 | part.opcode);
    if (part.data_length > 0)
      frame.payload.append(reinterpret_cast<const char*>(part.data), part.data_length);
    if (frame.payload.size() < part.payload_length) continue;
    judged.frames.push_back(std::move(frame));
    frame = {};
  }
}

std::string random_bytes(std::mt19937& dice, size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(dice());
  return bytes;
}

// A frame with the length in as many bytes as `length_bytes` says, too many or not.
std::string frame_of(std::mt19937& dice, uint8_t first, const std::string& payload,
                     size_t length_bytes, bool masked) {
  std::string out(1, static_cast<char>(first));
  const size_t size = payload.size(), small = length_bytes == 0   ? size
                                              : length_bytes == 2 ? 126
                                                                  : 127;
  out += static_cast<char>((masked ? 0x80u : 0u) | small);
  for (size_t i = length_bytes; i-- > 0;) out += static_cast<char>(size >> (8 * i) & 0xFF);
  if (!masked) return out + payload;
  const std::string mask = random_bytes(dice, 4);
  out += mask;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(payload[i] ^ mask[i % 4]);
  return out;
}

size_t random_size(std::mt19937& dice) {
  constexpr size_t edges[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 124, 125, 126, 127, 65'535, 65'536};
  return dice() % 2 == 0 ? edges[dice() % std::size(edges)] : dice() % 300;
}

// Messages, whole and in fragments, with pings between: the reader gives what wslay's frames say.
TEST(WebsocketFrames, AreReadAsWslayReadsThem) {
  std::mt19937 dice(38);
  size_t messages = 0, too_long_lengths = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string bytes;
    bool fragmented = false;
    for (size_t i = 0, count = 1 + dice() % 4; i < count; ++i) {
      const bool is_ping = dice() % 5 == 0, is_final = is_ping || dice() % 3 != 0;
      const size_t size = is_ping ? dice() % 126 : random_size(dice);
      size_t length_bytes = size < 126 ? 0 : size < 65'536 ? 2 : 8;
      if (!is_ping && dice() % 40 == 0) length_bytes = length_bytes == 0 ? 2 : 8;
      const auto opcode = static_cast<uint8_t>(is_ping ? 9 : fragmented ? 0 : 1 + dice() % 2);
      bytes += frame_of(dice, static_cast<uint8_t>((is_final ? 0x80 : 0) | opcode),
                        random_bytes(dice, size), length_bytes, dice() % 8 != 0);
      if (!is_ping) fragmented = !is_final;
    }
    if (dice() % 4 == 0) bytes.resize(dice() % (bytes.size() + 1));  // the last frame is incomplete
    const Judged judged = judge(bytes);

    WebsocketReader reader;
    reader.renew();
    std::vector<Frame> frames = judged.frames;
    std::string_view in = bytes;
    std::string message;  // the fragments before this frame
    uint8_t of = 0;       // their opcode
    size_t at = 0;
    while (true) {
      const WebsocketEvent event = reader.next(in);
      if (event.kind == WebsocketEvent::Kind::incomplete) {
        EXPECT_FALSE(judged.is_broken);
        break;
      }
      if (event.kind == WebsocketEvent::Kind::broken) {
        EXPECT_TRUE(judged.is_broken);
        EXPECT_EQ(event.code, 1002);
        ++too_long_lengths;
        break;
      }
      ASSERT_LT(at, frames.size());
      const Frame& frame = frames[at++];
      in.remove_prefix(event.consumed);
      if ((frame.first & 0x0F) == 9) {
        EXPECT_EQ(event.kind, WebsocketEvent::Kind::ping);
        EXPECT_EQ(event.payload, frame.payload);
        continue;
      }
      if ((frame.first & 0x0F) != 0) of = frame.first & 0x0F;
      message += frame.payload;
      if ((frame.first & 0x80) == 0) {
        EXPECT_EQ(event.kind, WebsocketEvent::Kind::nothing);
        continue;
      }
      EXPECT_EQ(event.kind, of == 1 ? WebsocketEvent::Kind::text : WebsocketEvent::Kind::binary);
      EXPECT_EQ(event.payload, message);
      message.clear();
      ++messages;
    }
    EXPECT_EQ(at, frames.size());
  }
  EXPECT_GT(messages, 3'000u);
  EXPECT_GT(too_long_lengths, 50u);
}

TEST(WebsocketFrames, AreWrittenAsWslayReadsThem) {
  std::mt19937 dice(6455);
  for (int round = 0; round < 1'000; ++round) {
    const std::string payload = random_bytes(dice, random_size(dice));
    const std::string reason = random_bytes(dice, dice() % 300);
    const WebsocketMask mask{static_cast<char>(dice()), static_cast<char>(dice()), '\0', 'x'};
    base::Buffer out;
    append_websocket_frame(websocket_binary, payload, out);
    append_masked_websocket_frame(websocket_binary, payload, mask, out);
    append_websocket_close(1009, reason, out);
    const Judged judged = judge(out.view());
    EXPECT_FALSE(judged.is_broken);
    ASSERT_EQ(judged.frames.size(), 3u);
    EXPECT_EQ(judged.frames[0], (Frame{0x82, payload}));
    EXPECT_EQ(judged.frames[1], judged.frames[0]);
    EXPECT_EQ(judged.frames[2].first, 0x88);
    EXPECT_EQ(judged.frames[2].payload.substr(0, 2), "\x03\xf1");
    EXPECT_TRUE(reason.starts_with(judged.frames[2].payload.substr(2)));
  }
}

}  // namespace
}  // namespace sluice::wire
