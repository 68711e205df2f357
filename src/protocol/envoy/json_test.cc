// Reading JSON requests and writing JSON responses, against protobuf's own JSON code for C++.
#include "protocol/envoy/json.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/envoy/proto_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::json_test {
namespace {

namespace pb = google::protobuf::util;
using judge::to_proto;
using tests::Dice;

// The request in `body`; nothing if it is refused.
std::optional<proto::RateLimitRequest> read(std::string_view body) {
  JsonRequest into;
  if (read_json_request(body, into)) return std::nullopt;
  return to_proto(into.request);
}
std::string problem_of(std::string_view body) {
  JsonRequest into;
  const auto problem = read_json_request(body, into);
  return problem ? problem->message : "";
}
std::optional<proto::RateLimitRequest> judged(std::string_view body) {
  proto::RateLimitRequest message;
  if (!pb::JsonStringToMessage(std::string(body), &message).ok()) return std::nullopt;
  return message;
}

std::string json_of(const google::protobuf::Message& message,
                    const pb::JsonPrintOptions& options = {}) {
  std::string text;
  EXPECT_TRUE(pb::MessageToJsonString(message, &text, options).ok());
  return text;
}

TEST(EnvoyJson, ReadsWhatProtobufWrites) {
  Dice dice(1);
  for (int i = 0; i < 2'000; ++i) {
    const proto::RateLimitRequest message = judge::some_request(dice);
    pb::JsonPrintOptions options;
    options.add_whitespace = dice(2) == 0;
    options.always_print_primitive_fields = dice(2) == 0;
    options.always_print_enums_as_ints = dice(2) == 0;
    options.preserve_proto_field_names = dice(2) == 0;
    const std::string text = json_of(message, options);
    const auto ours = read(text);
    ASSERT_TRUE(ours) << text << problem_of(text);
    ASSERT_EQ(ours->SerializeAsString(), message.SerializeAsString()) << text;
  }
}

TEST(EnvoyJson, RejectsATruncatedRequest) {
  Dice dice(2);
  for (int i = 0; i < 100; ++i) {
    const std::string text = json_of(judge::some_request(dice));
    for (size_t n = 0; n < text.size(); ++n) EXPECT_NE(problem_of(text.substr(0, n)), "");
  }
}

// Protobuf's reader for C++ accepts more than JSON allows. So the test only checks that what sluice
// reads is the same there. That reader refuses numbers in quotes that have a fraction or an
// exponent.
TEST(EnvoyJson, ReadsNothingDifferentlyFromProtobuf) {
  Dice dice(3);
  static constexpr std::string_view pieces[] = {"{",
                                                "}",
                                                "[",
                                                "]",
                                                ",",
                                                ":",
                                                "\"",
                                                "null",
                                                "true",
                                                "1",
                                                "-1",
                                                "1.0",
                                                "1e2",
                                                "\"2\"",
                                                "\\u00e9",
                                                "\"unit\":\"HOUR\"",
                                                "\"domain\":\"d\"",
                                                "\"hitsAddend\":3",
                                                " ",
                                                "\\"};
  const std::regex number_in_text("\"-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?\"");
  int read_ones = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = json_of(judge::some_request(dice));
    for (int n = 1 + dice(2); n > 0 && !text.empty(); --n) {
      const size_t at = dice(text.size());
      if (dice(2) == 0)
        text.replace(at, dice(size_t{4}), pieces[dice(std::size(pieces))]);
      else
        text[at] = static_cast<char>(dice(128));
    }
    const auto ours = read(text);
    if (!ours) continue;
    ++read_ones;
    const auto theirs = judged(text);
    if (!theirs && std::regex_search(text, number_in_text)) continue;
    ASSERT_TRUE(theirs) << text;
    ASSERT_EQ(ours->SerializeAsString(), theirs->SerializeAsString()) << text;
  }
  EXPECT_GT(read_ones, 1'000);
}

TEST(EnvoyJson, ReadsTheSameAsProtobuf) {
  const std::string_view table[] = {
      "{}",
      " \t\r\n{ } \n",
      R"({"domain":"d","hitsAddend":3,"descriptors":[]})",
      R"({"domain":"d","hits_addend":"3"})",
      R"({"domain":null,"hitsAddend":null,"descriptors":null})",
      R"({"descriptors":[{"entries":null,"limit":null,"hitsAddend":null,"isNegativeHits":null}]})",
      R"({"descriptors":[{"entries":[{"key":null,"value":null}]}]})",
      R"({"descriptors":[{},{"entries":[{},{"key":"k"}]},{"limit":{}}]})",
      R"({"descriptors":[{"hitsAddend":0},{"hitsAddend":"0"},{"hits_addend":5}]})",
      R"({"descriptors":[{"hitsAddend":"18446744073709551615"}]})",
      R"({"descriptors":[{"hitsAddend":18446744073709551615}]})",
      R"({"descriptors":[{"isNegativeHits":true},{"is_negative_hits":false}]})",
      R"({"descriptors":[{"limit":{"requestsPerUnit":4294967295,"unit":"MINUTE"}}]})",
      R"({"descriptors":[{"limit":{"requests_per_unit":"7","unit":2,"unitMultiplier":30}}]})",
      R"({"descriptors":[{"limit":{"unit":77,"unit_multiplier":"0"}},{"limit":{"unit":-3}}]})",
      R"({"descriptors":[{"limit":{"unit":null,"unitMultiplier":null}}]})",
      R"({"hitsAddend":1.0})",
      R"({"hitsAddend":1e2})",
      R"({"hitsAddend":1.5E1})",
      R"({"hitsAddend":100e-2})",
      R"({"hitsAddend":0.0})",
      R"({"hitsAddend":-0})",
      R"({"descriptors":[{"limit":{"unit":1.0}}]})",
      R"({"domain":"\u00e9\u65e5\ud83c\udf6a\"\\\/\b\f\n\r\t\u0000"})",
      R"({"\u0064omain":"escaped name"})",
  };
  for (const std::string_view text : table) {
    const auto ours = read(text);
    ASSERT_TRUE(ours) << text << ": " << problem_of(text);
    const auto theirs = judged(text);
    ASSERT_TRUE(theirs) << text;
    EXPECT_EQ(ours->SerializeAsString(), theirs->SerializeAsString()) << text;
  }
}

// Protobuf's readers for Go and for C++ differ. sluice reads as the one for Go, which Envoy's
// service uses.
TEST(EnvoyJson, DiffersFromProtobufForCppWhereGoDoes) {
  struct {
    std::string_view text;
    std::optional<uint32_t> hits;  // nothing: refused
  } const table[] = {
      {R"({"hitsAddend":"1e2"})", 100u},
      {R"({"hitsAddend":"1.0"})", 1u},
      {R"({"hitsAddend":"-0"})", 0u},
      {R"({"hitsAddend":1,"hitsAddend":2})", std::nullopt},
      {R"({"hitsAddend":1,"hits_addend":2})", std::nullopt},
      {R"({"hitsAddend":null,"hitsAddend":2})", std::nullopt},
      {R"({'hitsAddend':1})", std::nullopt},
      {R"({hitsAddend:1})", std::nullopt},
      {R"({"hitsAddend":1,})", std::nullopt},
      {R"({"descriptors":{}})", std::nullopt},
      {R"({"descriptors":[null]})", std::nullopt},
      {R"({"descriptors":[{"isNegativeHits":"true"}]})", std::nullopt},
      {R"({"descriptors":[{"limit":{"unit":"2"}}]})", std::nullopt},
  };
  for (const auto& row : table) {
    const auto ours = read(row.text);
    ASSERT_EQ(ours.has_value(), row.hits.has_value()) << row.text << problem_of(row.text);
    if (ours) {
      EXPECT_EQ(ours->hits_addend(), *row.hits) << row.text;
    }
    const auto theirs = judged(row.text);
    EXPECT_FALSE(ours.has_value() == theirs.has_value() &&
                 (!ours || ours->SerializeAsString() == theirs->SerializeAsString()))
        << row.text;
  }
}

TEST(EnvoyJson, RefusesAndSaysWhere) {
  const std::pair<std::string, std::string_view> table[] = {
      {"", "the request: not JSON at byte 1"},
      {"hello", "the request: not JSON at byte 1"},
      {"[]", "the request: must be an object"},
      {"null", "the request: must be an object"},
      {"5", "the request: must be an object"},
      {"\"d\"", "the request: must be an object"},
      {"{} {}", "the request: not JSON at byte 4"},
      {"\xEF\xBB\xBF{}", "the request: not JSON"},
      {std::string("{}\0x", 4), "the request: not JSON"},
      {"{\"domain\":\"\xFF\"}", "the request: not JSON at byte 12"},
      {R"({"domain":"\ud800"})", "the request: not JSON at byte 18"},
      {R"({"domain":NaN})", "the request: not JSON at byte 11"},
      {R"({"domain":5})", "domain: must be a text that is UTF-8"},
      {R"({"descriptors":[{"limit":{"unit":"minute"}}]})",
       "descriptors[0].limit.unit: must be the name or the number of a unit"},
      {R"({"nosuch":1})", "the request: there is no such field: nosuch"},
      {R"({"key":"k"})", "the request: there is no such field: key"},
      {R"({"descriptors":[{},{"limit":{"unit":1,"name":"x"}}]})",
       "descriptors[1].limit: there is no such field: name"},
      {R"({"descriptors":[{"entries":[{"key":"k"},{"key":{}}]}]})",
       "descriptors[0].entries[1].key: must be a text that is UTF-8"},
      {R"({"descriptors":[{"entries":{}}]})", "descriptors[0].entries: must be a list"},
      {R"({"descriptors":[{"entries":[[]]}]})", "descriptors[0]: must be an object"},
      {R"({"descriptors":[{"limit":[]}]})", "descriptors[0].limit: must be an object"},
      {R"({"descriptors":[{"limit":{"unit":true}}]})",
       "descriptors[0].limit.unit: must be the name or the number of a unit"},
      {R"({"descriptors":[{"limit":{"unit":"WEEK"}}]})",
       "descriptors[0].limit.unit: must be the name or the number of a unit"},
      {R"({"descriptors":[{"limit":{"unit":2147483648}}]})",
       "descriptors[0].limit.unit: must be the name or the number of a unit"},
      {R"({"descriptors":[{"limit":{"requestsPerUnit":4294967296}}]})",
       "descriptors[0].limit.requestsPerUnit: must be a whole number of at most 4294967295"},
      {R"({"descriptors":[{"hitsAddend":{"value":5}}]})",
       "descriptors[0].hitsAddend: must be a whole number of at most 18446744073709551615"},
      {R"({"descriptors":[{"isNegativeHits":1}]})",
       "descriptors[0].isNegativeHits: must be true or false"},
      {R"({"descriptors":[{"limit":{"unit":1,"unit":1}}]})",
       "descriptors[0].limit.unit: there twice"},
      {R"({"hitsAddend":[1]})", "hitsAddend: must be a whole number of at most 4294967295"},
  };
  for (const auto& [text, problem] : table) EXPECT_EQ(problem_of(text), problem) << text;

  for (const std::string_view number : {"-1",       "1.5",           "1e-1",
                                        "0.1",      "4294967296",    "1e10",
                                        "1e400",    "1e99999999999", "18446744073709551616",
                                        "\"\"",     "\"-\"",         "\"+1\"",
                                        "\"1 \"",   "\" 1\"",        "01",
                                        "\"0x1\"",  "\"1.\"",        "\".5\"",
                                        "\"1e\"",   "\"01\"",        "\"1e+\"",
                                        "\"null\"", "\"1,\"",        "\"1e-99999999999\"",
                                        "true"}) {
    const std::string text = "{\"hitsAddend\":" + std::string(number) + "}";
    EXPECT_NE(problem_of(text), "") << text;
  }
  for (const std::string_view number : {"0e99999999999", "\"0e-5\"", "\"0.0001e4\"", "\"10e-1\""})
    EXPECT_EQ(problem_of("{\"hitsAddend\":" + std::string(number) + "}"), "") << number;
}

TEST(EnvoyJson, Depth) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(problem_of("{\"descriptors\":" + deep), "the request: must be an object");
  EXPECT_EQ(problem_of(deep), "the request: must be an object");
}

TEST(EnvoyJson, Bounds) {
  const auto list = [](size_t n, const std::string& item) {
    std::string text = "[";
    for (; n > 0; --n) text += item + (n > 1 ? "," : "");
    return text + "]";
  };
  const auto request = [](const std::string& descriptors) {
    return "{\"descriptors\":" + descriptors + "}";
  };
  const auto is_too_large = [](const std::string& body) {
    JsonRequest into;
    const auto problem = read_json_request(body, into);
    return problem && problem->too_large;
  };
  EXPECT_EQ(problem_of(request(list(request_descriptors_max, "{}"))), "");
  EXPECT_TRUE(is_too_large(request(list(request_descriptors_max + 1, "{}"))));
  const std::string full = "{\"entries\":" + list(descriptor_entries_max, "{}") + "}";
  EXPECT_TRUE(is_too_large(
      request(list(1, "{\"entries\":" + list(descriptor_entries_max + 1, "{}") + "}"))));
  constexpr size_t full_ones = request_entries_max / descriptor_entries_max;
  EXPECT_EQ(problem_of(request(list(full_ones, full))), "");
  EXPECT_TRUE(is_too_large(request(list(full_ones + 1, full))));
  EXPECT_TRUE(is_too_large("{}" + std::string(message_bytes_max - 1, ' ')));
  EXPECT_EQ(problem_of("{}" + std::string(message_bytes_max - 2, ' ')), "");
  EXPECT_FALSE(is_too_large("["));
}

TEST(EnvoyJson, ReadingAgainClearsTheEarlierRequest) {
  JsonRequest into;
  ASSERT_FALSE(read_json_request(
      R"({"domain":"first","hitsAddend":2,"descriptors":[{"entries":[{"key":"k"}]}]})", into));
  ASSERT_FALSE(read_json_request(R"({"domain":"second"})", into));
  EXPECT_EQ(into.request.domain, "second");
  EXPECT_EQ(into.request.hits_addend, 0u);
  EXPECT_TRUE(into.request.descriptors.empty());
  EXPECT_TRUE(into.request.entries.empty());
}

std::string written(const RateLimitResponse& response) {
  base::Buffer out;
  append_json_response(response, out);
  return std::string(out.view());
}

TEST(EnvoyJson, WritesWhatProtobufReads) {
  Dice dice(4);
  std::vector<std::string> texts;
  for (int i = 0; i < 2'000; ++i) {
    const RateLimitResponse response = judge::some_response(dice, texts);
    const proto::RateLimitResponse expected = to_proto(response);
    const std::string text = written(response);
    proto::RateLimitResponse theirs;
    const auto read = pb::JsonStringToMessage(text, &theirs);
    ASSERT_TRUE(read.ok()) << text << read.ToString();
    ASSERT_TRUE(pb::MessageDifferencer::Equals(theirs, expected))
        << text << expected.DebugString() << theirs.DebugString();
    // Both texts have the same members, with the same types.
    const std::string their_text = json_of(expected);
    ASSERT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(their_text)) << text << their_text;
  }
}

TEST(EnvoyJson, WritesNumbersOutsideJson) {
  base::Buffer out;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  append_json(
      MetadataMap{
          {"a", infinite}, {"b", -infinite}, {"c", std::numeric_limits<double>::quiet_NaN()}},
      out);
  EXPECT_EQ(out.view(), R"({"a":"Infinity","b":"-Infinity","c":"NaN"})");
}

TEST(EnvoyJson, Writes) {
  RateLimitResponse response;
  EXPECT_EQ(written(response), "{}");
  response.overall_code = Code::over_limit;
  response.statuses.resize(2);
  response.statuses[0] = {Code::over_limit, CurrentLimit{5, WireUnit::minute, "a \"name\"\n", 30},
                          0, 12};
  response.response_headers_to_add.push_back({"k", "v"});
  response.dynamic_metadata =
      MetadataMap{{"n", MetadataValue()}, {"f", MetadataValue(1.5)}, {"whole", MetadataValue(3.0)}};
  EXPECT_EQ(written(response),
            R"({"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":)"
            R"({"requestsPerUnit":5,"unit":"MINUTE","name":"a \"name\"\n","unitMultiplier":30},)"
            R"("durationUntilReset":"12s"},{}],"responseHeadersToAdd":[{"key":"k","value":"v"}],)"
            R"("dynamicMetadata":{"n":null,"f":1.5,"whole":3}})");
}

}  // namespace
}  // namespace sluice::envoy::json_test
