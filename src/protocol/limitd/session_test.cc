// A connection's bytes to requests, and verdicts to reply bytes, against the naive model in
// session_model.h. "The original" is limitd 7.0.1's server.
#include "protocol/limitd/session.h"

#include <gtest/gtest.h>

#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "protocol/limitd/session_model.h"
#include "tests/support/dice.h"

namespace sluice::limitd {
namespace {

using base::bounds::batch_requests_max;
using base::bounds::frame_bytes_max;
using model::frame;
using model::number;
using model::Requested;
using model::text;
using model::Transcript;
using model::varint;
using request::Verb;

constexpr uint64_t take = 0, wait = 1, put = 2, status = 3, ping = 4, get = 5;

Transcript whole(std::string_view bytes) {
  LimitdSession session;
  return model::run(session, bytes, {});
}

Transcript cut(std::string_view bytes, const std::vector<size_t>& cuts) {
  LimitdSession session;
  return model::run(session, bytes, cuts);
}

std::string asked(uint64_t method, const std::string& rest = "") {
  return frame(text(1, "7") + text(2, "ip") + text(3, "k") + number(4, method) + rest);
}
std::string count(int64_t n) {
  return number(5, static_cast<uint64_t>(n));
}
const std::string all = number(6, 1), silent = number(7, 1);

// ---- Requests ----

TEST(LimitdSession, MethodsAsVerbs) {
  const model::Pairs both{{"type", "ip"}, {"key", "k"}};
  const struct {
    std::string frame;
    Requested requested;
  } table[] = {
      {asked(take), {Verb::take, 1, both, 0}},
      {asked(take, count(4)), {Verb::take, 4, both, 0}},
      {asked(take, count(0)), {Verb::take, 1, both, 0}},
      {asked(take, count(INT32_MAX)), {Verb::take, INT32_MAX, both, 0}},
      {asked(take, count(INT64_MAX)), {Verb::take, INT64_MAX, both, 0}},
      {asked(take, all), {Verb::take, 1, both, 0}},
      {asked(take, silent), {Verb::take, 1, both, 0}},
      {asked(wait), {Verb::wait, 1, both, 0}},
      {asked(wait, count(0)), {Verb::wait, 1, both, 0}},
      {asked(wait, count(3)), {Verb::wait, 3, both, 0}},
      // A count below 0 is read as more units than any bucket has; a WAIT for it does not wait.
      {asked(take, count(-1)), {Verb::take, INT64_MAX, both, 0}},
      {asked(wait, count(-1)), {Verb::take, INT64_MAX, both, 0}},
      {asked(wait, count(INT64_MIN)), {Verb::take, INT64_MAX, both, 0}},
      {asked(put), {Verb::put, 1, both, 0}},
      {asked(put, count(2)), {Verb::put, 2, both, 0}},
      {asked(put, count(0)), {Verb::reset, 0, both, 0}},
      {asked(put, all), {Verb::reset, 1, both, 0}},
      {asked(put, all + count(2)), {Verb::reset, 2, both, 0}},
      {asked(put, count(-2)), {Verb::put, 0, both, 0}},
      {asked(get, count(9)), {Verb::peek, 1, both, 0}},
      {asked(status, count(9) + all), {Verb::list, 1, both, 0}},
      {asked(ping), {Verb::noop, 1, {}, 0}},
      {frame(text(2, "ip") + number(4, take)), {Verb::take, 1, {{"type", "ip"}, {"key", ""}}, 0}},
      {frame(text(2, "ip") + text(3, std::string("\xFF\xFE\0", 3))),
       {Verb::take, 1, {{"type", "ip"}, {"key", std::string("\xFF\xFE\0", 3)}}, 0}},
  };
  for (const auto& row : table) {
    const Transcript t = whole(row.frame);
    ASSERT_EQ(t.requests.size(), 1u);
    EXPECT_FALSE(t.closing);
    EXPECT_TRUE(t.requests[0] == row.requested) << testing::PrintToString(row.frame);
  }
}

// ---- What kills the original ----

struct Killer {
  const char* name;
  std::string bytes;
};
void PrintTo(const Killer& killer, std::ostream* out) {
  *out << killer.name;
}

const Killer killers[] = {
    {"method_6", asked(6)},
    {"method_99", asked(99)},
    {"method_absent_and_no_type", frame(text(1, "123") + text(3, "k"))},
    {"method_absent_and_empty_type", frame(text(1, "123") + text(2, ""))},
    {"id_alone", frame(text(1, "123"))},
    {"a_response_message", frame(text(1, "1") + text(101, number(1, 1) + number(3, 9)))},
    {"string_longer_than_the_frame", frame(text(2, "ip") + number(4, take) + "\x1A\x20" + "k")},
    {"wire_type_3", frame(text(2, "ip") + number(4, take) + "\x4B")},
    {"wire_type_4", frame(text(2, "ip") + number(4, take) + "\x4C")},
    {"wire_type_3_and_4", frame(text(2, "ip") + number(4, take) + "\x4B\x4C")},
    {"wire_type_6", frame(text(2, "ip") + number(4, take) + "\x4E")},
    {"wire_type_7", frame(text(2, "ip") + number(4, take) + "\x4F")},
    {"varint_of_11_bytes", frame(text(2, "ip") + "\x20" + std::string(10, '\xFF') + "\x01")},
    {"key_of_11_bytes", frame(text(2, "ip") + std::string(10, '\xA0') + "\x01\x01")},
    {"varint_cut_off", frame(text(2, "ip") + "\x20\x80")},
    {"fixed32_cut_off", frame(text(2, "ip") + "\x4D" + "123")},
    {"fixed64_cut_off", frame(text(2, "ip") + "\x49" + "1234567")},
    {"unknown_string_cut_off", frame(text(2, "ip") + "\x4A\x05" + "1234")},
    {"string_of_2_GiB", frame(text(2, "ip") + "\x1A\x80\x80\x80\x80\x08")},
    {"string_of_2_to_the_64", frame(text(2, "ip") + "\x1A" + std::string(9, '\xFF') + "\x01")},
    {"length_of_102_bytes", std::string(101, '\x80') + std::string(1, '\0')},
    {"length_of_6_bytes", std::string(5, '\x80') + std::string(1, '\0')},
    {"frame_of_2_GiB", std::string("\x80\x80\x80\x80\x08", 5)},
    {"frame_of_1_GiB", std::string("\x80\x80\x80\x80\x04", 5)},
    {"frame_past_the_bound", varint(frame_bytes_max + 1)},
    {"http_get", "GET / HTTP/1.1\r\nHost: 127.0.0.1:9231\r\nUser-Agent: x\r\n\r\n"},
    {"http_get_shorter_than_its_frame", "GET / HTTP/1.0\r\n\r\n"},
    {"http_head", "HEAD / HTTP/1.0\r\n\r\n"},
    {"http_post", "POST /take HTTP/1.1\r\n\r\n"},
    {"http_put", "PUT / HTTP/1.1\r\n\r\n"},
    {"http_delete", "DELETE / HTTP/1.1\r\n\r\n"},
    {"http_options", "OPTIONS * HTTP/1.1\r\n\r\n"},
    {"http_patch", "PATCH / HTTP/1.1\r\n\r\n"},
    {"http_connect", "CONNECT a:1 HTTP/1.1\r\n\r\n"},
    {"http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {"tls", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11) + std::string(99, 'r')},
};

class LimitdKiller : public testing::TestWithParam<Killer> {};
INSTANTIATE_TEST_SUITE_P(LimitdSession, LimitdKiller, testing::ValuesIn(killers),
                         [](const auto& test) { return std::string(test.param.name); });

// Bytes that end the original's process only close their connection here. The requests before them
// are answered, and the bytes after them are ignored.
TEST_P(LimitdKiller, ClosesOnlyItsConnection) {
  const std::string& bytes = GetParam().bytes;
  const Transcript alone = whole(bytes);
  EXPECT_TRUE(alone.closing);
  EXPECT_EQ(alone.requests.size(), 0u);
  EXPECT_EQ(cut(bytes, std::vector<size_t>(bytes.size(), 1)), alone);
  // HTTP is recognized only at the beginning of a connection.
  if (std::string_view(GetParam().name).starts_with("http")) return;

  const Transcript between = whole(asked(take) + asked(get) + bytes + asked(put));
  EXPECT_TRUE(between.closing);
  EXPECT_EQ(between.requests.size(), 2u);
  EXPECT_EQ(between.replies, whole(asked(take) + asked(get)).replies);

  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  const std::string in = asked(take) + bytes + asked(put);
  request::Received received = session.receive(in, false, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(received.consumed, in.size());
  EXPECT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests.open_entries(), 2u);  // those of the take; the bytes after it left none
  received = session.receive(asked(take), true, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(requests.size(), 1u);
}

// These names make the original fail; here they are names like any other.
TEST(LimitdSession, NamesOfJavaScriptsObjectsAreNames) {
  for (const char* name :
       {"constructor", "toString", "__proto__", "hasOwnProperty", "valueOf", "prototype"}) {
    const Transcript t = whole(frame(text(2, name) + text(3, "k") + number(4, take)) +
                               frame(text(2, "ip") + text(3, name) + number(4, take)));
    ASSERT_EQ(t.requests.size(), 2u);
    EXPECT_FALSE(t.closing);
    EXPECT_EQ(t.requests[0].descriptor[0].second, name);
    EXPECT_EQ(t.requests[1].descriptor[1].second, name);
  }
}

TEST(LimitdSession, AnEmptyKeyIsAKey) {
  for (uint64_t method = 0; method < 6; ++method) {
    const Transcript t = whole(frame(text(2, "fixed") + text(3, "") + number(4, method)));
    EXPECT_EQ(t.requests.size(), 1u);
    EXPECT_FALSE(t.closing);
  }
}

// ---- Framing ----

TEST(LimitdSession, LengthsNeedNotBeMinimal) {
  const std::string body = text(2, "ip") + number(4, take);
  for (size_t bytes = 1; bytes <= 5; ++bytes) {
    std::string prefix(1, static_cast<char>(body.size()));
    while (prefix.size() < bytes) {
      prefix.back() = static_cast<char>(prefix.back() | 0x80);
      prefix.push_back('\0');
    }
    const Transcript t = whole(prefix + body + asked(ping));
    EXPECT_EQ(t.requests.size(), 2u) << bytes;
    EXPECT_FALSE(t.closing);
  }
  // The length 0 may also be written in 1 to 5 bytes; such frames are skipped.
  EXPECT_EQ(whole(std::string("\x00\x80\x00\x80\x80\x80\x80\x00", 8) + asked(ping)).requests.size(),
            1u);
}

// The session looks for HTTP at the beginning of a connection, not at the beginning of each piece.
TEST(LimitdSession, AcceptsALaterFrameThatStartsLikeHttp) {
  const std::string like_get =
      std::string("GET xx") + text(2, "ip") + text(9, std::string(60, 'x'));
  ASSERT_EQ(like_get.size(), 72u);
  for (const std::string& first : {std::string(1, '\0'), std::string(4, '\0'), asked(ping)}) {
    const Transcript t = whole(first + like_get);
    EXPECT_FALSE(t.closing);
    EXPECT_EQ(t.requests.size(), first.size() > 4 ? 2u : 1u);
    EXPECT_EQ(cut(first + like_get, {first.size()}), t);
  }
  EXPECT_TRUE(whole(like_get).closing);
}

TEST(LimitdSession, FramesHaveABound) {
  for (const size_t over : {0u, 1u}) {
    const std::string head = text(2, "ip") + number(4, take), key(frame_bytes_max, 'k');
    const size_t room = frame_bytes_max - head.size() - 4 + over;
    const std::string body = head + text(3, key.substr(0, room));
    ASSERT_EQ(body.size(), frame_bytes_max + over);
    const Transcript t = whole(frame(body) + asked(ping));
    EXPECT_EQ(t.closing, over == 1);
    EXPECT_EQ(t.requests.size(), over == 1 ? 0u : 2u);
    EXPECT_EQ(cut(frame(body) + asked(ping), {1, 1, 1, 30'000, 30'000}), t);
  }
}

TEST(LimitdSession, LeavesAnUnfinishedFrame) {
  const std::string first = asked(take), second = asked(put);
  for (size_t size = 0; size < second.size(); ++size) {
    LimitdSession session;
    request::Requests requests;
    base::Buffer out;
    const std::string in = first + second.substr(0, size);
    const request::Received received = session.receive(in, true, requests, out);
    EXPECT_EQ(received.consumed, first.size());
    EXPECT_FALSE(received.closing);
    EXPECT_EQ(requests.size(), 1u);
  }
}

TEST(LimitdSession, ReadsOneBatchAtATime) {
  std::string in;
  for (size_t i = 0; i < 2 * batch_requests_max + 5; ++i)
    in += asked(take) + std::string(i % 3, '\0');
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  std::vector<size_t> sizes;
  for (std::string_view rest = in; !rest.empty();) {
    requests.clear();
    rest.remove_prefix(session.receive(rest, true, requests, out).consumed);
    sizes.push_back(requests.size());
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{batch_requests_max, batch_requests_max, 5}));
  // Requests that other connections have added do not make the batch smaller.
  session.receive(in, false, requests, out);
  EXPECT_EQ(requests.size(), batch_requests_max + 5);
}

TEST(LimitdSession, EntriesPointIntoTheInput) {
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  const std::string in = asked(take) + asked(status);
  session.receive(in, false, requests, out);
  ASSERT_EQ(requests.size(), 2u);
  const auto inside = [&](std::string_view view) {
    return view.data() >= in.data() && view.data() + view.size() <= in.data() + in.size();
  };
  for (const request::Request& r : requests.items()) {
    for (const request::Entry& e : requests.descriptor(r)) EXPECT_TRUE(inside(e.value));
    EXPECT_TRUE(inside(r.tag));
  }
  EXPECT_EQ(requests.descriptor(requests.items()[1]).size(), 2u);
}

TEST(LimitdSession, ClosesAndRefusesWithoutAMessage) {
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  session.end(request::Ending::refused, "too many connections", out);
  session.end(request::Ending::announced, {}, out);
  session.receive("GET / HTTP/1.1\r\n\r\n", false, requests, out);
  session.end(request::Ending::announced, {}, out);
  EXPECT_TRUE(out.empty());
}

TEST(LimitdSession, IsSmallWhenIdle) {
  EXPECT_LE(sizeof(LimitdSession), 16u);
}

// ---- Replies ----

std::string reply_to(const std::string& bytes, const request::Verdict& verdict) {
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  session.receive(bytes, false, requests, out);
  EXPECT_EQ(requests.size(), 1u);
  EXPECT_TRUE(session.reply(requests.items()[0], verdict, {1'000'000'000'000'000}, out));
  return std::string(out.view());
}

constexpr uint64_t now_s = 1'000'000'000;

std::string level(uint32_t field, uint64_t remaining, uint64_t reset, uint64_t limit) {
  return number(field, remaining) + number(field + 1, reset) + number(field + 2, limit);
}
std::string taken(bool conformant, uint64_t remaining, uint64_t reset, uint64_t limit) {
  return frame(text(1, "7") + text(101, number(1, conformant) + level(3, remaining, reset, limit)));
}
std::string put_back(uint64_t remaining, uint64_t reset, uint64_t limit) {
  return frame(text(1, "7") + text(102, level(1, remaining, reset, limit)));
}
std::string got(uint64_t remaining, uint64_t reset, uint64_t limit) {
  return frame(text(1, "7") + text(105, level(1, remaining, reset, limit)));
}

request::Verdict granted(const limit::Decision& d) {
  request::Verdict v;
  v.allowed = v.matched = true;
  v.tightest = &d;
  return v;
}

TEST(LimitdSession, ResetSaysWhenTheBucketIsFull) {
  limit::Decision d{true, 5, 3, base::seconds(1'440), {}};
  request::Verdict v = granted(d);
  EXPECT_EQ(reply_to(asked(take), v), taken(true, 3, now_s + 1'440, 5));
  EXPECT_EQ(reply_to(asked(put), v), put_back(3, now_s + 1'440, 5));
  EXPECT_EQ(reply_to(asked(get), v), got(3, now_s + 1'440, 5));
  // The reset of a PUT is 0 if it fills the bucket: if its count does (even if waiting requests
  // took units at once), or if the bucket is full now.
  EXPECT_EQ(reply_to(asked(put, all), v), put_back(3, 0, 5));
  EXPECT_EQ(reply_to(asked(put, count(0)), v), put_back(3, 0, 5));
  EXPECT_EQ(reply_to(asked(put, count(5)), v), put_back(3, 0, 5));
  EXPECT_EQ(reply_to(asked(put, count(4)), v), put_back(3, now_s + 1'440, 5));
  EXPECT_EQ(reply_to(asked(put, count(-4)), v), put_back(3, now_s + 1'440, 5));
  d.remaining = 5;
  d.reset_after = {};
  EXPECT_EQ(reply_to(asked(put, count(4)), v), put_back(5, 0, 5));
  EXPECT_EQ(reply_to(asked(get), v), got(5, now_s, 5));
  v.allowed = false;  // count above the size
  EXPECT_EQ(reply_to(asked(take, count(6)), v), taken(false, 5, now_s, 5));
}

TEST(LimitdSession, FixedBucketsHaveNoReset) {
  const limit::Decision d{true, 5, 3, base::never, {}};
  request::Verdict v = granted(d);
  EXPECT_EQ(reply_to(asked(take), v), taken(true, 3, 0, 5));
  EXPECT_EQ(reply_to(asked(put), v), put_back(3, 0, 5));
  EXPECT_EQ(reply_to(asked(get), v), got(3, 0, 5));
}

TEST(LimitdSession, TheResetOfUnlimitedBucketsIsNow) {
  limit::Decision d{true, 100, 100, {}, {}};
  request::Verdict v = granted(d);
  constexpr limit::Limit unlimited{limit::Algorithm::unlimited, 100, {}};
  v.limit = &unlimited;
  for (const bool has_rate : {true, false}) {
    if (!has_rate) d.reset_after = base::never;
    EXPECT_EQ(reply_to(asked(take), v), taken(true, 100, now_s, 100));
    EXPECT_EQ(reply_to(asked(wait), v), taken(true, 100, now_s, 100));
    EXPECT_EQ(reply_to(asked(put, all), v), put_back(100, now_s, 100));
    EXPECT_EQ(reply_to(asked(get), v), got(100, has_rate ? now_s : 0, 100));
  }
}

TEST(LimitdSession, ABucketOfSizeZeroIsAllZeros) {
  const limit::Decision deny{false, 0, 0, base::never, base::never};
  for (const bool counted : {false, true}) {
    request::Verdict v;
    constexpr static limit::Limit never{};
    v.limit = counted ? nullptr : &never;
    v.tightest = &deny;
    v.matched = true;
    EXPECT_EQ(reply_to(asked(take), v), taken(false, 0, 0, 0));
    EXPECT_EQ(reply_to(asked(put), v), put_back(0, 0, 0));
    EXPECT_EQ(reply_to(asked(put, all), v), put_back(0, 0, 0));
    EXPECT_EQ(reply_to(asked(get), v), got(0, 0, 0));
  }
}

TEST(LimitdSession, AnUndecidedTakeIsNotConformant) {
  const limit::Decision d{true, 5, 3, base::never, {}};
  const std::vector<request::Listed> listed(1);
  request::Verdict v;
  v.error = "out of memory";
  for (const bool filled : {false, true}) {
    if (filled) {
      v.allowed = true;
      v.waited = base::seconds(1);
      v.tightest = &d;
      v.matched = true;
      v.listed = listed;
    }
    EXPECT_EQ(reply_to(asked(take), v), taken(false, 0, 0, 0));
    EXPECT_EQ(reply_to(asked(wait), v), taken(false, 0, 0, 0));
    EXPECT_EQ(reply_to(asked(put), v), put_back(0, 0, 0));
    EXPECT_EQ(reply_to(asked(get), v), got(0, 0, 0));
    EXPECT_EQ(reply_to(asked(status), v), frame(text(1, "7") + text(103, "")));
    EXPECT_EQ(reply_to(asked(ping), v), frame(text(1, "7") + text(104, "")));
    EXPECT_EQ(reply_to(asked(take, silent), v), "");
  }
}

TEST(LimitdSession, SkipResponseIsHonoredExceptForPing) {
  const limit::Decision d{true, 5, 3, base::never, {}};
  for (const limit::Decision* tightest : {&d, static_cast<const limit::Decision*>(nullptr)}) {
    request::Verdict v;
    v.tightest = tightest;
    v.matched = true;
    for (const uint64_t method : {take, wait, put, status, get})
      EXPECT_EQ(reply_to(asked(method, silent), v), "");
    EXPECT_EQ(reply_to(asked(ping, silent), v), frame(text(1, "7") + text(104, "")));
  }
}

TEST(LimitdSession, UnknownTypes) {
  for (const uint64_t method : {take, wait, put, status, get})
    EXPECT_EQ(reply_to(asked(method), {}), frame(text(1, "7") + text(100, number(1, 1))));
}

TEST(LimitdSession, WritesTheCountersOfAList) {
  const limit::Decision known{};
  std::vector<request::Listed> listed{{"", {true, 3, -1, base::never, {}}},
                                      {"sd", {true, 5, 3, base::seconds(1'440), {}}},
                                      {"se", {true, 5, 5, {}, {}}}};
  request::Verdict v;
  v.tightest = &known;
  v.matched = true;
  EXPECT_EQ(reply_to(asked(status), v), frame(text(1, "7") + text(103, "")));
  v.listed = listed;
  const std::string items = text(1, level(2, UINT64_MAX, 0, 3)) +
                            text(1, text(1, "sd") + level(2, 3, now_s + 1'440, 5)) +
                            text(1, text(1, "se") + level(2, 5, now_s, 5));
  EXPECT_EQ(reply_to(asked(status), v), frame(text(1, "7") + text(103, items)));
  v.tightest = nullptr;
  EXPECT_EQ(reply_to(asked(status), v), frame(text(1, "7") + text(103, items)));
}

TEST(LimitdSession, RepliesRepeatTheIdsOfRequests) {
  const auto pong = [](const std::string& id) { return frame(id + text(104, "")); };
  const auto id_of = [&](const std::string& fields) {
    return reply_to(frame(fields + number(4, ping)), {});
  };
  EXPECT_EQ(id_of(""), pong(text(1, "")));
  EXPECT_EQ(id_of(text(1, "")), pong(text(1, "")));
  EXPECT_EQ(id_of(text(1,
                       "\xFF"
                       "1")),
            pong(text(1,
                      "\xFF"
                      "1")));
  const std::string longest(frame_bytes_max - 6, 'i');
  EXPECT_EQ(id_of(text(1, longest)), pong(text(1, longest)));
  for (const uint64_t n :
       {uint64_t{0}, uint64_t{7}, uint64_t{300}, uint64_t{1} << 53, uint64_t{1} << 63, UINT64_MAX})
    EXPECT_EQ(id_of(number(20, n)), pong(number(20, n)));
  EXPECT_EQ(id_of(text(1, "a") + number(20, 5)), pong(number(20, 5)));
  EXPECT_EQ(id_of(number(20, 5) + text(1, "a")), pong(text(1, "a")));
  EXPECT_EQ(id_of(text(1, "a") + text(1, "b")), pong(text(1, "b")));
}

TEST(LimitdSession, TheExampleOfTheDocumentation) {
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  const std::string_view in(
      "\x13\x0A\x01\x31\x12\x02ip\x1A\x08"
      "10.0.0.7\x20\x00"
      "\x05\xA0\x01\x07\x20\x04",
      26);
  EXPECT_EQ(session.receive(in, false, requests, out).consumed, in.size());
  ASSERT_EQ(requests.size(), 2u);
  const limit::Decision d{true, 10, 9, base::milliseconds(200), {}};
  request::Verdict v = granted(d);
  const base::Time now{1'425'920'267'000'000};
  session.reply(requests.items()[0], v, now, out);
  EXPECT_EQ(
      out.view(),
      std::string_view(
          "\x12\x0A\x01\x31\xAA\x06\x0C\x08\x01\x18\x09\x20\x8C\xA2\xF7\xA7\x05\x28\x0A", 19));
  out.clear();
  session.reply(requests.items()[1], {}, now, out);
  EXPECT_EQ(out.view(), std::string_view("\x06\xA0\x01\x07\xC2\x06\x00", 7));
}

// ---- Any split gives the same ----

class Frames {
 public:
  explicit Frames(uint32_t seed) : dice_(seed) {}

  // Usually a frame as clients send it, sometimes other bytes.
  std::string next() {
    switch (dice_(40)) {
      case 0:
        return std::string(dice_(3u), '\0');
      case 1:
        return killers[dice_(std::size(killers))].bytes;
      default:
        break;
    }
    std::string body = dice_(2) ? text(1, word()) : number(20, dice_(UINT64_MAX) >> dice_(64));
    if (dice_(10) == 0) body.clear();
    std::vector<std::string> fields{text(2, "t" + word()), text(3, word())};
    if (dice_(8)) fields.push_back(number(4, dice_(6u)));
    if (dice_(3) == 0) fields.push_back(count(dice_(2) ? dice_(12) - 3 : 1'000'000'007));
    if (dice_(6) == 0) fields.push_back(number(6, dice_(2u)));
    if (dice_(6) == 0) fields.push_back(number(7, dice_(2u)));
    if (dice_(9) == 0) fields.push_back(text(9, word()));
    for (size_t i = fields.size(); i > 1; --i) std::swap(fields[i - 1], fields[dice_(i)]);
    for (const std::string& field : fields) body += field;
    return frame(body);
  }
  size_t below(size_t n) { return dice_(n); }

 private:
  std::string word() { return std::string(dice_(dice_(30) == 0 ? 400u : 9u), 'w'); }

  tests::Dice dice_;
};

TEST(LimitdSession, AnswersLikeTheNaiveModelForAnySplit) {
  Frames frames(1);
  size_t requests = 0, closed = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string bytes;
    for (size_t n = frames.below(12) + 1; n > 0; --n) bytes += frames.next();
    if (frames.below(3) == 0) bytes.resize(bytes.size() - frames.below(bytes.size() + 1));
    if (frames.below(9) == 0 && !bytes.empty())
      bytes[frames.below(bytes.size())] ^= static_cast<char>(1 << frames.below(8));

    const Transcript expected = model::expected(bytes);
    requests += expected.requests.size();
    closed += expected.closing;
    ASSERT_EQ(whole(bytes), expected) << testing::PrintToString(bytes);
    ASSERT_EQ(cut(bytes, std::vector<size_t>(bytes.size(), 1)), expected);
    std::vector<size_t> cuts;
    for (size_t left = bytes.size(); left > 0;) {
      cuts.push_back(frames.below(std::min<size_t>(left, 40)) + 1);
      left -= cuts.back();
    }
    ASSERT_EQ(cut(bytes, cuts), expected);
    if (round % 20 == 0) {
      for (size_t at = 0; at <= bytes.size(); ++at) ASSERT_EQ(cut(bytes, {at}), expected) << at;
    }
  }
  // The generator made enough of both.
  EXPECT_GT(requests, 10'000u);
  EXPECT_GT(closed, 300u);
}

}  // namespace
}  // namespace sluice::limitd
