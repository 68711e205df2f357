// Reading limitd's requests and writing its replies, against the code that protoc generates and the
// naive model in session_model.h. "The original" is limitd 7.0.1's server.
#include "protocol/limitd/message.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <limitd.pb.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "protocol/limitd/session_model.h"
#include "tests/support/dice.h"

namespace sluice::limitd {
namespace {

using model::number;
using model::text;
using model::varint;
using sluice::limitd::Response;
using tests::Dice;

constexpr base::Time now{1'425'920'267'000'000};

// The request that protoc's code reads; nothing if it refuses.
std::optional<limitd::Request> by_protoc(const std::string& body) {
  limitd::Request r;
  if (!r.ParseFromString(body)) return std::nullopt;
  return r;
}

std::optional<LimitdRequest> by_us(std::string_view body) {
  LimitdRequest r;
  if (!read_limitd_request(body, r)) return std::nullopt;
  return r;
}

uint64_t number_of(std::string_view id) {
  std::string bytes(id);
  return model::take_varint(bytes);
}

// ---- Requests ----

// What protoc's code writes is read with the same meaning.
TEST(LimitdMessage, ReadsWhatProtocWrites) {
  const google::protobuf::LogSilencer hush;  // it would log that ids and keys are not UTF-8
  Dice dice(1);
  for (int round = 0; round < 20'000; ++round) {
    limitd::Request r;
    const auto word = [&] {
      std::string out(dice(dice(20) == 0 ? 300u : 12u), '\0');
      for (char& c : out) c = static_cast<char>(dice(256));
      return out;
    };
    // One id at most, as a text or a number. Messages with both are tested below.
    if (const int id = dice(3); id == 0) {
      r.set_id(word());
    } else if (id == 1) {
      r.set_id2(static_cast<int64_t>(dice(UINT64_MAX) >> dice(64)) * (dice(2) ? 1 : -1));
    }
    r.set_type("t" + word());
    if (dice(5)) r.set_key(word());
    if (dice(5)) r.set_method(static_cast<limitd::Request::Method>(dice(6)));
    if (dice(2)) r.set_count(static_cast<int32_t>(dice(UINT32_MAX)) >> dice(32));
    if (dice(2)) r.set_all(dice(2));
    if (dice(2)) r.set_skip_response(dice(2));

    const std::string body = r.SerializeAsString();
    const auto read = by_us(body);
    ASSERT_TRUE(read) << r.ShortDebugString();
    ASSERT_EQ(read->id.numeric, r.has_id2());
    if (r.has_id2()) {
      ASSERT_EQ(number_of(read->id.bytes), static_cast<uint64_t>(r.id2()));
    } else {
      ASSERT_EQ(read->id.bytes, r.id());
    }
    ASSERT_EQ(read->type, r.type());
    ASSERT_EQ(read->key, r.key());
    ASSERT_EQ(static_cast<int>(read->method), static_cast<int>(r.method()));
    ASSERT_EQ(read->count, r.count());
    ASSERT_EQ(read->all, r.all());
    ASSERT_EQ(read->silent, r.skip_response());
  }
}

// A field of random number, wire type and content, mostly well-formed.
std::string random_field(Dice& dice) {
  static constexpr uint32_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 19, 20, 21, 2047, (1u << 29) - 1};
  // The usual wire type of each number; one time in 25 any type, also one that does not exist.
  static constexpr uint32_t types[] = {0, 2, 2, 2, 0, 0, 0, 5, 1, 0, 2, 2, 0};
  const size_t i = dice(std::size(numbers));
  const uint32_t type = dice(25) == 0 ? dice(8u) : types[i];
  std::string out = varint(uint64_t{numbers[i]} << 3 | type);
  switch (type) {
    case 0:
      return out + varint(dice(3) ? dice(7u) : dice(UINT64_MAX) >> dice(64));
    case 1:
      return out + std::string(8, 'x');
    case 2: {
      const std::string content(dice(10u), static_cast<char>(dice(256)));
      return out + varint(content.size()) + content;
    }
    case 5:
      return out + std::string(4, 'x');
    case 3:  // a group; half of the groups are closed
      return dice(2) ? out + varint(uint64_t{numbers[i]} << 3 | 4) : out;
    default:
      return out;
  }
}

// Why protoc's code reads a message that sluice refuses:
// 1. The message has neither a method nor a type, or its last method does not exist. protoc's code
//    does not check the first, and ignores methods that it does not know.
// 2. The message has a group (wire types 3 and 4). protoc's code skips groups that are closed.
struct ReadByProtocOnly {
  explicit ReadByProtocOnly(const Request& read)
      : method(!read.has_method() && read.type().empty()) {
    for (int i = 0; i < read.unknown_fields().field_count(); ++i) {
      const auto& field = read.unknown_fields().field(i);
      group |= field.type() == google::protobuf::UnknownField::TYPE_GROUP;
      method |= field.number() == 4 && field.type() == google::protobuf::UnknownField::TYPE_VARINT;
    }
  }

  bool method = false, group = false;
};

// Random fields in random order, some cut off: sluice refuses what protoc's code refuses, and reads
// the same in other messages. The differences are listed above (1 and 2) and in the test (3 and 4).
TEST(LimitdMessage, DiffersFromProtocOnlyAsListed) {
  const google::protobuf::LogSilencer hush;
  Dice dice(2);
  size_t read_by_both = 0, refused_by_both = 0, methods = 0, groups = 0, wide = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string body;
    for (int n = dice(8) + 1; n > 0; --n) body += random_field(dice);
    if (dice(6) == 0) body.resize(dice(body.size() + 1));
    const auto theirs = by_protoc(body);
    const auto ours = by_us(body);

    std::optional<model::Asked> asked;
    try {
      asked = model::message(body);
    } catch (model::Bad) {
    }
    ASSERT_EQ(ours.has_value(), asked.has_value());
    if (!ours && !theirs) {
      ++refused_by_both;
      continue;
    }
    if (!ours) {
      const ReadByProtocOnly why(*theirs);
      ASSERT_TRUE(why.group || why.method) << theirs->DebugString();
      groups += why.group;
      methods += why.method;
      continue;
    }
    ASSERT_TRUE(theirs) << testing::PrintToString(body);
    ++read_by_both;
    ASSERT_EQ(ours->type, theirs->type());
    ASSERT_EQ(ours->key, theirs->key());
    ASSERT_EQ(ours->all, theirs->all());
    ASSERT_EQ(ours->silent, theirs->skip_response());
    // 3. protoc's code keeps only 32 bits of a count.
    ASSERT_EQ(static_cast<int32_t>(ours->count), theirs->count());
    wide += ours->count != theirs->count();
    ASSERT_EQ(static_cast<int>(ours->method), static_cast<int>(theirs->method()));
    // 4. sluice keeps the id that came last; protoc's code keeps both, and not their order.
    if (ours->id.numeric) {
      ASSERT_EQ(number_of(ours->id.bytes), static_cast<uint64_t>(theirs->id2()));
    } else {
      ASSERT_EQ(ours->id.bytes, theirs->id());
    }
  }
  EXPECT_GT(read_by_both, 15'000u);
  EXPECT_GT(refused_by_both, 10'000u);
  EXPECT_GT(methods, 500u);
  EXPECT_GT(groups, 10u);
  EXPECT_GT(wide, 500u);
}

TEST(LimitdMessage, DiffersFromProtocInLongKeys) {
  const std::string method = number(4, 0), value("\x04", 1);
  const std::string five("\xA0\x80\x80\x80\x00", 5), six("\xA0\x80\x80\x80\x80\x00", 6);
  EXPECT_TRUE(by_protoc(five + value));
  EXPECT_EQ(by_us(five + value)->method, LimitdMethod::ping);
  // Zeros in more bytes than 32 bits need: only protoc's code refuses them.
  EXPECT_FALSE(by_protoc(six + value));
  EXPECT_EQ(by_us(six + value)->method, LimitdMethod::ping);
  // A key with a 33rd bit: protoc's code drops the bit, sluice refuses the message.
  const std::string wide("\xA0\x80\x80\x80\x10", 5);
  EXPECT_TRUE(by_protoc(wide + value));
  EXPECT_FALSE(by_us(wide + value));
  // Both refuse field 0.
  for (const std::string& zero : {std::string("\0\0", 2), std::string("\2\0", 2)}) {
    EXPECT_FALSE(by_protoc(zero + method));
    EXPECT_FALSE(by_us(zero + method + text(2, "t")));
  }
}

// A known field number with another wire type is an unknown field: the value read before stays.
TEST(LimitdMessage, AnotherWireTypeIsAnUnknownField) {
  const std::string body = text(1, "id") + text(2, "t") + number(4, 5) + number(1, 7) +
                           number(2, 7) + number(3, 7) + text(4, "x") + text(5, "x") +
                           text(6, "x") + text(7, "x") + text(20, "x");
  const auto r = by_us(body);
  ASSERT_TRUE(r && by_protoc(body));
  EXPECT_EQ(r->id.bytes, "id");
  EXPECT_FALSE(r->id.numeric);
  EXPECT_EQ(r->type, "t");
  EXPECT_EQ(r->key, "");
  EXPECT_EQ(r->method, LimitdMethod::get);
  EXPECT_EQ(r->count, 1);
  EXPECT_FALSE(r->all || r->silent);
}

TEST(LimitdMessage, AnAbsentMethodIsTakeIfThereIsAType) {
  EXPECT_EQ(by_us(text(1, "1") + text(2, "ip"))->method, LimitdMethod::take);
  EXPECT_FALSE(by_us(text(1, "1")));
  EXPECT_FALSE(by_us(text(1, "1") + text(2, "") + text(3, "k")));
  EXPECT_EQ(by_us(text(2, "") + number(4, 0))->method, LimitdMethod::take);
}

TEST(LimitdMessage, RejectsUnknownMethods) {
  for (uint64_t method = 0; method < 6; ++method) EXPECT_TRUE(by_us(number(4, method)));
  for (const uint64_t method : {uint64_t{6}, uint64_t{99}, uint64_t{1} << 32, UINT64_MAX})
    EXPECT_FALSE(by_us(text(2, "t") + number(4, method)));
  EXPECT_TRUE(by_us(number(4, 99) + number(4, 5)));
  EXPECT_FALSE(by_us(number(4, 5) + number(4, 99)));
}

// All prefixes of a message, and all messages that differ from it in one byte: the naive model
// reads the same. The bytes are in memory of their exact size, so a sanitizer finds a read past the
// end.
TEST(LimitdMessage, EveryPrefixAndEveryByte) {
  const std::string body = text(1, "id-1") + text(2, "ip") + text(3, "10.0.0.1") + number(4, 1) +
                           number(5, UINT64_MAX) + number(6, 1) + number(7, 1) + number(20, 300) +
                           varint(9 * 8 + 5) + "1234" + varint(9 * 8 + 1) + "12345678";
  const auto agree = [](const std::string& bytes) {
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto ours = by_us({exact.data(), exact.size()});
    try {
      const model::Asked a = model::message(bytes);
      ASSERT_TRUE(ours);
      ASSERT_EQ(ours->type, a.type);
      ASSERT_EQ(ours->key, a.key);
      ASSERT_EQ(static_cast<uint64_t>(ours->method), a.method.value_or(0));
      ASSERT_EQ(ours->count, a.count);
      ASSERT_EQ(ours->id.numeric, a.id2.has_value());
    } catch (model::Bad) {
      ASSERT_FALSE(ours) << testing::PrintToString(bytes);
    }
  };
  for (size_t size = 0; size <= body.size(); ++size) {
    agree(body.substr(0, size));
    if (size == body.size()) break;
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = body;
      changed[size] = static_cast<char>(byte);
      agree(changed);
    }
  }
}

// ---- Replies ----

// The only message in a frame, as protoc's code reads it.
Response parsed(const base::Buffer& out) {
  std::string bytes(out.view());
  const uint64_t size = model::take_varint(bytes);
  EXPECT_EQ(size, bytes.size());
  Response r;
  EXPECT_TRUE(r.ParseFromString(bytes));
  EXPECT_TRUE(r.unknown_fields().empty());
  // The bytes are those that protoc's code would write: fields in order, varints as short as
  // possible. Only request_id2 comes before fields with lower numbers, as in the original.
  if (!r.has_request_id2()) {
    EXPECT_EQ(r.SerializeAsString(), bytes);
  }
  return r;
}

int32_t as_int32(int64_t v) {
  return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX));
}

// The id and the numbers of a random reply, and checks that protoc's code reads the same.
struct RandomReply {
  explicit RandomReply(Dice& random) : dice(random), id2(some()), word(dice(300u), 'i') {
    id = dice(2) ? LimitdId{digits = varint(static_cast<uint64_t>(id2)), true}
                 : LimitdId{word, false};
    level = {some(), static_cast<uint64_t>(some()), some()};
  }

  int64_t some() const {
    constexpr int64_t edges[] = {
        0,         1,        127, 128, -1, INT32_MAX, INT32_MIN, INT32_MAX + 1L, INT32_MIN - 1L,
        INT64_MAX, INT64_MIN};
    return dice(3) ? static_cast<int64_t>(dice(1'000u)) : edges[dice(std::size(edges))];
  }
  void expect_id(const Response& r) const {
    ASSERT_EQ(r.has_request_id2(), id.numeric);
    ASSERT_EQ(r.has_request_id(), !id.numeric);
    if (id.numeric) {
      ASSERT_EQ(r.request_id2(), id2);
    } else {
      ASSERT_EQ(r.request_id(), word);
    }
  }
  template <class Body>
  void expect_level(const Body& body) const {
    ASSERT_TRUE(body.has_remaining() && body.has_reset() && body.has_limit());
    ASSERT_EQ(body.remaining(), as_int32(level.remaining));
    ASSERT_EQ(body.reset(), level.reset);
    ASSERT_EQ(body.limit(), as_int32(level.limit));
  }

  Dice& dice;
  int64_t id2;
  std::string word, digits;
  LimitdId id;
  LimitdLevel level{};
};

TEST(LimitdMessage, ProtocReadsWrittenDecisions) {
  Dice dice(3);
  for (int round = 0; round < 20'000; ++round) {
    const RandomReply reply(dice);
    const bool conformant = dice(2), delayed = dice(2);
    base::Buffer out;
    append_limitd_take(reply.id, conformant, delayed, reply.level, out);
    const Response r = parsed(out);
    reply.expect_id(r);
    reply.expect_level(r.take());
    ASSERT_TRUE(r.take().has_conformant());
    ASSERT_EQ(r.take().conformant(), conformant);
    ASSERT_EQ(r.take().has_delayed(), delayed);
    ASSERT_EQ(r.take().delayed(), delayed);

    out.clear();
    append_limitd_put(reply.id, reply.level, out);
    reply.expect_id(parsed(out));
    reply.expect_level(parsed(out).put());
    out.clear();
    append_limitd_get(reply.id, reply.level, out);
    reply.expect_id(parsed(out));
    reply.expect_level(parsed(out).get());
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
}

TEST(LimitdMessage, ProtocReadsWrittenPongsAndErrors) {
  Dice dice(4);
  for (int round = 0; round < 20'000; ++round) {
    const RandomReply reply(dice);
    base::Buffer out;
    append_limitd_pong(reply.id, out);
    reply.expect_id(parsed(out));
    ASSERT_TRUE(parsed(out).has_pong() && !parsed(out).pong().has_protocol_version());
    out.clear();
    append_limitd_unknown_type(reply.id, out);
    reply.expect_id(parsed(out));
    ASSERT_EQ(parsed(out).error().type(), limitd::Error::UNKNOWN_BUCKET_TYPE);
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
}

TEST(LimitdMessage, ProtocReadsWrittenLists) {
  Dice dice(5);
  for (int round = 0; round < 20'000; ++round) {
    const RandomReply reply(dice);
    std::vector<request::Listed> listed;
    for (unsigned n = dice(5u); n > 0; --n)
      listed.push_back(
          {std::string(dice(200u), 'k'), {true, reply.some(), reply.some(), {reply.some()}, {}}});
    base::Buffer out;
    append_limitd_status(reply.id, listed, now, out);
    const Response r = parsed(out);
    reply.expect_id(r);
    ASSERT_TRUE(r.has_status());
    ASSERT_EQ(static_cast<size_t>(r.status().items_size()), listed.size());
    for (size_t i = 0; i < listed.size(); ++i) {
      const limitd::Item& item = r.status().items(static_cast<int>(i));
      const limit::Decision& d = listed[i].decision;
      ASSERT_EQ(item.has_instance(), !listed[i].key.empty());
      ASSERT_EQ(item.instance(), listed[i].key);
      ASSERT_TRUE(item.has_remaining() && item.has_reset() && item.has_limit());
      ASSERT_EQ(item.remaining(), as_int32(d.remaining));
      ASSERT_EQ(item.reset(), model::seconds(d.reset_after, now));
      ASSERT_EQ(item.limit(), as_int32(d.limit));
    }
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
}

TEST(LimitdMessage, WritesANumericIdInItsShortestForm) {
  base::Buffer out;
  append_limitd_pong({std::string_view("\x85\x80\x00", 3), true}, out);
  EXPECT_EQ(out.view(), std::string_view("\x06\xA0\x01\x05\xC2\x06\x00", 7));
}

TEST(LimitdMessage, ResetIsTheSecondInWhichItHasPassed) {
  EXPECT_EQ(limitd_reset({0}, now), 1'425'920'267u);
  EXPECT_EQ(limitd_reset({1}, now), 1'425'920'268u);
  EXPECT_EQ(limitd_reset(base::milliseconds(200), now), 1'425'920'268u);
  EXPECT_EQ(limitd_reset(base::milliseconds(1'800), now), 1'425'920'269u);
  EXPECT_EQ(limitd_reset(base::seconds(1'800), now), 1'425'920'267u + 1'800);
  EXPECT_EQ(limitd_reset(base::never, now), 0u);
  EXPECT_EQ(limitd_reset({-1}, {0}), 0u);
  // Seconds beyond 32 bits (the year 2038), and a time that would be beyond 64 bits of
  // microseconds.
  EXPECT_EQ(limitd_reset(base::seconds(1), {int64_t{INT32_MAX} * 1'000'000}), 2'147'483'648u);
  EXPECT_EQ(limitd_reset({INT64_MAX - 1}, now), 9'223'372'036'855u);
}

}  // namespace
}  // namespace sluice::limitd
