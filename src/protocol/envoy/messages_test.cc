// Reading requests and writing responses of Envoy's protocol, against the code that protoc
// generates.
#include "protocol/envoy/messages.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/envoy/proto_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::messages_test {
namespace {

using google::protobuf::util::MessageDifferencer;
using judge::to_proto;
using tests::Dice;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(uint64_t field, int type) {
  return varint(field << 3 | static_cast<uint64_t>(type));
}
std::string number_field(uint64_t field, uint64_t value) {
  return key(field, 0) + varint(value);
}
std::string bytes_field(uint64_t field, std::string_view value) {
  return key(field, 2) + varint(value.size()) + std::string(value);
}
std::string descriptor(std::string_view body) {
  return bytes_field(2, body);
}

// The request as protoc's code reads it; nothing if that refuses it.
std::optional<proto::RateLimitRequest> judged(const std::string& bytes) {
  const google::protobuf::LogSilencer silence;  // it would log texts that are not UTF-8
  proto::RateLimitRequest message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  message.DiscardUnknownFields();
  return message;
}

// The request as sluice reads it; nothing if it refuses it.
std::optional<proto::RateLimitRequest> read(std::string_view bytes) {
  RateLimitRequest request;
  if (read_request(bytes, request) != ReadProblem::none) return std::nullopt;
  return to_proto(request);
}

ReadProblem problem_of(std::string_view bytes) {
  RateLimitRequest request;
  return read_request(bytes, request);
}

void expect_as_judged(const std::string& bytes) {
  const auto ours = read(bytes);
  const auto theirs = judged(bytes);
  ASSERT_EQ(ours.has_value(), theirs.has_value()) << testing::PrintToString(bytes);
  if (!ours) return;
  EXPECT_EQ(ours->SerializeAsString(), theirs->SerializeAsString())
      << testing::PrintToString(bytes) << ours->DebugString() << theirs->DebugString();
}

TEST(EnvoyMessages, ReadsWhatProtocWrites) {
  Dice dice(1);
  for (int i = 0; i < 3'000; ++i) {
    const proto::RateLimitRequest message = judge::some_request(dice);
    const auto ours = read(message.SerializeAsString());
    ASSERT_TRUE(ours) << message.DebugString();
    ASSERT_EQ(ours->SerializeAsString(), message.SerializeAsString()) << message.DebugString();
  }
}

TEST(EnvoyMessages, MergesRepeatedFieldsAsProtoc) {
  Dice dice(2);
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes = judge::some_request(dice).SerializeAsString() +
                        judge::some_request(dice).SerializeAsString();
    // The fields of two descriptors in one.
    std::string parts;
    for (int n = 0; n < 2; ++n) {
      const proto::RateLimitRequest other = judge::some_request(dice);
      if (other.descriptors_size() > 0) parts += other.descriptors(0).SerializeAsString();
    }
    expect_as_judged(bytes + descriptor(parts));
  }
}

TEST(EnvoyMessages, RejectsATruncatedRequest) {
  Dice dice(3);
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = judge::some_request(dice).SerializeAsString();
    for (size_t n = 0; n < bytes.size(); ++n) expect_as_judged(bytes.substr(0, n));
  }
  // A message that is cut off is malformed, unless the cut is between two of its own fields (at 7).
  const std::string bytes = descriptor(bytes_field(1, bytes_field(1, "k"))) + number_field(3, 300);
  for (size_t n = 1; n < bytes.size(); ++n)
    EXPECT_EQ(problem_of(bytes.substr(0, n)), n == 7 ? ReadProblem::none : ReadProblem::malformed)
        << n;
}

TEST(EnvoyMessages, ReadsAnyBytesAsProtocDoes) {
  // Numbers of more than four bytes are left out: protoc's code shortens such keys and refuses
  // lengths that have more bytes than necessary. Envoy's service does neither.
  const auto has_long_number = [](std::string_view bytes) {
    int run = 0;
    for (const char c : bytes) {
      run = static_cast<unsigned char>(c) >= 0x80 ? run + 1 : 0;
      if (run == 4) return true;
    }
    return false;
  };
  Dice dice(4);
  int judged_ones = 0, read_ones = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string bytes = judge::some_request(dice).SerializeAsString();
    if (bytes.size() > 200) continue;
    for (int n = 1 + dice(3); n > 0 && !bytes.empty(); --n) {
      const size_t at = dice(bytes.size());
      if (dice(3) == 0)
        bytes.erase(at, 1 + dice(size_t{3}));
      else if (dice(2) == 0)
        bytes[at] = static_cast<char>(dice(256));
      else
        bytes.insert(at, 1, static_cast<char>(dice(256)));
    }
    if (has_long_number(bytes)) {
      problem_of(bytes);
      continue;
    }
    ++judged_ones;
    read_ones += problem_of(bytes) == ReadProblem::none;
    expect_as_judged(bytes);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(judged_ones, 15'000);
  EXPECT_GT(read_ones, 2'000);
}

TEST(EnvoyMessages, AcceptsWhatProtocAccepts) {
  const std::string all_types = number_field(100, 5) + key(101, 1) + "12345678" +
                                bytes_field(102, "abc") + key(103, 5) + "1234" + key(104, 3) +
                                number_field(1, 9) + key(105, 3) + key(105, 4) + key(104, 4);
  const std::string table[] = {
      "",
      all_types,
      bytes_field(1, "d") + all_types + number_field(3, 2) + descriptor(all_types),
      descriptor(bytes_field(1, all_types) + bytes_field(2, all_types) + bytes_field(3, all_types)),
      // Known field numbers with another wire type are unknown fields.
      number_field(1, 5) + number_field(2, 5) + bytes_field(3, "abc"),
      descriptor(number_field(1, 1) + number_field(2, 1) + number_field(3, 1) + bytes_field(4, "")),
      descriptor(bytes_field(2, bytes_field(1, "") + bytes_field(2, "") + number_field(3, 1))),
      key(3, 5) + "1234" + key(3, 1) + "12345678",
      // Wrappers that are empty, given twice (merged), or hold a zero.
      descriptor(bytes_field(3, "")),
      descriptor(bytes_field(3, number_field(1, 7)) + bytes_field(3, "")),
      descriptor(bytes_field(3, number_field(1, 7)) + bytes_field(3, number_field(1, 0))),
      descriptor(bytes_field(3, number_field(2, 7))),
      descriptor(bytes_field(2, bytes_field(3, "")) +
                 bytes_field(2, bytes_field(3, number_field(1, 4))) +
                 bytes_field(2, number_field(2, 3) + bytes_field(3, ""))),
      // The last value of a field counts, and only the low bits of a number that is too large.
      bytes_field(1, "a") + bytes_field(1, "b") + number_field(3, 1) +
          number_field(3, (uint64_t{1} << 32) + 5),
      descriptor(number_field(4, uint64_t{1} << 40)),
      descriptor(number_field(4, 1) + number_field(4, 0)),
      descriptor(bytes_field(2, number_field(2, UINT64_MAX))),
      descriptor(bytes_field(2, number_field(2, (uint64_t{1} << 32) + 2))),
      descriptor(bytes_field(2, number_field(2, 77))),
      // Empty descriptors and entries; an unknown field; a number with more bytes than necessary.
      descriptor("") + descriptor(bytes_field(1, "")),
      number_field((1u << 29) - 1, 1),
      number_field(3, 0x80) + key(3, 0) + "\x85\x80\x80\x80\x80\x80\x80\x80\x80" + '\x01',
  };
  for (const std::string& bytes : table) {
    ASSERT_TRUE(judged(bytes)) << testing::PrintToString(bytes);
    expect_as_judged(bytes);
  }
}

TEST(EnvoyMessages, ReadsAnEmptyWrapperAsZeroAndAMissingOneAsAbsent) {
  RateLimitRequest request;
  ASSERT_EQ(read_request(descriptor(bytes_field(3, "")) + descriptor(""), request),
            ReadProblem::none);
  ASSERT_EQ(request.descriptors.size(), 2u);
  EXPECT_EQ(request.descriptors[0].hits_addend, 0u);
  EXPECT_EQ(request.descriptors[1].hits_addend, std::nullopt);
}

TEST(EnvoyMessages, RejectsMalformedBytes) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += key(9, 3);
  const std::string deep_end = [] {
    std::string ends;
    for (int i = 0; i < 100; ++i) ends += key(9, 4);
    return ends;
  }();
  EXPECT_EQ(problem_of(deep + deep_end), ReadProblem::none);
  const std::pair<const char*, std::string> table[] = {
      {"groups 101 deep", key(9, 3) + deep + deep_end + key(9, 4)},
      {"group without end", key(9, 3) + number_field(1, 1)},
      {"end of another group", key(9, 3) + key(10, 4)},
      {"end of no group", key(9, 4)},
      {"end of no group that is known", key(2, 4)},
      {"field 0", number_field(0, 1)},
      {"field 0 within a group", key(9, 3) + number_field(0, 1) + key(9, 4)},
      {"field 2^29", number_field(1u << 29, 1)},
      {"key of 65 bits", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"},
      {"type 6", key(9, 6) + "1"},
      {"type 7 of a known field", key(1, 7) + "1"},
      {"number of 11 bytes", key(3, 0) + "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80" + '\x01'},
      {"length beyond the end", key(1, 2) + "\x05" + "abcd"},
      {"length of 2^63", key(1, 2) + varint(uint64_t{1} << 63)},
      {"length of 2^32 + 1", key(1, 2) + varint((uint64_t{1} << 32) + 1) + "a"},
      {"broken entry", descriptor(bytes_field(1, key(1, 2) + "\x05"))},
      {"broken limit", descriptor(bytes_field(2, key(1, 0)))},
      {"broken wrapper", descriptor(bytes_field(3, key(1, 0)))},
      {"broken multiplier", descriptor(bytes_field(2, bytes_field(3, key(1, 0))))},
      {"broken unknown field", descriptor(key(77, 5) + "123")},
  };
  for (const auto& [what, bytes] : table)
    EXPECT_EQ(problem_of(bytes), ReadProblem::malformed) << what;
}

TEST(EnvoyMessages, TextsMustBeUtf8) {
  for (const std::string bad : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xC3"}) {
    for (const std::string& bytes :
         {bytes_field(1, bad), bytes_field(1, bad) + bytes_field(1, "good"),
          descriptor(bytes_field(1, bytes_field(1, bad))),
          descriptor(bytes_field(1, bytes_field(1, "k") + bytes_field(2, bad)))}) {
      EXPECT_EQ(problem_of(bytes), ReadProblem::not_utf8) << testing::PrintToString(bytes);
      EXPECT_FALSE(judged(bytes));
    }
    // The texts of unknown fields are not checked.
    EXPECT_EQ(problem_of(bytes_field(9, bad)), ReadProblem::none);
  }
  EXPECT_EQ(grpc_code(ReadProblem::not_utf8), 13u);
  EXPECT_EQ(grpc_code(ReadProblem::malformed), 13u);
  EXPECT_EQ(grpc_code(ReadProblem::too_large), 8u);
  EXPECT_EQ(grpc_code(ReadProblem::none), 0u);
}

TEST(EnvoyMessages, Bounds) {
  const auto repeated = [](size_t n, const std::string& part) {
    std::string all;
    for (; n > 0; --n) all += part;
    return all;
  };
  const std::string entry = bytes_field(1, "");
  EXPECT_EQ(problem_of(repeated(request_descriptors_max, descriptor(""))), ReadProblem::none);
  EXPECT_EQ(problem_of(repeated(request_descriptors_max + 1, descriptor(""))),
            ReadProblem::too_large);
  const std::string full = repeated(descriptor_entries_max, entry);
  EXPECT_EQ(problem_of(descriptor(full)), ReadProblem::none);
  EXPECT_EQ(problem_of(descriptor(full + entry)), ReadProblem::too_large);
  const std::string most = repeated(request_entries_max / descriptor_entries_max, descriptor(full));
  EXPECT_EQ(problem_of(most), ReadProblem::none);
  EXPECT_EQ(problem_of(most + descriptor(entry)), ReadProblem::too_large);
  // The length of a text of this size has four bytes.
  const std::string large(message_bytes_max - 5, 'x');
  EXPECT_EQ(problem_of(bytes_field(9, large)), ReadProblem::none);
  EXPECT_EQ(problem_of(bytes_field(9, large + "x")), ReadProblem::too_large);
}

TEST(EnvoyMessages, ReadingAgainKeepsMemoryAndPointsIntoTheInput) {
  const std::string bytes =
      bytes_field(1, "domain") +
      descriptor(bytes_field(1, bytes_field(1, "key") + bytes_field(2, "value"))) +
      descriptor(bytes_field(1, bytes_field(1, "other")));
  RateLimitRequest request;
  ASSERT_EQ(read_request(bytes, request), ReadProblem::none);
  const auto* const descriptors = request.descriptors.data();
  const auto* const entries = request.entries.data();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(read_request(bytes, request), ReadProblem::none);
    EXPECT_EQ(request.descriptors.data(), descriptors);
    EXPECT_EQ(request.entries.data(), entries);
    EXPECT_EQ(request.descriptors.size(), 2u);
  }
  EXPECT_EQ(request.entries_of(request.descriptors[1])[0].key, "other");
  for (const std::string_view text : {request.domain, request.entries[0].value}) {
    EXPECT_GE(text.data(), bytes.data());
    EXPECT_LE(text.data() + text.size(), bytes.data() + bytes.size());
  }
}

TEST(EnvoyMessages, WritesWhatProtocReads) {
  Dice dice(5);
  std::vector<std::string> texts;
  for (int i = 0; i < 3'000; ++i) {
    const RateLimitResponse response = judge::some_response(dice, texts);
    const proto::RateLimitResponse expected = to_proto(response);
    const std::string bytes = judge::written(response);
    proto::RateLimitResponse theirs;
    ASSERT_TRUE(theirs.ParseFromString(bytes)) << expected.DebugString();
    ASSERT_TRUE(MessageDifferencer::Equals(theirs, expected))
        << expected.DebugString() << theirs.DebugString();
    // The order of a map's entries is not defined.
    if (!response.dynamic_metadata) {
      ASSERT_EQ(bytes, expected.SerializeAsString());
    }
    ASSERT_EQ(bytes.size(), expected.ByteSizeLong());
  }
}

TEST(EnvoyMessages, AppendsToABufferThatIsNotEmpty) {
  base::Buffer out;
  out.append("head");
  RateLimitResponse response;
  response.overall_code = Code::ok;
  append_response(response, out);
  EXPECT_EQ(out.view(), "head\x08\x01");
}

TEST(EnvoyMessages, Health) {
  for (const std::string service : {"", "ratelimit"}) {
    proto::HealthCheckRequest message;
    message.set_service(service);
    std::string_view read = "old";
    ASSERT_EQ(read_health_request(message.SerializeAsString(), read), ReadProblem::none);
  }
  std::string_view read;
  const std::string twice =
      bytes_field(1, "a") + number_field(1, 1) + bytes_field(1, "b") + key(4, 3) + key(4, 4);
  ASSERT_EQ(read_health_request(twice, read), ReadProblem::none);
  EXPECT_EQ(read, "b");
  EXPECT_EQ(read_health_request(bytes_field(1, "\xFF"), read), ReadProblem::not_utf8);
  EXPECT_EQ(read_health_request(key(1, 2) + "\x02" + "a", read), ReadProblem::malformed);
  EXPECT_EQ(read_health_request(number_field(0, 1), read), ReadProblem::malformed);
  EXPECT_EQ(read_health_request(key(7, 0), read), ReadProblem::malformed);

  for (const HealthStatus status : {HealthStatus::unknown, HealthStatus::serving,
                                    HealthStatus::not_serving, HealthStatus::service_unknown}) {
    base::Buffer out;
    append_health_response(status, out);
    proto::HealthCheckResponse message;
    ASSERT_TRUE(message.ParseFromString(std::string(out.view())));
    EXPECT_EQ(static_cast<int>(message.status()), static_cast<int>(status));
  }
}

TEST(EnvoyMessages, NamesOfNumbers) {
  EXPECT_EQ(unit_name(WireUnit::week), "WEEK");
  EXPECT_EQ(unit_name(WireUnit::month), "MONTH");
  EXPECT_EQ(unit_name(static_cast<WireUnit>(8)), "");
  EXPECT_EQ(unit_name(static_cast<WireUnit>(-1)), "");
  EXPECT_EQ(code_name(Code::over_limit), "OVER_LIMIT");
  EXPECT_EQ(code_name(static_cast<Code>(3)), "");
}

// ---- Metadata ----

MetadataMap nested(size_t levels) {
  MetadataMap map;
  if (levels > 1) map.emplace_back("m", nested(levels - 1));
  return map;
}

TEST(EnvoyMetadata, DepthCountsMapsAndLists) {
  EXPECT_EQ(metadata_depth({}), 1u);
  EXPECT_EQ(metadata_depth(nested(7)), 7u);
  const MetadataMap lists{{"a", MetadataValue(1.0)},
                          {"l", MetadataValue(MetadataList{MetadataValue(MetadataList{})})}};
  EXPECT_EQ(metadata_depth(lists), 3u);
}

// The reader of protoc's code has the same maximum depth as Envoy's.
TEST(EnvoyMetadata, EnvoyReadsTheGreatestAllowedDepth) {
  RateLimitResponse response;
  response.dynamic_metadata = MetadataMap{{"metadata", MetadataValue(nested(metadata_depth_max))}};
  proto::RateLimitResponse message;
  EXPECT_TRUE(message.ParseFromString(judge::written(response)));
  response.dynamic_metadata = nested(40);
  EXPECT_FALSE(message.ParseFromString(judge::written(response)));
}

TEST(EnvoyMetadata, MergesMapsAndKeepsTheFirstOfOtherValues) {
  const auto text = [](const char* words) { return MetadataValue(std::string(words)); };
  const MetadataList list{MetadataValue(1.0)}, other_list{MetadataValue(2.0)};
  const MetadataMap first{
      {"team", text("red")},
      {"list", list},
      {"deep", MetadataMap{{"x", MetadataValue(1.0)}, {"y", MetadataMap{{"z", text("deep")}}}}},
      {"n", MetadataValue()},
      {"map or not", MetadataMap{}}};
  const MetadataMap second{
      {"team", text("blue")},
      {"list", other_list},
      {"deep", MetadataMap{{"x", MetadataValue(2.0)}, {"y", MetadataMap{{"w", text("other")}}}}},
      {"n", MetadataMap{{"a", text("b")}}},
      {"map or not", text("no")},
      {"only", text("b")}};
  MetadataMap merged;
  merge_metadata(first, merged);
  EXPECT_EQ(merged, first);
  merge_metadata(second, merged);
  const MetadataMap expected{
      {"team", text("red")},
      {"list", list},
      {"deep", MetadataMap{{"x", MetadataValue(1.0)},
                           {"y", MetadataMap{{"z", text("deep")}, {"w", text("other")}}}}},
      {"n", MetadataValue()},
      {"map or not", MetadataMap{}},
      {"only", text("b")}};
  EXPECT_EQ(merged, expected);
  ASSERT_NE(find_member(merged, "only"), nullptr);
  EXPECT_EQ(*find_member(merged, "only"), text("b"));
  EXPECT_EQ(find_member(merged, "none"), nullptr);
}

}  // namespace
}  // namespace sluice::envoy::messages_test
