// The bytes of limitd's client, as the recordings have them, and what it makes of nonsense.
#include "protocol/limitd/client.h"

#include <gtest/gtest.h>

#include "testing/fake_server.h"

namespace sluice::limitd {
namespace {

using namespace std::string_literals;

TEST(LimitdRequestBytes, AreThoseOfTheRealClient) {
  EXPECT_EQ(limitd_request({LimitdMethod::take, "ip", "a", 2}),
            "\x0e\x0a\x01\x31\x12\x02ip\x1a\x01"s + "a\x20\x00\x28\x02"s);
  EXPECT_EQ(limitd_request({LimitdMethod::put, "ip", "a", {}}),
            "\x0e\x0a\x01\x31\x12\x02ip\x1a\x01"s + "a\x20\x02\x30\x01"s);
  EXPECT_EQ(limitd_request({LimitdMethod::ping, "", "", {}}),
            "\x09\x0a\x01\x31\x12\x00\x1a\x00\x20\x04"s);
  // A negative count has ten bytes.
  EXPECT_EQ(limitd_request({LimitdMethod::take, "ip", "a", -1}).size(), 24u);
}

TEST(LimitdReplies, AreReadForEachMethod) {
  // Conformant, 9 of 10, full at 1425920268.
  const auto take =
      limitd_reply("\x0a\x01\x31\xaa\x06\x0c\x08\x01\x18\x09\x20\x8c\xda\xf7\xa7\x05\x28\x0a"s,
                   LimitdMethod::take);
  ASSERT_TRUE(take.answer) << take.error;
  EXPECT_TRUE(take.answer->conformant);
  EXPECT_FALSE(take.answer->delayed);
  EXPECT_EQ(take.answer->level.remaining, 9);
  EXPECT_EQ(take.answer->level.reset, 1'425'927'436);
  EXPECT_EQ(take.answer->level.limit, 10);
  const auto put =
      limitd_reply("\x0a\x01\x31\xb2\x06\x06\x08\x03\x10\x00\x18\x03"s, LimitdMethod::put);
  ASSERT_TRUE(put.answer) << put.error;
  EXPECT_EQ(put.answer->level.remaining, 3);
  EXPECT_EQ(put.answer->level.limit, 3);
  const auto status = limitd_reply(
      "\x0a\x01\x31\xba\x06\x0b\x0a\x09\x0a\x01x\x10\x02\x18\x00\x20\x03"s, LimitdMethod::status);
  ASSERT_TRUE(status.answer) << status.error;
  ASSERT_EQ(status.answer->items.size(), 1u);
  EXPECT_EQ(status.answer->items[0].instance, "x");
  EXPECT_EQ(status.answer->items[0].remaining, 2);
  EXPECT_TRUE(limitd_reply("\x0a\x01\x31\xc2\x06\x00"s, LimitdMethod::ping).answer);
  EXPECT_EQ(limitd_reply("\x0a\x01\x31\xa2\x06\x02\x08\x01"s, LimitdMethod::get).error,
            "there is no such bucket type");
}

TEST(LimitdReplies, NonsenseIsNone) {
  for (const auto& body :
       {""s, "\x0a"s, "\x0a\x05"s, "\x0b"s, "\x0a\x01\x31"s, "\x0a\x01\x32\xc2\x06\x00"s,
        "\x0a\x01\x31\xc2\x06"s, "\x0a\x01\x31\xaa\x06\x02\x08"s, std::string(20, '\xff')})
    EXPECT_EQ(limitd_reply(body, LimitdMethod::take).error,
              "that is not a reply of limitd's protocol");
}

TEST(LimitdClients, SayWhatIsWrongWithAServer) {
  uint16_t port = 0;
  {
    // To it a frame is a line: the tag of its first field is a line end.
    calls::FakeServer server({"", calls::FakeServer::silence});
    port = server.port();
    const LimitdClient client("127.0.0.1", port, std::chrono::milliseconds(500));
    EXPECT_FALSE(client.ask({}).answer);
    EXPECT_EQ(client.ask({}).error, "no reply in time");
  }
  const auto nobody = LimitdClient("127.0.0.1", port, std::chrono::milliseconds(500)).ask({});
  EXPECT_NE(nobody.error.find("cannot connect to 127.0.0.1"), std::string::npos) << nobody.error;
}

}  // namespace
}  // namespace sluice::limitd
