// What a listener's request_timeout ends in the real server, with an error in each protocol's form,
// and what it does not end.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests::timeouts_test {
namespace {

TcpClient connected(uint16_t port) {
  return std::move(TcpClient::connect(port).value());
}

TEST(Timeouts, ARequestThatDoesNotArriveWholeIsEndedInItsProtocolsWords) {
  Folder folder;
  folder.write("rules.ini", "[default]\ncreditLimit = 100\nresetSeconds = 600\n");
  folder.write("limitd.yaml", "db: { inMemory: true }\nbuckets: { user: { size: 3 } }\n");
  const std::string listen = ", address: \"127.0.0.1:0\", request_timeout: 200ms }\n";
  const std::string config = folder.write(
      "sluice.yaml", "listen:\n  - { protocol: divvy" + listen + "  - { protocol: limitd" + listen +
                         "  - { protocol: droplet" + listen +
                         "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                         "policy:\n  - divvy: rules.ini\n  - limitd: limitd.yaml\n");
  Process process({.arguments = {"serve", "--config", config, "--log-level", "warn"}});
  const uint16_t divvy = await_listening(process, "divvy"),
                 limitd = await_listening(process, "limitd"),
                 droplet = await_listening(process, "droplet"),
                 admin = await_listening(process, "admin");

  TcpClient idle = connected(divvy), line = connected(divvy), frame = connected(limitd),
            head = connected(droplet);
  DropletClient message(droplet), fragments(droplet);
  EXPECT_TRUE(idle.ask("HIT a=b").starts_with("OK true "));
  line.send("HIT a=b\nHIT a=");
  frame.send("\x10\x0a");
  head.send("GET / HTTP/1.1\r\nHost: x\r\n");
  message.send(to_frame(binary_frame, std::string(100, 'x')).substr(0, 50));
  fragments.send(binary_frame, "begun", {.final = false});
  // A frame between two fragments does not begin a new request.
  fragments.send(ping_frame, "");
  EXPECT_EQ(fragments.read(), (Frame{pong_frame, ""}));

  EXPECT_TRUE(line.read_line().value_or("").starts_with("OK true "));
  EXPECT_TRUE(
      line.read_to_end().starts_with("ERR Internal Error: the request did not arrive whole"));
  EXPECT_EQ(frame.read_to_end(), "") << "limitd's protocol has no such error";
  EXPECT_TRUE(head.read_to_end().starts_with("HTTP/1.1 503 "));
  for (DropletClient* client : {&message, &fragments}) {
    const auto answer = client->read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->opcode, close_frame);
    EXPECT_EQ(answer->payload.substr(0, 2), close_with(1013).payload);
  }
  EXPECT_TRUE(idle.ask("HIT a=b").starts_with("OK true ")) << "it has no unfinished request";
  const std::string closed = "sluice_connections_closed_total{protocol=\"droplet\",reason=";
  EXPECT_EQ(sample(admin, closed + "\"request_timeout\"}"), "3");
  EXPECT_EQ(sample(admin, closed + "\"send_timeout\"}"), "0");
  process.signal(15);
  EXPECT_EQ(process.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::timeouts_test
