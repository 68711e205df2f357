// Reading droplet's requests and writing its responses, against the naive model of session_model.h
// and against the code that protoc generates. "The original" is droplet 1.4.0's server.
#include "protocol/droplet/message.h"

#include <droplet.pb.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "protocol/droplet/session_model.h"
#include "tests/support/dice.h"

namespace sluice::droplet {
namespace {

using model::bytes_field;
using model::number_field;
using model::unhex;
using model::varint;

// A DropletRequest that owns its texts.
struct Owned {
  std::string bucket, id;
  int32_t count = 1;
  bool reset = false;
  std::array<uint32_t, 6> limits{};
  uint32_t type = 0;
  friend bool operator==(const Owned&, const Owned&) = default;
};
Owned owned(const DropletRequest& r) {
  return {std::string(r.bucket), std::string(r.id), r.count, r.reset, r.limits, r.type};
}

// The request in `bytes`; nothing if they are not a request. Checks that the naive model agrees.
std::optional<Owned> read(std::string_view bytes) {
  DropletRequest request;
  const bool ok = read_droplet_request(bytes, request);
  const auto naive = model::read(bytes);
  EXPECT_EQ(ok, naive.has_value()) << testing::PrintToString(bytes);
  if (!ok || !naive) return std::nullopt;
  EXPECT_EQ(owned(request), owned(*naive)) << testing::PrintToString(bytes);
  return owned(request);
}

std::string write(bool accept, uint32_t mask, const std::vector<int64_t>& left) {
  std::vector<limit::Decision> slots;
  for (const int64_t n : left) slots.push_back({accept, 0, n, {}, {}});
  char out[droplet_response_bytes_max];
  return {out, write_droplet_response(accept, mask, slots, out)};
}

const std::string named = bytes_field(1, "b") + bytes_field(2, "i");

// ---- Requests ----

TEST(DropletMessage, AbsentFieldsHaveTheirDefaults) {
  const auto r = read(named);
  ASSERT_TRUE(r);
  EXPECT_EQ(*r, (Owned{"b", "i", 1, false, {}, 0}));
  // A client may also write the defaults.
  std::string defaults = named + number_field(3, 1) + number_field(4, 0);
  for (uint32_t i = 5; i <= 11; ++i) defaults += number_field(i, 0);
  const auto d = read(defaults);
  ASSERT_TRUE(d);
  EXPECT_EQ(*d, *r);
}

TEST(DropletMessage, ReadsEveryField) {
  std::string all = bytes_field(1, "bucket") + bytes_field(2, "id") +
                    number_field(3, static_cast<uint64_t>(int64_t{-7})) + number_field(4, 1);
  for (uint32_t i = 0; i < 6; ++i) all += number_field(5 + i, 10 + i);
  const auto r = read(all + number_field(11, 2));
  ASSERT_TRUE(r);
  EXPECT_EQ(*r, (Owned{"bucket", "id", -7, true, {10, 11, 12, 13, 14, 15}, 2}));
}

TEST(DropletMessage, AcceptsWhatTheOriginalAccepts) {
  struct {
    std::string what, bytes;
    Owned read;
  } const table[] = {
      {"any order, the last duplicate wins",
       number_field(10, 4) + bytes_field(2, "x") + number_field(10, 9) + bytes_field(2, "i") +
           bytes_field(1, "a") + bytes_field(1, "b"),
       {"b", "i", 1, false, {0, 0, 0, 0, 0, 9}, 0}},
      {"empty names", bytes_field(1, "") + bytes_field(2, ""), {}},
      {"ill-formed UTF-8 stays as it is",
       bytes_field(1, "\xFF\xC0") + bytes_field(2, "\xED\xA0"),
       {"\xFF\xC0", "\xED\xA0", 1, false, {}, 0}},
      {"low 32 bits of a count",
       named + number_field(3, (uint64_t{1} << 32) + 3),
       {"b", "i", 3, false, {}, 0}},
      {"the least count",
       named + number_field(3, static_cast<uint64_t>(int64_t{INT32_MIN})),
       {"b", "i", INT32_MIN, false, {}, 0}},
      {"a limit of -1",
       named + number_field(10, UINT64_MAX),
       {"b", "i", 1, false, {0, 0, 0, 0, 0, UINT32_MAX}, 0}},
      {"a limit of 2^32 is none",
       named + number_field(5, uint64_t{1} << 32),
       {"b", "i", 1, false, {}, 0}},
      {"a flag of 2^32 is false",
       named + number_field(4, uint64_t{1} << 32),
       {"b", "i", 1, false, {}, 0}},
      {"a flag of 2", named + number_field(4, 2), {"b", "i", 1, true, {}, 0}},
      {"ten bytes of zero",
       named + varint(3 << 3) + std::string(9, '\x80') + std::string(1, '\0'),
       {"b", "i", 0, false, {}, 0}},
      {"a tag in ten bytes",
       named + '\x98' + std::string(8, '\x80') + std::string(1, '\0') + '\x05',
       {"b", "i", 5, false, {}, 0}},
      {"a length of 2^32 + 1",
       bytes_field(1, "b") + varint(2 << 3 | 2) + varint((uint64_t{1} << 32) + 1) + "i",
       {"b", "i", 1, false, {}, 0}},
      {"unknown type", named + number_field(11, 77), {"b", "i", 1, false, {}, 77}},
      {"unknown fields of every wire type",
       named + number_field(12, 5) + varint(13 << 3 | 1) + "12345678" + bytes_field(100, "xyz") +
           varint(14 << 3 | 5) + "1234" + number_field(0, 1) + bytes_field(0, "q") +
           number_field((1u << 29) - 1, 1),
       {"b", "i", 1, false, {}, 0}},
      {"known numbers in an unknown group do not count",
       named + varint(15 << 3 | 3) + number_field(3, 9) + number_field(1, 9) + varint(16 << 3 | 3) +
           varint(16 << 3 | 4) + varint(15 << 3 | 4),
       {"b", "i", 1, false, {}, 0}},
  };
  for (const auto& row : table) {
    const auto r = read(row.bytes);
    ASSERT_TRUE(r) << row.what;
    EXPECT_EQ(*r, row.read) << row.what;
  }
}

TEST(DropletMessage, RejectsInvalidRequests) {
  std::vector<std::pair<std::string, std::string>> table = {
      {"empty", ""},
      {"no bucket", bytes_field(2, "i") + number_field(10, 5)},
      {"no id", bytes_field(1, "b") + number_field(10, 5)},
      {"tag with nothing behind it", named + varint(3 << 3)},
      {"tag that does not end", named + "\xFF\xFF\xFF"},
      {"string beyond the message", bytes_field(1, "b") + varint(2 << 3 | 2) + varint(2) + "i"},
      {"stray end of a group", named + varint(15 << 3 | 4)},
      {"group that is not closed", named + varint(15 << 3 | 3) + number_field(1, 1)},
      {"group closed by another's end", named + varint(15 << 3 | 3) + varint(16 << 3 | 4)},
      {"eleven bytes of a number", named + varint(3 << 3) + std::string(10, '\x80') + '\x01'},
      {"unknown number of eleven bytes",
       named + varint(12 << 3) + std::string(10, '\x80') + '\x01'},
      {"wire type 6", named + varint(15 << 3 | 6)},
      {"wire type 7", named + varint(15 << 3 | 7)},
  };
  for (uint32_t field = 1; field <= 11; ++field) {
    for (uint32_t wire = 0; wire < 8; ++wire) {
      if (wire == (field < 3 ? 2u : 0u)) continue;
      // The tag is followed by enough bytes for a value of any wire type, and by a group's end.
      table.emplace_back("wire type " + std::to_string(wire) + " of field " + std::to_string(field),
                         named + varint(field << 3 | wire) + std::string("\x01\0\0\0\0\0\0\0", 8) +
                             varint(field << 3 | 4));
    }
  }
  for (const auto& [what, bytes] : table) EXPECT_FALSE(read(bytes)) << what;
}

// The original loops for ever, because such a length moves its reading position back.
TEST(DropletMessage, NegativeLengthThatHangsTheOriginal) {
  EXPECT_FALSE(read(unhex("0afaffffff0f")));
  EXPECT_FALSE(read(named + unhex("0afaffffff0f")));
  EXPECT_FALSE(read(named + unhex("7afaffffff0f")));      // in an unknown field
  EXPECT_FALSE(read(named + unhex("7b7afaffffff0f7c")));  // within a group
  for (const uint32_t size : {0x80000000u, 0xFFFFFFFFu, 0xFFFFFFF0u, 0x7FFFFFFFu})
    EXPECT_FALSE(read(named + varint(1 << 3 | 2) + varint(size) + "xxxxxxxx")) << size;
}

// The original reads zeros past the end, and accepts.
TEST(DropletMessage, TruncatedVarintThatTheOriginalCompletes) {
  EXPECT_FALSE(read(named + unhex("1880")));
  EXPECT_FALSE(read(named + unhex("78ff")));
  EXPECT_FALSE(read(named + unhex("18ffffffffffffffffff")));
}

// The original skips past the end, and accepts.
TEST(DropletMessage, TruncatedUnknownFieldsThatTheOriginalAccepts) {
  EXPECT_FALSE(read(named + unhex("7d01")));
  EXPECT_FALSE(read(named + unhex("7d010203")));
  EXPECT_FALSE(read(named + unhex("7901020304050607")));
  EXPECT_FALSE(read(named + unhex("7a506162")));
}

TEST(DropletMessage, BoundsTheDepthOfGroups) {
  const auto nested = [](int depth) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) {
      open += varint(15 << 3 | 3);
      close += varint(15 << 3 | 4);
    }
    return named + open + close;
  };
  EXPECT_TRUE(read(nested(100)));
  EXPECT_FALSE(read(nested(101)));
  EXPECT_FALSE(read(nested(500'000)));  // must not overflow the stack
}

TEST(DropletMessage, AcceptsNamesOfJavaScriptProperties) {
  for (const char* name : {"__proto__", "constructor", "toString", "hasOwnProperty", "valueOf",
                           "isPrototypeOf", "__defineGetter__"}) {
    const auto r = read(bytes_field(1, name) + bytes_field(2, name) + number_field(10, 5));
    ASSERT_TRUE(r);
    EXPECT_EQ(r->bucket, name);
  }
}

TEST(DropletMessage, LargestMessage) {
  const std::string bucket(base::bounds::websocket_message_bytes_max - 7, 'x');
  const std::string bytes = bytes_field(1, bucket) + bytes_field(2, "i");
  ASSERT_EQ(bytes.size(), base::bounds::websocket_message_bytes_max);
  ASSERT_TRUE(read(bytes));
  EXPECT_EQ(read(bytes)->bucket, bucket);
}

// ---- Responses ----

TEST(DropletMessage, WritesResponsesByteExact) {
  EXPECT_EQ(write(true, 0, {}), unhex("0801"));
  EXPECT_EQ(write(false, 0, {}), unhex("0800"));
  EXPECT_EQ(write(true, 0b11, {57, 200}), unhex("0801103918c801"));
  EXPECT_EQ(write(true, 0b100000, {0}), unhex("08013800"));
  EXPECT_EQ(write(false, 0b100000, {-1}), unhex("080038ffffffffffffffffff01"));
  EXPECT_EQ(write(true, 0b111111, {1, 2, 3, 4, 5, 6}), unhex("0801100118022003280430053806"));
}

TEST(DropletMessage, SaturatesRemainingUnits) {
  for (const int64_t n : {int64_t{INT32_MAX} + 1, int64_t{UINT32_MAX}, INT64_MAX})
    EXPECT_EQ(write(true, 1, {n}), write(true, 1, {INT32_MAX}));
  for (const int64_t n : {int64_t{INT32_MIN} - 1, int64_t{-6'442'450'940}, INT64_MIN})
    EXPECT_EQ(write(true, 1, {n}), write(true, 1, {INT32_MIN}));
  EXPECT_NE(write(true, 1, {INT32_MAX}), write(true, 1, {INT32_MAX - 1}));
}

// ---- Against protoc's code ----

TEST(DropletMessage, WritesAsProtocDoes) {
  tests::Dice dice(7);
  for (int round = 0; round < 20'000; ++round) {
    const uint32_t mask = dice(64u);
    const bool accept = dice(2) == 0;
    std::vector<int64_t> left;
    for (int i = std::popcount(mask); i > 0; --i)
      left.push_back(static_cast<int32_t>(dice(UINT64_MAX)) >> dice(32));
    droplet::Response oracle;
    oracle.set_accept(accept);
    size_t next = 0;
    if (mask & 1) oracle.set_ls(static_cast<int32_t>(left[next++]));
    if (mask & 2) oracle.set_lm(static_cast<int32_t>(left[next++]));
    if (mask & 4) oracle.set_lh(static_cast<int32_t>(left[next++]));
    if (mask & 8) oracle.set_ld(static_cast<int32_t>(left[next++]));
    if (mask & 16) oracle.set_lw(static_cast<int32_t>(left[next++]));
    if (mask & 32) oracle.set_lo(static_cast<int32_t>(left[next++]));
    ASSERT_EQ(write(accept, mask, left), oracle.SerializeAsString());
  }
}

// Makes random bytes of requests, well-formed and damaged ones. `common`: makes only what protoc's
// code reads as ours does. Left out are known fields with another wire type, and types other than 0
// and 1 (both unknown fields for protoc's code), field number 0, lengths and tags of more than 32
// bits (which it refuses), and flags of which only the low 32 bits are zero (true for it).
class Messages {
 public:
  Messages(uint32_t seed, bool common) : dice_(seed), common_(common) {}

  std::string next() {
    std::string out;
    for (int n = dice_(8); n > 0; --n) out += field(0);
    if (dice_(8) != 0) out.insert(0, bytes_field(1, text()));
    if (dice_(8) != 0) out += bytes_field(2, text());
    if (!out.empty() && dice_(5) == 0) out.resize(dice_(out.size()));
    if (!common_ && !out.empty() && dice_(5) == 0)
      out[dice_(out.size())] = static_cast<char>(dice_(256));
    return out;
  }

 private:
  std::string text() {
    std::string out;
    for (int n = dice_(10); n > 0; --n) out += static_cast<char>(dice_(256));
    return dice_(50) == 0 ? std::string(dice_(300u), 'x') : out;
  }
  uint64_t number() { return dice_(UINT64_MAX) >> dice_(64u); }
  // A varint, sometimes in more bytes than necessary.
  std::string padded(uint64_t value) {
    std::string out = varint(value);
    if (dice_(10) != 0) return out;
    while (out.size() < (common_ ? 10u : 11u) && dice_(3) != 0) {
      out.back() = static_cast<char>(static_cast<unsigned char>(out.back()) | 128u);
      out += '\0';
    }
    return out;
  }
  std::string field(int depth) {
    const uint32_t least = common_ ? 1 : 0;
    uint32_t number_of = least + dice_(14u);
    if (dice_(20) == 0) number_of = 12 + dice_((1u << 29) - 12);
    uint32_t wire = number_of == 1 || number_of == 2 ? 2 : 0;
    if (number_of < 1 || number_of > 11 || (!common_ && dice_(20) == 0))
      wire = dice_(common_ ? 6u : 8u);
    if (wire == 4) wire = 0;
    const std::string tag = varint(uint64_t{number_of} << 3 | wire);
    switch (wire) {
      case 0:
        if (number_of == 4) return tag + padded(common_ ? dice_(3u) : number());
        if (number_of == 11) return tag + padded(common_ ? dice_(2u) : dice_(4u));
        return tag + padded(number());
      case 1:
        return tag + "12345678";
      case 2:
        return bytes_field(number_of, text());
      case 3: {
        std::string inside;
        for (int n = depth < 4 ? dice_(4) : 0; n > 0; --n) inside += field(depth + 1);
        const uint32_t closing = dice_(20) == 0 ? number_of ^ 1 : number_of;
        return tag + inside + varint(uint64_t{closing} << 3 | 4);
      }
      case 5:
        return tag + "1234";
    }
    return tag;
  }

  tests::Dice dice_;
  bool common_;
};

TEST(DropletMessage, ReadsLikeProtocWhereTheyAgree) {
  Messages messages(3, true);
  size_t good = 0, bad = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::string bytes = messages.next();
    droplet::Request oracle;
    const bool parsed = oracle.ParseFromString(bytes) && oracle.has_bucket() && oracle.has_id();
    const auto r = read(bytes);
    ASSERT_EQ(r.has_value(), parsed) << testing::PrintToString(bytes);
    (parsed ? good : bad) += 1;
    if (!parsed) continue;
    ASSERT_EQ(r->bucket, oracle.bucket());
    ASSERT_EQ(r->id, oracle.id());
    ASSERT_EQ(r->count, oracle.count());
    ASSERT_EQ(r->reset, oracle.reset());
    ASSERT_EQ(r->limits, (std::array{oracle.ls(), oracle.lm(), oracle.lh(), oracle.ld(),
                                     oracle.lw(), oracle.lo()}));
    ASSERT_EQ(r->type, static_cast<uint32_t>(oracle.type()));
  }
  EXPECT_GT(good, 10'000u);
  EXPECT_GT(bad, 10'000u);
}

TEST(DropletMessage, ReadsLikeTheNaiveModel) {
  Messages messages(4, false);
  size_t good = 0, bad = 0;
  for (int round = 0; round < 100'000; ++round)
    (read(messages.next()) ? good : bad) += 1;  // read() compares with the model
  EXPECT_GT(good, 10'000u);
  EXPECT_GT(bad, 10'000u);
}

}  // namespace
}  // namespace sluice::droplet
