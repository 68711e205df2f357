// A connection's bytes to requests, and verdicts to reply bytes, against the naive model in
// session_model.h. "The original" is droplet 1.4.0's server.
#include "protocol/droplet/session.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bounds.h"
#include "protocol/droplet/session_model.h"
#include "tests/support/dice.h"

namespace sluice::droplet {
namespace {

using model::bytes_field;
using model::frame;
using model::handshake;
using model::number_field;
using model::sent;
using model::sent_close;
using model::switching;
using model::Transcript;
using model::unhex;

Transcript cut(std::string_view bytes, const std::vector<size_t>& cuts) {
  DropletSession session;
  return model::run(session, bytes, cuts);
}
// Sends `bytes` in one piece and byte by byte; both must give the same.
Transcript whole(const std::string& bytes) {
  const Transcript t = cut(bytes, {});
  EXPECT_EQ(cut(bytes, std::vector<size_t>(bytes.size(), 1)), t);
  return t;
}
// Sends `bytes` after a handshake and compares with the naive model, which has no handshake.
Transcript behind_handshake(const std::string& bytes) {
  const Transcript t = whole(std::string(handshake) + bytes);
  EXPECT_EQ(t, model::expected(bytes));
  EXPECT_TRUE(t.replies.starts_with(switching));
  return t;
}
std::string_view without_handshake(const Transcript& t) {
  return std::string_view(t.replies).substr(switching.size());
}

const std::string message = bytes_field(1, "b") + bytes_field(2, "i") + number_field(10, 9);
const std::string take = frame(2, message);
constexpr model::Shape part{.final = false};

// ---- Requests ----

TEST(DropletSession, ATakeIsARequest) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  std::string bytes =
      bytes_field(1, "bucket") + bytes_field(2, "the id") + number_field(3, 4) + number_field(4, 1);
  for (uint32_t i = 0; i < 6; ++i) bytes += number_field(5 + i, i == 2 ? 0 : 100 + i);
  session.receive(std::string(handshake) + frame(2, bytes), false, requests, out);
  ASSERT_EQ(requests.size(), 1u);  // the handshake is not a request
  EXPECT_TRUE(out.view().starts_with("HTTP/1.1 101 "));
  const request::Request& r = requests.items()[0];
  EXPECT_EQ(r.verb, request::Verb::take_anew);
  EXPECT_EQ(r.cost, 4);
  EXPECT_EQ(r.tag, "the id");
  const auto descriptor = requests.descriptor(r);
  ASSERT_EQ(descriptor.size(), 1u);
  EXPECT_EQ(descriptor[0].key, "bucket");
  EXPECT_EQ(descriptor[0].value, "bucket");
  const auto limits = requests.limits(r);
  ASSERT_EQ(limits.size(), 5u);
  const int64_t quotas[] = {100, 101, 103, 104, 105}, days[] = {0, 0, 1, 7, 30};
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_EQ(limits[i].algorithm, limit::Algorithm::token_bucket);
    EXPECT_EQ(limits[i].quota, quotas[i]);
    EXPECT_EQ(limits[i].burst, quotas[i]);
    const int64_t seconds = i == 0 ? 1 : i == 1 ? 60 : days[i] * 86'400;
    EXPECT_EQ(limits[i].window, base::seconds(seconds));
  }
}

TEST(DropletSession, EveryTypeExceptTakeIsAPeek) {
  for (const uint32_t type : {1u, 2u, 77u, UINT32_MAX}) {
    DropletSession session;
    request::Requests requests;
    base::Buffer out;
    session.receive(
        std::string(handshake) +
            frame(2, message + number_field(3, 7) + number_field(4, 1) + number_field(11, type)),
        false, requests, out);
    ASSERT_EQ(requests.size(), 1u);
    const request::Request& r = requests.items()[0];
    EXPECT_EQ(r.verb, request::Verb::peek);
    EXPECT_EQ(r.cost, 1);
    EXPECT_EQ(requests.limits(r).size(), 0u);
    EXPECT_EQ(requests.descriptor(r)[0].value, "b");
  }
}

TEST(DropletSession, ATagIsAsLongAsATagMayBe) {
  const std::string id(base::bounds::tag_bytes_max + 5, 'x');
  const Transcript t =
      cut(std::string(handshake) + frame(2, bytes_field(1, "b") + bytes_field(2, id)), {});
  ASSERT_EQ(t.requests.size(), 1u);
  EXPECT_EQ(t.requests[0].tag.size(), base::bounds::tag_bytes_max);
}

TEST(DropletSession, OrdinaryNamesThatKillTheOriginal) {
  for (const char* name : {"__proto__", "constructor", "toString", "hasOwnProperty", ""}) {
    const Transcript t = behind_handshake(
        frame(2, bytes_field(1, name) + bytes_field(2, "i") + number_field(10, 5)));
    ASSERT_EQ(t.requests.size(), 1u);
    EXPECT_EQ(t.requests[0].bucket, name);
    EXPECT_FALSE(t.closing);
  }
}

// ---- Replies ----

std::string reply_to(request::Verb verb, const request::Verdict& verdict) {
  DropletSession session;
  request::Request request;
  request.verb = verb;
  base::Buffer out;
  EXPECT_TRUE(session.reply(request, verdict, {}, out));
  return std::string(out.view());
}

TEST(DropletSession, Replies) {
  using request::Verb;
  const std::vector<limit::Decision> two = {{true, 60, 57, {}, {}}, {false, 9, -1, {}, {}}};
  request::Verdict verdict;
  EXPECT_EQ(reply_to(Verb::take, verdict), unhex("82020800"));  // no rule
  EXPECT_EQ(reply_to(Verb::peek, verdict), unhex("82020801"));
  verdict.allowed = true;
  EXPECT_EQ(reply_to(Verb::take, verdict), unhex("82020801"));
  verdict.tightest = &two[1];
  const model::BucketCharge bucket(0b100001, two, verdict);
  EXPECT_EQ(reply_to(Verb::take, verdict), unhex("820f0801103938ffffffffffffffffff01"));
  EXPECT_EQ(reply_to(Verb::peek, verdict), unhex("820f0801103938ffffffffffffffffff01"));
  verdict.allowed = false;
  EXPECT_EQ(reply_to(Verb::take, verdict), unhex("820f0800103938ffffffffffffffffff01"));
  EXPECT_EQ(reply_to(Verb::peek, verdict), unhex("820f0801103938ffffffffffffffffff01"));
  verdict.allowed = true;
  verdict.error = "the counter memory is full";
  EXPECT_EQ(reply_to(Verb::take, verdict), unhex("82020800"));
  EXPECT_EQ(reply_to(Verb::peek, verdict), unhex("82020801"));
}

// ---- The handshake and plain HTTP ----

TEST(DropletSession, FramesGluedToTheHandshake) {
  const Transcript t = behind_handshake(take + frame(9, "p") + take);
  EXPECT_EQ(t.requests.size(), 2u);
  EXPECT_FALSE(t.closing);
  EXPECT_EQ(t.farewell, "");
}

TEST(DropletSession, PlainHttpIsAHealthPage) {
  const Transcript t = whole("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(t.closing);
  EXPECT_EQ(t.replies, "");
  EXPECT_TRUE(t.farewell.starts_with("HTTP/1.1 200 OK\r\n")) << t.farewell;
  EXPECT_NE(t.farewell.find("\r\n\r\nsluice is up."), std::string::npos);
  const Transcript head = whole("HEAD / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.farewell.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.farewell.ends_with("\r\n\r\n"));
}

TEST(DropletSession, HandshakesThatFail) {
  const Transcript bad = whole("HIT a=b\n" + std::string(handshake));
  EXPECT_TRUE(bad.closing);
  EXPECT_TRUE(bad.farewell.starts_with("HTTP/1.1 400 "));
  std::string old(handshake);
  old.replace(old.find("13"), 2, "8");
  const Transcript version = whole(old + take);
  EXPECT_TRUE(version.farewell.starts_with("HTTP/1.1 426 "));
  EXPECT_EQ(version.requests.size(), 0u);
  EXPECT_EQ(version.replies, "");
  EXPECT_TRUE(whole(std::string(9'000, 'x')).farewell.starts_with("HTTP/1.1 431 "));
}

// A connection that offers such an extension ends the original's process.
TEST(DropletSession, ExtensionNamesThatKillTheOriginal) {
  for (const std::string name : {"__proto__", "constructor"}) {
    std::string bytes(handshake);
    bytes.replace(bytes.find("permessage-deflate"), 18, name);
    const Transcript t = whole(bytes + take);
    EXPECT_TRUE(t.replies.starts_with(switching));
    EXPECT_EQ(t.requests.size(), 1u);
  }
}

// ---- Framing ----

TEST(DropletSession, Fragments) {
  for (const std::string& bytes :
       {frame(2, message.substr(0, 3), part) + frame(0, message.substr(3)),
        frame(2, "", part) + frame(0, "", part) + frame(0, message),
        frame(2, message, part) + frame(0, ""),
        frame(2, message.substr(0, 1), {.final = false, .mask = 1}) +
            frame(0, message.substr(1), {.mask = std::nullopt})}) {
    const Transcript t = behind_handshake(bytes + take);
    ASSERT_EQ(t.requests.size(), 2u);
    EXPECT_EQ(t.requests[0], t.requests[1]);
  }
  std::string single;
  for (size_t i = 0; i < message.size(); ++i)
    single += frame(i == 0 ? 2 : 0, message.substr(i, 1), part);
  EXPECT_EQ(behind_handshake(single).requests.size(), 0u);
  EXPECT_EQ(behind_handshake(single + frame(0, "")).requests.size(), 1u);
}

TEST(DropletSession, ControlFramesBetweenFragmentsAreAnsweredAtOnce) {
  const std::string first = frame(2, message.substr(0, 3), part);
  Transcript t = behind_handshake(first + frame(9, "p") + frame(10, "q") + frame(9, ""));
  EXPECT_EQ(without_handshake(t), sent(10, "p") + sent(10, ""));
  t = behind_handshake(first + frame(9, "p") + frame(0, message.substr(3)));
  EXPECT_EQ(t.requests.size(), 1u);
  EXPECT_TRUE(without_handshake(t).starts_with(sent(10, "p")));
  t = behind_handshake(first + frame(8, "") + frame(0, message.substr(3)));
  EXPECT_EQ(t.requests.size(), 0u);
  EXPECT_EQ(t.farewell, sent_close(1000));
}

TEST(DropletSession, PongsKeepTheOrderOfReplies) {
  const Transcript t =
      behind_handshake(take + frame(9, "abc") + take + frame(9, std::string(125, 'x')));
  const std::string_view out = without_handshake(t);
  const size_t pong = out.find(sent(10, "abc"));
  EXPECT_NE(pong, out.npos);
  EXPECT_GT(pong, 0u);
  EXPECT_TRUE(out.ends_with(sent(10, std::string(125, 'x'))));
}

TEST(DropletSession, CloseCodes) {
  struct {
    std::string bytes;
    uint16_t code;
    std::string reason{};
  } const table[] = {
      {frame(1, "hello"), 1000},
      {frame(1, "\xFF"), 1000},
      {frame(1, "a", part) + frame(0, "b"), 1000},
      {frame(2, ""), 1000},
      {frame(2, "\xFF\xFF\xFF"), 1000},
      {frame(2, bytes_field(1, "b")), 1000},
      {frame(2, message, {.reserved = 0x40}), 1002},
      {frame(2, message, {.reserved = 0x20}), 1002},
      {frame(2, message, {.reserved = 0x10}), 1002},
      {frame(9, "", {.reserved = 0x40}), 1002},
      {frame(3, "ab"), 1002},
      {frame(7, "ab"), 1002},
      {frame(11, "ab"), 1002},
      {frame(15, ""), 1002},
      {frame(0, "ab"), 1002},
      {frame(2, "ab", part) + frame(2, "ab"), 1002},
      {frame(2, "ab", part) + frame(1, "ab"), 1002},
      {frame(2, message, part) + frame(0, "") + frame(0, ""), 1002},
      {frame(9, std::string(126, 'x')), 1002},
      {frame(9, "x", part), 1002},
      {frame(8, "", part), 1002},
      {frame(8, std::string("\x03\xE8", 2) + std::string(124, 'x')), 1002},
      {frame(2, message, {.length_bytes = 2}), 1002},
      {frame(2, message, {.length_bytes = 8}), 1002},
      {frame(9, "x", {.length_bytes = 2}), 1002},
      {frame(8, "\x03"), 1002},
      {frame(8, "\x03\xE8\xFF"), 1007},
      {frame(8, ""), 1000},
      {frame(8,
             "\x03\xE8"
             "bye"),
       1000, "bye"},
      {frame(8, "\x0B\xB9"), 3001},
  };
  for (const auto& row : table) {
    const Transcript t = behind_handshake(take + row.bytes + take + frame(9, "x"));
    EXPECT_TRUE(t.closing);
    EXPECT_EQ(t.farewell, sent_close(row.code, row.reason)) << testing::PrintToString(row.bytes);
    // The take before the row is a request, the take after it is not; some rows hold one as well.
    EXPECT_GE(t.requests.size(), 1u);
    EXPECT_LE(t.requests.size(), 2u);
  }
}

TEST(DropletSession, CloseCodesThatMayBeSent) {
  for (unsigned code = 0; code < 65'536; ++code) {
    const std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
    const std::string bytes = frame(8, payload);
    const Transcript t = cut(std::string(handshake) + bytes, {});
    ASSERT_EQ(t, model::expected(bytes)) << code;
  }
}

// At a frame of such a length the original's process ends, or it waits for the payload.
TEST(DropletSession, FrameLengthsThatKillTheOriginal) {
  const auto announced = [](uint64_t size) {
    std::string bytes = "\x82\xFF";
    for (int i = 7; i >= 0; --i) bytes += static_cast<char>(size >> (8 * i) & 0xFF);
    return bytes + "\x01\x02\x03\x04";
  };
  for (const uint64_t size :
       {uint64_t{1} << 31, uint64_t{0xC0000000}, uint64_t{1} << 30, (uint64_t{1} << 31) - 1,
        uint64_t{0xFFFFFF00}, uint64_t{UINT32_MAX}, uint64_t{(1 << 20) + 1}})
    EXPECT_EQ(behind_handshake(announced(size)).farewell, sent_close(1009)) << size;
  for (const uint64_t size : {uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX})
    EXPECT_EQ(behind_handshake(announced(size)).farewell, sent_close(1008)) << size;
  EXPECT_FALSE(behind_handshake(announced(1 << 20)).closing);  // within the bound: waits for it
}

TEST(DropletSession, MessagesHaveABound) {
  constexpr size_t bound = base::bounds::websocket_message_bytes_max;
  const std::string longest = bytes_field(1, std::string(bound - 7, 'x')) + bytes_field(2, "i");
  ASSERT_EQ(longest.size(), bound);
  const auto one_of = [](const std::string& bytes) {
    const Transcript t = cut(std::string(handshake) + bytes, {100, 70'000, 3});
    EXPECT_EQ(t, model::expected(bytes));
    return t;
  };
  EXPECT_EQ(one_of(frame(2, longest)).requests.at(0).bucket.size(), bound - 7);
  const std::string half = longest.substr(0, bound / 2), rest = longest.substr(bound / 2);
  EXPECT_EQ(one_of(frame(2, half, part) + frame(0, rest)).requests.size(), 1u);
  EXPECT_EQ(one_of(frame(2, half, part) + frame(0, rest, part) + frame(9, "") + frame(0, ""))
                .requests.size(),
            1u);
  EXPECT_EQ(one_of(take + frame(2, longest + "x")).farewell, sent_close(1009));
  EXPECT_EQ(one_of(frame(2, half, part) + frame(0, rest + "x")).farewell, sent_close(1009));
  EXPECT_EQ(one_of(frame(2, half, part) + frame(0, rest, part) + frame(0, "x")).farewell,
            sent_close(1009));
}

TEST(DropletSession, UnmaskedFramesAreTaken) {
  EXPECT_EQ(behind_handshake(frame(2, message, {.mask = std::nullopt})).requests.size(), 1u);
}

TEST(DropletSession, LeavesAnUnfinishedFrame) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  session.receive(handshake, false, requests, out);
  requests.clear();
  const std::string bytes = take + take.substr(0, take.size() - 1);
  request::Received received = session.receive(bytes, false, requests, out);
  EXPECT_EQ(received.consumed, take.size());
  EXPECT_EQ(requests.size(), 1u);
  requests.clear();
  received = session.receive(std::string_view(bytes).substr(take.size()), true, requests, out);
  EXPECT_EQ(received.consumed, 0u);
  EXPECT_FALSE(received.closing);
  EXPECT_EQ(requests.size(), 0u);
}

TEST(DropletSession, ReadsOneBatchAtATime) {
  using base::bounds::batch_requests_max;
  std::string in(handshake);
  for (size_t i = 0; i < 2 * batch_requests_max + 5; ++i) in += take;
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  std::vector<size_t> sizes;
  for (std::string_view rest = in; !rest.empty();) {
    requests.clear();
    rest.remove_prefix(session.receive(rest, true, requests, out).consumed);
    sizes.push_back(requests.size());
    for (const request::Request& request : requests.items()) session.reply(request, {}, {}, out);
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{batch_requests_max, batch_requests_max, 5}));
}

// ---- The end ----

TEST(DropletSession, ReadsNothingAfterAClose) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  const std::string in = std::string(handshake) + take + frame(1, "x") + take + frame(9, "p");
  request::Received received = session.receive(in, false, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(received.consumed, in.size());
  EXPECT_EQ(requests.size(), 1u);
  requests.clear();
  received = session.receive(take, false, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(received.consumed, take.size());
  EXPECT_EQ(requests.size(), 0u);
  out.clear();
  session.end(request::Ending::stopping, {}, out);  // a session sends one Close at most
  session.end(request::Ending::refused, "no", out);
  EXPECT_EQ(out.view(), "");
  session.end(request::Ending::announced, {}, out);
  EXPECT_EQ(out.view(), sent_close(1000));
}

TEST(DropletSession, GoodbyeClosesWith1001AfterTheHandshake) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  session.receive(handshake.substr(0, 20), false, requests, out);
  session.end(request::Ending::stopping, {}, out);
  EXPECT_EQ(out.view(), "");
  session.receive(std::string(handshake) + take, false, requests, out);
  ASSERT_EQ(requests.size(), 1u);
  for (const request::Request& request : requests.items()) session.reply(request, {}, {}, out);
  out.clear();
  session.end(request::Ending::stopping, {}, out);
  EXPECT_EQ(out.view(), sent_close(1001));
  requests.clear();
  const request::Received received = session.receive(take, false, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(requests.size(), 0u);
  out.clear();
  session.end(request::Ending::stopping, {}, out);
  EXPECT_EQ(out.view(), "");
}

TEST(DropletSession, RefusesWith503BeforeTheHandshakeAndWith1013After) {
  base::Buffer out;
  DropletSession fresh;
  fresh.end(request::Ending::refused, "too many connections", out);
  EXPECT_TRUE(out.view().starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_TRUE(out.view().ends_with("\r\n\r\ntoo many connections\n"));
  DropletSession open;
  request::Requests requests;
  open.receive(handshake, false, requests, out);
  out.clear();
  open.end(request::Ending::refused, "too much memory", out);
  EXPECT_EQ(out.view(), sent_close(1013, "too much memory"));
  // A reason is cut to 123 bytes at most, between two characters.
  DropletSession other;
  other.receive(handshake, false, requests, out);
  out.clear();
  other.end(request::Ending::refused, std::string(122, 'x') + "\xC3\xA9" + "more", out);
  EXPECT_EQ(out.view(), sent_close(1013, std::string(122, 'x')));
}

// ---- Memory ----

TEST(DropletSession, ReturnsMemoryWhenAllIsAnswered) {
  DropletSession session;
  EXPECT_LE(sizeof session, 256u);
  EXPECT_EQ(session.held_bytes(), 0u);
  request::Requests requests;
  base::Buffer out;
  const auto serve = [&](const std::string& bytes) {
    requests.clear();
    EXPECT_EQ(session.receive(bytes, false, requests, out).consumed, bytes.size());
    const size_t held = session.held_bytes();
    for (const request::Request& request : requests.items()) session.reply(request, {}, {}, out);
    return held;
  };
  serve(std::string(handshake));
  EXPECT_LE(session.held_bytes(), 4096u);
  const std::string big =
      bytes_field(1, std::string(500'000, 'x')) + bytes_field(2, "i") + number_field(10, 1);
  for (const std::string& bytes : {take, frame(2, big), frame(2, big, part) + frame(0, ""),
                                   frame(10, std::string(125, 'x'))}) {
    EXPECT_GE(serve(bytes), std::min<size_t>(bytes.size() / 2, 4096));
    EXPECT_LE(session.held_bytes(), 4096u);
  }
  std::string pongs;  // a pong gets no reply
  for (int i = 0; i < 1'000; ++i) pongs += frame(10, "xxxxxxxx");
  serve(pongs);
  EXPECT_LE(session.held_bytes(), 4096u);
  // Only the fragments of an unfinished message are kept.
  serve(frame(2, big, part));
  EXPECT_GE(session.held_bytes(), big.size());
  EXPECT_LE(session.held_bytes(), big.size() + 4096);
  serve(frame(0, ""));
  EXPECT_LE(session.held_bytes(), 4096u);
}

// A session may receive a batch before the requests of earlier batches are answered. receive()
// reuses the memory behind the views of the batch before, so the held memory does not grow.
TEST(DropletSession, BatchesMayWaitForTheirReplies) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  session.receive(handshake, false, requests, out);
  std::string batch;
  for (int i = 0; i < 50; ++i) batch += take;
  for (int i = 0; i < 100; ++i) {
    requests.clear();
    ASSERT_EQ(session.receive(batch, false, requests, out).consumed, batch.size());
    ASSERT_EQ(requests.size(), 50u);
    EXPECT_EQ(requests.descriptor(requests.items()[49])[0].value, "b");
    EXPECT_LE(session.held_bytes(), std::max<size_t>(batch.size(), 4096));
  }
}

// ---- Any split gives the same ----

class Frames {
 public:
  explicit Frames(uint32_t seed) : dice(seed) {}

  std::string next() {
    switch (dice(40)) {
      case 0:
        return frame(8, dice(2) == 0 ? "" : text(4));
      case 1:
        return frame(1, text(20));
      case 2:
        return frame(2, text(20));
      case 3:
        return frame(static_cast<uint8_t>(dice(16)), text(130), shape());
      case 4:
        return text(6);
      case 5:
      case 6:
        return frame(9, text(125), {.mask = mask()});
      case 7:
        return frame(10, text(125), {.mask = mask()});
    }
    const std::string bytes = request();
    if (dice(4) != 0) return frame(2, bytes, {.mask = mask()});
    std::string out;
    size_t at = 0;
    uint8_t opcode = 2;
    for (int n = dice(5); n > 0; --n, opcode = 0) {
      const size_t size = dice(bytes.size() - at + 1);
      out += frame(opcode, bytes.substr(at, size), {.final = false, .mask = mask()});
      at += size;
      if (dice(3) == 0) out += frame(9, text(9));
    }
    return out + frame(opcode, bytes.substr(at), {.mask = mask()});
  }

  tests::Dice dice;

 private:
  std::optional<uint32_t> mask() {
    return dice(10) == 0 ? std::nullopt : std::optional(dice(UINT32_MAX));
  }
  model::Shape shape() {
    static constexpr int lengths[] = {-1, 2, 8};
    return {dice(2) == 0, static_cast<uint8_t>(dice(4) == 0 ? 16 << dice(3) : 0), mask(),
            lengths[dice(3)]};
  }
  std::string text(size_t longest) {
    std::string out(dice(longest + 1), '\0');
    for (char& c : out) c = static_cast<char>(dice(256));
    return out;
  }
  std::string request() {
    std::string out = bytes_field(1, dice(30) == 0 ? std::string(dice(9'000u), 'x') : text(12)) +
                      bytes_field(2, text(12));
    for (uint32_t i = 3; i <= 11; ++i) {
      if (dice(3) == 0) out += number_field(i, dice(UINT64_MAX) >> dice(64));
    }
    return out;
  }
};

TEST(DropletSession, AnswersLikeTheNaiveModelForAnySplit) {
  Frames frames(1);
  size_t requests = 0, closes = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string behind;
    for (int n = frames.dice(12) + 1; n > 0; --n) behind += frames.next();
    if (frames.dice(3) == 0) behind.resize(behind.size() - frames.dice(behind.size() + 1));
    const std::string bytes = std::string(handshake) + behind;

    const Transcript expected = model::expected(behind);
    requests += expected.requests.size();
    closes += expected.closing;
    ASSERT_EQ(cut(bytes, {}), expected) << round;
    std::vector<size_t> cuts;
    for (size_t left = bytes.size(); left > 0;) {
      cuts.push_back(frames.dice(std::min<size_t>(left, 60)) + 1);
      left -= cuts.back();
    }
    ASSERT_EQ(cut(bytes, cuts), expected) << round;
    if (round % 10 == 0) {
      ASSERT_EQ(cut(bytes, std::vector<size_t>(bytes.size(), 1)), expected) << round;
    }
    if (round % 100 == 0 && bytes.size() < 2'000) {
      for (size_t at = 0; at <= bytes.size(); ++at) ASSERT_EQ(cut(bytes, {at}), expected) << at;
    }
  }
  // The generator made enough of both.
  EXPECT_GT(requests, 6'000u);
  EXPECT_GT(closes, 1'000u);
}

}  // namespace
}  // namespace sluice::droplet
