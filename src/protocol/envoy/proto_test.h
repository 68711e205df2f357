// For tests: messages of Envoy's protocol in the classes that protoc generates from
// proto/envoy and proto/grpc, made at random or converted from sluice's own messages.
#pragma once

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <grpc/health/v1/health.pb.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/metadata_value.h"
#include "tests/support/dice.h"

namespace sluice::envoy::proto {

using ::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;
using ::envoy::type::v3::RateLimitUnit;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

}  // namespace sluice::envoy::proto

namespace sluice::envoy::judge {

inline std::string some_text(tests::Dice& dice) {
  static constexpr std::string_view texts[] = {"",
                                               "a",
                                               "domain",
                                               "k1",
                                               "1.2.3.4",
                                               "\"q\"\\/\b\f\n\r\t",
                                               "\xC3\xA9\xE6\x97\xA5",
                                               "\xF0\x9F\x8D\xAA",
                                               "\x01\x1F\x7F"};
  return dice(8) == 0 ? std::string(dice(size_t{300}), 'x')
                      : std::string(texts[dice(std::size(texts))]);
}

// Half of the numbers are below 10, the others at the ends of ranges.
inline uint64_t some_number(tests::Dice& dice) {
  static constexpr uint64_t numbers[] = {0,
                                         1,
                                         127,
                                         128,
                                         16'383,
                                         16'384,
                                         UINT32_MAX,
                                         uint64_t{UINT32_MAX} + 1,
                                         uint64_t{1} << 53,
                                         INT64_MAX,
                                         uint64_t{1} << 63,
                                         UINT64_MAX};
  return dice(2) == 0 ? dice(uint64_t{10}) : numbers[dice(std::size(numbers))];
}

inline proto::RateLimitRequest some_request(tests::Dice& dice) {
  proto::RateLimitRequest request;
  request.set_domain(some_text(dice));
  request.set_hits_addend(static_cast<uint32_t>(some_number(dice)));
  for (int n = dice(4); n > 0; --n) {
    auto& descriptor = *request.add_descriptors();
    for (int entries = dice(4); entries > 0; --entries) {
      auto& entry = *descriptor.add_entries();
      entry.set_key(some_text(dice));
      entry.set_value(some_text(dice));
    }
    if (dice(2) == 0) {
      auto& limit = *descriptor.mutable_limit();
      limit.set_requests_per_unit(static_cast<uint32_t>(some_number(dice)));
      limit.set_unit(static_cast<proto::RateLimitUnit>(dice(12) - 2));
      if (dice(2) == 0)
        limit.mutable_unit_multiplier()->set_value(static_cast<uint32_t>(some_number(dice)));
    }
    if (dice(2) == 0) descriptor.mutable_hits_addend()->set_value(some_number(dice));
    descriptor.set_is_negative_hits(dice(2) == 0);
  }
  return request;
}

inline proto::RateLimitRequest to_proto(const RateLimitRequest& request) {
  proto::RateLimitRequest to;
  to.set_domain(std::string(request.domain));
  to.set_hits_addend(request.hits_addend);
  for (const Descriptor& descriptor : request.descriptors) {
    auto& into = *to.add_descriptors();
    for (const Entry& entry : request.entries_of(descriptor)) {
      auto& copy = *into.add_entries();
      copy.set_key(std::string(entry.key));
      copy.set_value(std::string(entry.value));
    }
    if (descriptor.limit) {
      auto& limit = *into.mutable_limit();
      limit.set_requests_per_unit(descriptor.limit->requests_per_unit);
      limit.set_unit(static_cast<proto::RateLimitUnit>(descriptor.limit->unit));
      if (descriptor.limit->unit_multiplier)
        limit.mutable_unit_multiplier()->set_value(*descriptor.limit->unit_multiplier);
    }
    if (descriptor.hits_addend) into.mutable_hits_addend()->set_value(*descriptor.hits_addend);
    into.set_is_negative_hits(descriptor.is_negative_hits);
  }
  return to;
}

inline MetadataMap some_map(tests::Dice& dice, int depth);

inline MetadataValue some_value(tests::Dice& dice, int depth) {
  switch (dice(depth > 0 ? 6 : 4)) {
    case 0:
      return {};
    case 1:
      return MetadataValue(dice(2) == 0);
    case 2: {
      static constexpr double numbers[] = {0, 1, -1.5, 1e21, 1e-7, 0.1, 9007199254740993.0, 1e308};
      return MetadataValue(numbers[dice(std::size(numbers))]);
    }
    case 3:
      return MetadataValue(some_text(dice));
    case 4: {
      MetadataList list;
      for (int n = dice(4); n > 0; --n) list.push_back(some_value(dice, depth - 1));
      return MetadataValue(list);
    }
    default:
      return MetadataValue(some_map(dice, depth - 1));
  }
}

inline MetadataMap some_map(tests::Dice& dice, int depth) {
  MetadataMap map;
  for (int n = dice(4); n > 0; --n) {
    // The keys differ; one may be empty.
    std::string key = n == 3 ? "" : some_text(dice) + std::to_string(n);
    map.emplace_back(key, some_value(dice, depth));
  }
  return map;
}

inline void fill_struct(const MetadataMap& map, google::protobuf::Struct& to);

inline void fill_value(const MetadataValue& value, google::protobuf::Value& to) {
  if (const auto* truth = std::get_if<bool>(&value.data)) {
    to.set_bool_value(*truth);
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    to.set_number_value(*number);
  } else if (const auto* text = std::get_if<std::string>(&value.data)) {
    to.set_string_value(*text);
  } else if (const auto* list = std::get_if<MetadataList>(&value.data)) {
    to.mutable_list_value();
    for (const MetadataValue& item : *list)
      fill_value(item, *to.mutable_list_value()->add_values());
  } else if (const auto* map = std::get_if<MetadataMap>(&value.data)) {
    fill_struct(*map, *to.mutable_struct_value());
  } else {
    to.set_null_value(google::protobuf::NULL_VALUE);
  }
}

inline void fill_struct(const MetadataMap& map, google::protobuf::Struct& to) {
  for (const auto& [key, value] : map) fill_value(value, (*to.mutable_fields())[key]);
}

// The response points into `texts`.
inline RateLimitResponse some_response(tests::Dice& dice, std::vector<std::string>& texts) {
  texts.clear();
  texts.reserve(32);
  const auto keep = [&]() -> std::string_view { return texts.emplace_back(some_text(dice)); };
  RateLimitResponse response;
  response.overall_code = static_cast<Code>(dice(5) - 1);
  for (int n = dice(4); n > 0; --n) {
    DescriptorStatus& status = response.statuses.emplace_back();
    status.code = static_cast<Code>(dice(5) - 1);
    if (dice(2) == 0)
      status.current_limit = CurrentLimit{static_cast<uint32_t>(some_number(dice)),
                                          static_cast<WireUnit>(dice(11) - 1), keep(),
                                          static_cast<uint32_t>(some_number(dice))};
    status.limit_remaining = static_cast<uint32_t>(some_number(dice));
    if (dice(2) == 0) status.seconds_until_reset = dice(int64_t{400}) * dice(int64_t{100'000});
  }
  for (int n = dice(4); n > 0; --n)
    response.response_headers_to_add.push_back({keep(), some_text(dice)});
  if (dice(2) == 0) response.dynamic_metadata = some_map(dice, 4);
  return response;
}

inline proto::RateLimitResponse to_proto(const RateLimitResponse& response) {
  proto::RateLimitResponse to;
  to.set_overall_code(static_cast<proto::RateLimitResponse::Code>(response.overall_code));
  for (const DescriptorStatus& status : response.statuses) {
    auto& into = *to.add_statuses();
    into.set_code(static_cast<proto::RateLimitResponse::Code>(status.code));
    if (status.current_limit) {
      auto& limit = *into.mutable_current_limit();
      limit.set_requests_per_unit(status.current_limit->requests_per_unit);
      limit.set_unit(
          static_cast<proto::RateLimitResponse::RateLimit::Unit>(status.current_limit->unit));
      limit.set_name(std::string(status.current_limit->name));
      if (status.current_limit->unit_multiplier != 0)
        limit.mutable_unit_multiplier()->set_value(status.current_limit->unit_multiplier);
    }
    into.set_limit_remaining(status.limit_remaining);
    if (status.seconds_until_reset)
      into.mutable_duration_until_reset()->set_seconds(*status.seconds_until_reset);
  }
  for (const HeaderValue& header : response.response_headers_to_add) {
    auto& into = *to.add_response_headers_to_add();
    into.set_key(std::string(header.key));
    into.set_value(header.value);
  }
  if (response.dynamic_metadata)
    fill_struct(*response.dynamic_metadata, *to.mutable_dynamic_metadata());
  return to;
}

inline std::string written(const RateLimitResponse& response) {
  base::Buffer out;
  append_response(response, out);
  return std::string(out.view());
}

}  // namespace sluice::envoy::judge
