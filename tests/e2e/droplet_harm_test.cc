// Requests that hang, kill or bloat droplet 1.4.0, or might do so to sluice, against the real
// `sluice droplet`; and the documented first session.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/droplet_client.h"
#include "tests/support/process_stats.h"

namespace sluice::tests {
namespace {

using namespace std::chrono_literals;

// As documented, but with an hour in place of the second where units would return during the test.
TEST(DropletFirstDay, TheDocumentedSession) {
  const DropletServer server;
  DropletClient client = server.client();
  const auto ask = [&](std::string id, Periods limits, std::optional<int64_t> count = {},
                       bool reset = false) {
    return client.ask({"foo", std::move(id), count, reset, std::move(limits), false});
  };
  EXPECT_EQ(ask("a", {{"ls", 100}}), (DropletLeft{true, {{"ls", 99}}}));
  // A lowered limit drops the units beyond it.
  EXPECT_EQ(ask("b", {{"ls", 57}, {"lh", 10}}), (DropletLeft{true, {{"ls", 57}, {"lh", 9}}}));
  // Both periods are debited, all or nothing, and `lh` as well, although it is not named.
  EXPECT_EQ(ask("c", {{"ls", 100}, {"lm", 500}}), (DropletLeft{true, {{"ls", 56}, {"lm", 499}}}));
  EXPECT_EQ(ask("d", {{"lh", 10}, {"lo", 1000}}, 9),
            (DropletLeft{false, {{"lh", -1}, {"lo", 991}}}));
  EXPECT_EQ(ask("e", {{"lh", 10}}, -2), (DropletLeft{true, {{"lh", 10}}}));
  EXPECT_EQ(ask("f", {{"lh", 10}}, 4), (DropletLeft{true, {{"lh", 6}}}));
  EXPECT_EQ(ask("g", {{"lh", 10}}, 0, true), (DropletLeft{true, {{"lh", 10}}}));
  EXPECT_EQ(client.ask({.bucket = "foo", .query = true}), (DropletLeft{true, {{"lh", 10}}}));
}

class DropletHarm : public testing::Test {
 protected:
  // After each test the server answers, and uses little processor time.
  ~DropletHarm() override {
    EXPECT_EQ(witness_.ask({.bucket = "witness", .limits = {{"lo", 10}}}),
              (DropletLeft{true, {{"lo", 8}}}));
    EXPECT_TRUE(server_.client().ask({.bucket = "new", .limits = {{"lo", 10}}}).accept);
    const auto before = processor_time(server_.process().pid());
    std::this_thread::sleep_for(200ms);
    EXPECT_LT(processor_time(server_.process().pid()) - before, 150ms);
  }

  // Sends bytes after a handshake. Returns the frames up to the end of the connection.
  std::vector<Frame> frames_for(std::string_view bytes) {
    DropletClient client = server_.client();
    client.send(bytes);
    std::vector<Frame> frames;
    while (auto frame = client.read()) frames.push_back(*std::move(frame));
    EXPECT_FALSE(client.socket().was_reset());
    return frames;
  }

  DropletServer server_;
  DropletClient witness_ = [this] {
    DropletClient client = server_.client();
    client.ask({.bucket = "witness", .limits = {{"lo", 10}}});
    return client;
  }();
};

// The original writes into the prototype of every object, and dies at the next request.
TEST_F(DropletHarm, BucketNamedProto) {
  DropletClient client = server_.client();
  for (const char* name : {"__proto__", "constructor", "toString", "hasOwnProperty", "valueOf",
                           "isPrototypeOf", "__defineGetter__", "prototype", ""}) {
    const DropletTake take{.bucket = name, .limits = {{"lh", 5}, {"lo", 5}}};
    EXPECT_EQ(client.ask(take), (DropletLeft{true, {{"lh", 4}, {"lo", 4}}})) << name;
    EXPECT_EQ(client.ask({.bucket = name, .query = true}),
              (DropletLeft{true, {{"lh", 4}, {"lo", 4}}}))
        << name;
    EXPECT_EQ(client.ask({.bucket = name, .count = 0, .reset = true, .limits = {{"lo", 5}}}),
              (DropletLeft{true, {{"lo", 5}}}))
        << name;
  }
}

// The original looks the name up among its parsers, and dies.
TEST_F(DropletHarm, ExtensionNamedProto) {
  for (const char* name : {"__proto__", "constructor", "permessage-deflate; __proto__"}) {
    auto client = TcpClient::connect(server_.port());
    ASSERT_TRUE(client);
    const std::string head(DropletClient::handshake);
    client->send(head.substr(0, head.size() - 2) + "Sec-WebSocket-Extensions: " + name +
                 "\r\n\r\n" + to_frame(close_frame, "\x03\xe8"));
    const std::string answer = client->read_to_end();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\x88\x02\x03\xe8")) << answer;
    EXPECT_EQ(answer.find("Extensions"), std::string::npos) << answer;
  }
}

// The original allocates the announced length: from 2^31 bytes on it dies, below that it waits for
// ever.
TEST_F(DropletHarm, FrameLengthBeyondTwoToThe31) {
  for (const char* length :
       {"0000000080000000", "00000000bfffffff", "00000000c0000000", "00000000ffffff00",
        "00000000ffffffff", "000000007fffffff", "0000000040000000", "0000000000100001"}) {
    EXPECT_EQ(frames_for(unhex("82ff" + std::string(length) + "01020304")),
              std::vector<Frame>{close_with(1009)})
        << length;
  }
  EXPECT_EQ(frames_for(unhex("82ff000000010000000001020304")),
            std::vector<Frame>{close_with(1008)});
}

// The original's reader moves backwards, and loops for ever.
TEST_F(DropletHarm, NegativeStringLength) {
  for (const char* message :
       {"0afaffffff0f", "0a036a617212faffffff0f", "0a036a61721200fa01ffffffff0f",
        "0a036a6172120062faffffff0f", "0a036a6172120062fbffffffffffffffff01"})
    EXPECT_EQ(frames_for(to_frame(binary_frame, unhex(message))),
              std::vector<Frame>{close_with(1000)})
        << message;
}

// A message that is not a request closes only its own connection; requests before it are answered.
TEST_F(DropletHarm, AnInvalidMessageClosesOnlyItsConnection) {
  const std::string take =
      to_frame(binary_frame, to_message({.bucket = "jar", .limits = {{"lo", 9}}}));
  const auto frames = frames_for(take + take + to_frame(binary_frame, "") + take);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(read_response(frames[1].payload), (DropletLeft{true, {{"lo", 7}}}));
  EXPECT_EQ(frames[2], close_with(1000));
  EXPECT_EQ(server_.client().ask({.bucket = "jar", .query = true}),
            (DropletLeft{true, {{"lo", 7}}}));
}

// The connection ends even if the peer does not answer the Close.
TEST_F(DropletHarm, CutsOffAClientThatDoesNotAnswerAClose) {
  DropletClient client = server_.client();
  client.send(text_frame, "hello");
  EXPECT_EQ(client.read(), close_with(1000));
  EXPECT_EQ(client.read_to_end(), "");
  // What the client still sends is read and dropped, so that no reset destroys the Close on its
  // way.
  const std::string take =
      to_frame(binary_frame, to_message({.bucket = "cut", .limits = {{"lo", 9}}}));
  EXPECT_TRUE(client.send(take));
  std::this_thread::sleep_for(700ms);
  EXPECT_TRUE(client.send(take)) << "it lingers for a second";
  const auto deadline = soon();
  while (client.send(take) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(client.send(take)) << "and not for ever";
  EXPECT_EQ(server_.client().ask({.bucket = "cut", .query = true}), (DropletLeft{true, {}}));
}

TEST_F(DropletHarm, PlainHttpGetsAPage) {
  for (const char* request : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /x HTTP/1.0\r\n\r\n"}) {
    auto client = TcpClient::connect(server_.port());
    ASSERT_TRUE(client && client->send(request));
    EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 200 OK\r\n"));
  }
}

// Messages with missing fragments hold memory up to a bound, like all unfinished requests: one
// large fragment, or many that each fit the small buffer.
class DropletBounds : public testing::TestWithParam<size_t> {};

TEST_P(DropletBounds, UnfinishedMessagesHoldABoundedMemory) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  DropletServer server({.arguments = {"--workers", "1"}});
  DropletClient other = server.client();
  EXPECT_TRUE(other.ask({.bucket = "jar"}).accept);
  const int64_t before = resident_bytes(server.process().pid());
  const std::string fragment(GetParam(), 'x');
  std::string unfinished = to_frame(binary_frame, fragment, {.final = false});
  for (size_t sent = fragment.size(); sent < 900'000; sent += fragment.size())
    unfinished += to_frame(0, fragment, {.final = false});
  std::vector<DropletClient> clients;
  for (int i = 0; i < 150; ++i) {
    clients.push_back(server.client());
    auto& client = clients.back();
    client.send(unfinished);
    client.send(ping_frame, "");
    EXPECT_EQ(client.read(), (Frame{pong_frame, ""})) << "there is room for another one";
  }
  // The oldest clients were closed to make that room.
  for (size_t i = 0; i < 50; ++i) {
    const auto answer = clients[i].read();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->opcode, close_frame);
    EXPECT_EQ(answer->payload.substr(0, 2), close_with(1013).payload);
    EXPECT_NE(answer->payload.find("too much memory is held"), std::string::npos);
  }
  EXPECT_LT(resident_bytes(server.process().pid()) - before, 100 << 20);
  EXPECT_TRUE(other.ask({.bucket = "jar"}).accept);
  clients.back().send(ping_frame, "");
  EXPECT_EQ(clients.back().read(), (Frame{pong_frame, ""})) << "the youngest is still there";
}

INSTANTIATE_TEST_SUITE_P(Fragments, DropletBounds, testing::Values(900'000, 1'000));

// A connection keeps a small buffer and the frame reader, however long the messages were.
TEST(DropletMemory, AnIdleConnectionCostsAtMostTwelveKibibytes) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps memory";
  constexpr size_t count = 2000;
  if (!allow_open_files(count + 100)) GTEST_SKIP() << "too few descriptors are allowed";
  DropletServer server;
  const DropletTake take{.bucket = "jar", .limits = {{"lo", 1'000'000}}};
  const DropletTake longer{.bucket = "jar", .id = std::string(200'000, 'x')};
  const auto use = [&] {
    DropletClient client = server.client();
    EXPECT_TRUE(client.ask(take).accept);
    EXPECT_TRUE(client.ask(longer).accept);
    EXPECT_TRUE(client.ask(take).accept);
    return client;
  };
  for (int i = 0; i < 20; ++i) use().socket().abort();  // allocates the workers' own buffers
  const pid_t pid = server.process().pid();
  const int64_t before = resident_bytes(pid);
  std::vector<DropletClient> clients;
  for (size_t i = 0; i < count; ++i) clients.push_back(use());
  const int64_t each = (resident_bytes(pid) - before) / static_cast<int64_t>(count);
  RecordProperty("bytes_per_connection", static_cast<int>(each));
  EXPECT_LE(each, 12 << 10);
  EXPECT_TRUE(clients.front().ask(take).accept);
  EXPECT_TRUE(clients.back().ask(take).accept);
  for (auto& client : clients) client.socket().abort();
}

}  // namespace
}  // namespace sluice::tests
