// Writing requests and reading responses, as a client of Envoy's protocol does, against the code
// that protoc generates.
#include "protocol/envoy/client_messages.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "protocol/envoy/proto_test.h"

namespace sluice::envoy {
namespace {

using google::protobuf::util::MessageDifferencer;

RateLimitRequest request_of(const std::string& bytes) {
  RateLimitRequest request;
  EXPECT_EQ(read_request(bytes, request), ReadProblem::none);
  return request;
}

TEST(EnvoyClientMessages, AreTheRequestsOfProtocsCode) {
  tests::Dice dice(1);
  for (int round = 0; round < 2'000; ++round) {
    const proto::RateLimitRequest wanted = judge::some_request(dice);
    const std::string bytes = wanted.SerializeAsString();
    base::Buffer out;
    append_request(request_of(bytes), out);
    proto::RateLimitRequest written;
    ASSERT_TRUE(written.ParseFromString(std::string(out.view())));
    ASSERT_TRUE(MessageDifferencer::Equals(wanted, written))
        << wanted.DebugString() << written.DebugString();
  }
}

// A descriptor with 0 hits (a peek) differs from one without a number of hits (1 hit).
TEST(EnvoyClientMessages, KeepAZeroOfAWrapper) {
  RateLimitRequest request;
  request.domain = "d";
  request.descriptors.emplace_back().hits_addend = 0;
  base::Buffer out;
  append_request(request, out);
  EXPECT_EQ(out.view(), std::string_view("\x0a\x01"
                                         "d\x12\x02\x1a\x00",
                                         7));
}

TEST(EnvoyClientMessages, ReadTheResponsesOfProtocsCode) {
  tests::Dice dice(2);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::string> texts;
    proto::RateLimitResponse wanted = judge::to_proto(judge::some_response(dice, texts));
    std::string bytes = wanted.SerializeAsString();
    RateLimitResponse response;
    ASSERT_TRUE(read_response(bytes, response));
    wanted.clear_dynamic_metadata();
    ASSERT_TRUE(MessageDifferencer::Equals(wanted, judge::to_proto(response)))
        << wanted.DebugString();
  }
}

TEST(EnvoyClientMessages, SkipFieldsThatTheResponseHasNoMemberFor) {
  proto::RateLimitResponse wanted;
  wanted.set_overall_code(proto::RateLimitResponse::OK);
  wanted.set_raw_body("body");
  wanted.mutable_quota()->set_id("q");
  wanted.add_request_headers_to_add()->set_key("k");
  auto& status = *wanted.add_statuses();
  status.mutable_duration_until_reset()->set_seconds(7);
  status.mutable_duration_until_reset()->set_nanos(5);
  status.mutable_quota()->set_requests(9);
  const std::string bytes = wanted.SerializeAsString();
  RateLimitResponse response;
  ASSERT_TRUE(read_response(bytes, response));
  EXPECT_EQ(response.overall_code, Code::ok);
  ASSERT_EQ(response.statuses.size(), 1u);
  EXPECT_EQ(response.statuses[0].seconds_until_reset, 7);
  EXPECT_TRUE(response.response_headers_to_add.empty());
}

// Each beginning of a response is accepted or refused as protoc's code does. A message that is too
// large is refused.
TEST(EnvoyClientMessages, RejectATruncatedResponse) {
  const google::protobuf::LogSilencer hush;  // it would log texts that are cut within a character
  tests::Dice dice(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> texts;
    proto::RateLimitResponse wanted = judge::to_proto(judge::some_response(dice, texts));
    wanted.clear_dynamic_metadata();
    const std::string bytes = wanted.SerializeAsString();
    for (size_t size = 0; size < bytes.size(); ++size) {
      proto::RateLimitResponse theirs;
      RateLimitResponse ours;
      const std::string part = bytes.substr(0, size);
      ASSERT_EQ(read_response(part, ours), theirs.ParseFromString(part)) << size;
    }
  }
  RateLimitResponse response;
  EXPECT_FALSE(read_response(std::string(message_bytes_max + 1, 'x'), response));
}

}  // namespace
}  // namespace sluice::envoy
