// For tests of the service: makes requests, and converts answers to short texts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_world_test.h"

namespace sluice::envoy::service_world {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Wish {
  Pairs entries;
  int64_t hits = 1;
  bool refund = false;
};

inline std::string message_of(const std::vector<Wish>& wishes, const std::string& domain = "d") {
  proto::RateLimitRequest request;
  request.set_domain(domain);
  for (const Wish& wish : wishes) {
    auto* const descriptor = request.add_descriptors();
    for (const auto& [key, value] : wish.entries) {
      auto* const entry = descriptor->add_entries();
      entry->set_key(key);
      entry->set_value(value);
    }
    if (wish.hits != 1)
      descriptor->mutable_hits_addend()->set_value(static_cast<uint64_t>(wish.hits));
    descriptor->set_is_negative_hits(wish.refund);
  }
  return request.SerializeAsString();
}

// The answer as "OVER_LIMIT: OVER_LIMIT 0/5 MINUTE 20s, OK 3/9 x HOUR 40s": the overall code, and
// for each descriptor its code, remaining/limit, the limit's name, unit, and time to reset. An
// error is its code and text.
inline std::string told(const GrpcAnswer& answer) {
  if (answer.code != 0) return std::to_string(answer.code) + " " + answer.text;
  proto::RateLimitResponse response;
  EXPECT_TRUE(response.ParseFromString(answer.message));
  const auto name = [](int code) { return code == 2 ? "OVER_LIMIT" : "OK"; };
  std::string text = std::string(name(response.overall_code())) + ":";
  for (const auto& status : response.statuses()) {
    text += (text.ends_with(':') ? " " : ", ") + std::string(name(status.code()));
    if (!status.has_current_limit()) continue;
    const auto& limit = status.current_limit();
    text += " " + std::to_string(status.limit_remaining()) + "/" +
            std::to_string(limit.requests_per_unit());
    if (!limit.name().empty()) text += " " + limit.name();
    text += " ";
    if (limit.has_unit_multiplier()) text += std::to_string(limit.unit_multiplier().value()) + "x";
    text += proto::RateLimitResponse::RateLimit::Unit_Name(limit.unit());
    text += " " + std::to_string(status.duration_until_reset().seconds()) + "s";
  }
  return text;
}

}  // namespace sluice::envoy::service_world
