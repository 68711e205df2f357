// For tests of Kuadrant's service: a client that calls its four methods, and tells answers as short
// texts.
#pragma once

#include <kuadrant/service/ratelimit/v1/rls.pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/envoy/service_wishes_test.h"
#include "protocol/envoy/service_world_test.h"

namespace sluice::envoy::kuadrant_world {

using namespace service_world;
namespace wire_kuadrant = ::kuadrant::service::ratelimit::v1;

inline std::string kuadrant_path(std::string_view method) {
  return "/kuadrant.service.ratelimit.v1.RateLimitService/" + std::string(method);
}

// Sets the domain and the descriptors of a message, which are those of an Envoy request.
template <class Message>
void set_subjects(const std::vector<Wish>& wishes, const std::string& domain, Message& message) {
  proto::RateLimitRequest like;
  EXPECT_TRUE(like.ParseFromString(message_of(wishes, domain)));
  message.set_domain(domain);
  *message.mutable_descriptors() = like.descriptors();
}

// An error is its code and text.
struct Gateway {
  explicit Gateway(World& world, const std::string& token = {}) : client(world) {
    if (!token.empty()) more.emplace_back("authorization", "Bearer " + token);
  }

  GrpcAnswer call(std::string_view method, const std::string& message) {
    return client.call(message, kuadrant_path(method), more);
  }
  std::string check(const std::vector<Wish>& wishes, const std::string& domain = "d") {
    return code_of(call("CheckRateLimit", message_of(wishes, domain)));
  }
  std::string report(const std::vector<Wish>& wishes, uint32_t hits = 0,
                     const std::string& domain = "d") {
    proto::RateLimitRequest request;
    EXPECT_TRUE(request.ParseFromString(message_of(wishes, domain)));
    request.set_hits_addend(hits);
    return code_of(call("Report", request.SerializeAsString()));
  }
  std::string should_rate_limit(const std::vector<Wish>& wishes) {
    return told(client.call(message_of(wishes), GrpcClient::should_rate_limit, more));
  }
  // "OK", with the id in `id`, "OVER_LIMIT" without one.
  std::string reserve(const std::vector<Wish>& wishes, uint64_t amount,
                      std::optional<int64_t> ttl_ms = {}, const std::string& domain = "d") {
    wire_kuadrant::ReserveRequest request;
    set_subjects(wishes, domain, request);
    request.set_amount(amount);
    if (ttl_ms) {
      request.mutable_ttl()->set_seconds(*ttl_ms / 1'000);
      request.mutable_ttl()->set_nanos(static_cast<int32_t>(*ttl_ms % 1'000) * 1'000'000);
    }
    const GrpcAnswer answer = call("Reserve", request.SerializeAsString());
    id.clear();
    if (answer.code != 0) return std::to_string(answer.code) + " " + answer.text;
    wire_kuadrant::ReserveResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message));
    id = response.reservation_id();
    return proto::RateLimitResponse::Code_Name(response.code());
  }
  // "released" or "charged".
  std::string commit(const std::vector<Wish>& wishes, const std::string& its_id, uint64_t amount,
                     const std::string& domain = "d") {
    wire_kuadrant::CommitRequest request;
    set_subjects(wishes, domain, request);
    request.set_reservation_id(its_id);
    request.set_actual_amount(amount);
    const GrpcAnswer answer = call("Commit", request.SerializeAsString());
    if (answer.code != 0) return std::to_string(answer.code) + " " + answer.text;
    wire_kuadrant::CommitResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message));
    return response.reservation_released() ? "released" : "charged";
  }

  GrpcClient client;
  wire::http2_peer::Headers more;
  std::string id;

 private:
  static std::string code_of(const GrpcAnswer& answer) {
    if (answer.code != 0) return std::to_string(answer.code) + " " + answer.text;
    proto::RateLimitResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message));
    EXPECT_EQ(response.statuses_size(), 0);
    return proto::RateLimitResponse::Code_Name(response.overall_code());
  }
};

}  // namespace sluice::envoy::kuadrant_world
