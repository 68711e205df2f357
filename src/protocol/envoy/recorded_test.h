// For tests that replay the recordings of Envoy's rate limit service
// (tests/conformance/envoy.json): requests as bytes, answers as JSON, times filled in.
#pragma once

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/json.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/proto_test.h"
#include "tests/support/paths.h"

namespace sluice::envoy::recorded {

using nlohmann::json;

inline const json& recording() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/envoy.json"));
    return json::parse(file);
  }();
  return all;
}

inline std::string unbase64(std::string_view text) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(letters.find(c));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

// A text of the recording. Texts that are not UTF-8 are recorded as `{"b64": ...}`.
inline std::string recorded_text(const json& value) {
  return value.is_object() ? unbase64(value["b64"].get<std::string>()) : value.get<std::string>();
}

// A request of the recording as bytes. JSON cannot hold texts that are not UTF-8, so names stand in
// for them until the message is made.
inline std::string message_of(const json& call) {
  json plain = call;
  std::map<std::string, std::string> texts;
  for (json& descriptor : plain["descriptors"])
    for (json& entry : descriptor["entries"])
      for (json& value : entry)
        if (value.is_object()) {
          const std::string name = "stand-in " + std::to_string(texts.size());
          texts[name] = recorded_text(value);
          value = name;
        }
  proto::RateLimitRequest message;
  const auto read = google::protobuf::util::JsonStringToMessage(plain.dump(), &message);
  EXPECT_TRUE(read.ok()) << read.ToString() << plain;
  for (auto& descriptor : *message.mutable_descriptors())
    for (auto& entry : *descriptor.mutable_entries())
      if (texts.contains(entry.value())) entry.set_value(texts[entry.value()]);
  const google::protobuf::LogSilencer silence;
  return message.SerializeAsString();
}

// Replaces each `@60` in an answer by the seconds left of the window of 60 s. A duration gets its
// unit, "s".
inline void fill_in_times(json& answer, int64_t now, bool is_duration = false) {
  if (answer.is_structured()) {
    for (auto& [key, value] : answer.items())
      fill_in_times(value, now, key == "durationUntilReset");
  } else if (answer.is_string() && answer.get<std::string>().starts_with('@')) {
    const int64_t window = std::stoll(answer.get<std::string>().substr(1));
    answer = std::to_string(window - now % window) + (is_duration ? "s" : "");
  }
}

inline json as_json(const RateLimitResponse& response) {
  base::Buffer out;
  append_json_response(response, out);
  return json::parse(out.view());
}

// The bytes of a response as gRPC sends them, converted to JSON.
inline json bytes_as_json(std::string_view bytes) {
  proto::RateLimitResponse message;
  EXPECT_TRUE(message.ParseFromString(std::string(bytes)));
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &text).ok());
  return json::parse(text);
}
inline json by_bytes(const RateLimitResponse& response) {
  base::Buffer out;
  append_response(response, out);
  return bytes_as_json(out.view());
}

// The answer that sluice must give to a step: the `decision` if the step has one, else the recorded
// one.
inline const json& due(const json& step) {
  return step.contains("decision") ? step["decision"] : step;
}

// Compares an answer with the one that was recorded at `now` (Unix seconds).
inline void expect_reply(const json& recorded_case, json expected, json answer, int64_t now) {
  fill_in_times(expected, now);
  // The original prints an override's text with blanks that vary.
  if (recorded_case.contains("text_of_limit")) {
    for (json* reply : {&expected, &answer})
      for (json& descriptor : (*reply)["dynamicMetadata"]["descriptors"])
        if (descriptor.contains("limit")) descriptor["limit"] = "some text";
  }
  EXPECT_EQ(answer, expected);
}

}  // namespace sluice::envoy::recorded
