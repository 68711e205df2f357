#include "protocol/droplet/client.h"

#include <gtest/gtest.h>

#include "testing/fake_server.h"

namespace sluice::droplet {
namespace {

using namespace std::chrono_literals;
using Left = std::array<std::optional<int32_t>, 6>;

constexpr std::string_view id = "\x12\x0asluice ask";

std::string bytes(std::string_view text) {
  return std::string(text);
}

TEST(DropletMessages, SayWhatIsNotAsAbsent) {
  DropletRequest take{.bucket = "jar"};
  EXPECT_EQ(droplet_message(take), "\x0a\x03jar" + bytes(id));
  take.limits = {10, 0, 300, 0, 0, 4294967295};
  take.count = 5;
  take.reset = true;
  EXPECT_EQ(droplet_message(take), "\x0a\x03jar" + bytes(id) +
                                       "\x18\x05\x20\x01\x28\x0a\x38\xac\x02"
                                       "\x50\xff\xff\xff\xff\x0f");
  take = {.bucket = "", .count = -1};
  EXPECT_EQ(droplet_message(take),
            std::string("\x0a\0", 2) + bytes(id) + "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  take = {.bucket = "", .count = 0};
  EXPECT_EQ(droplet_message(take), std::string("\x0a\0", 2) + bytes(id) + std::string("\x18\0", 2));
  const std::string long_name(200, 'b');
  EXPECT_EQ(droplet_message({.bucket = long_name, .type = query_type}),
            "\x0a\xc8\x01" + std::string(200, 'b') + bytes(id) + "\x58\x01");
}

TEST(DropletResponse, ReadsWhatIsThere) {
  const auto both = droplet_response("\x08\x01\x10\x39\x18\xc8\x01");
  ASSERT_TRUE(both.answer) << both.error;
  EXPECT_TRUE(both.answer->accept);
  EXPECT_EQ(both.answer->left, (Left{57, 200}));
  const auto refused =
      droplet_response(std::string("\x08\0", 2) + "\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  ASSERT_TRUE(refused.answer) << refused.error;
  EXPECT_FALSE(refused.answer->accept);
  EXPECT_EQ(refused.answer->left[5], -1);
  const auto none = droplet_response("\x08\x01");
  ASSERT_TRUE(none.answer);
  EXPECT_EQ(none.answer->left, Left{});
}

TEST(DropletResponse, RefusesAllElse) {
  for (const std::string& message :
       {std::string(), bytes("\x08"), bytes("\x10\x39"), bytes("\x08\x01\x12\x01x"),
        bytes("\x08\x01\x18\x80"), std::string(20, '\xff')}) {
    const auto result = droplet_response(message);
    EXPECT_FALSE(result.answer);
    EXPECT_EQ(result.error, "that is not a response of droplet's protocol");
  }
}

// That it is answered is shown with the real server, as the right answer differs each time.
TEST(DropletClient, SaysWhatIsWrongWithTheServer) {
  struct Case {
    const char* answer;
    const char* error;
  };
  const Case cases[] = {
      {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull\r\n",
       "the server refused: 503 Service Unavailable: full"},
      {"HTTP/1.1 404 Not Found\r\n\r\n", "the server refused: 404 Not Found"},
      {"HTTP/1.1\r\n\r\n", "the server refused: "},
      {"SSH-2.0-x\r\n\r\n", "that is not a server of droplet's protocol"},
      {"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n",
       "that is not a server of droplet's protocol: its handshake does not answer ours"},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n",
       "that is not a server of droplet's protocol: its handshake does not answer ours"},
      {"HTTP/1.1 101", "the server closed the connection without a reply"},
      {"", "the server closed the connection without a reply"},
  };
  for (const auto& [answer, error] : cases) {
    calls::FakeServer server({answer}, "\r\n\r\n");
    const auto result = DropletClient("127.0.0.1", server.port(), 5s).ask({.bucket = "jar"});
    EXPECT_FALSE(result.answer);
    EXPECT_EQ(result.error, error) << answer;
    EXPECT_TRUE(server.lines().front().starts_with("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"));
  }
  calls::FakeServer endless({std::string(1 << 20, 'x')}, "\r\n\r\n");
  EXPECT_EQ(DropletClient("127.0.0.1", endless.port(), 5s)
                .ask({.bucket = "jar", .type = query_type})
                .error,
            "that is not a server of droplet's protocol");
  calls::FakeServer silent({calls::FakeServer::silence}, "\r\n\r\n");
  EXPECT_EQ(DropletClient("127.0.0.1", silent.port(), 20ms)
                .ask({.bucket = "jar", .type = query_type})
                .error,
            "no reply in time");
}

}  // namespace
}  // namespace sluice::droplet
