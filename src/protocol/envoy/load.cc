#include "protocol/load.h"

#include <algorithm>

#include "protocol/envoy/client_messages.h"
#include "protocol/http2_load.h"
#include "wire/grpc.h"

namespace sluice::envoy {
namespace grpc_load {
namespace {

using protocol::LoadOutcome;

constexpr size_t key_digits = 12;

constexpr protocol::http2_load::Fields header_fields = {
    {":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
    {":authority", "127.0.0.1:8081"},
    {"content-type", "application/grpc"},
    {"te", "trailers"}};

LoadOutcome outcome_of(std::string_view data) {
  RateLimitResponse response;
  if (data.size() < wire::grpc_prefix_bytes) return LoadOutcome::error;
  const wire::GrpcPrefix prefix = wire::GrpcPrefix::read(data);
  const std::string_view message = data.substr(wire::grpc_prefix_bytes);
  if (prefix.flags != 0 || prefix.bytes != message.size() || !read_response(message, response))
    return LoadOutcome::error;
  switch (response.overall_code) {
    case Code::ok:
      return LoadOutcome::allowed;
    case Code::over_limit:
      return LoadOutcome::denied;
    default:
      return LoadOutcome::error;
  }
}

class GrpcLoadClient final : public protocol::LoadClient {
 public:
  GrpcLoadClient()
      : first_block_(protocol::http2_load::first_headers(header_fields)),
        greeting_(protocol::http2_load_greeting()) {}

  std::string_view greeting() const override { return greeting_; }

  void append_request(std::string_view key, std::string& out) override {
    value_.assign("key:").append(key_digits - std::min(key_digits, key.size()), '0').append(key);
    request_.clear();
    request_.domain = "bench";
    request_.entries.push_back({"remote_address", value_});
    request_.descriptors.emplace_back().entry_count = 1;
    message_.clear();
    envoy::append_request(request_, message_);
    std::string data(wire::grpc_prefix_bytes, '\0');
    wire::GrpcPrefix{.bytes = static_cast<uint32_t>(message_.size())}.write(data.data());
    data += message_.view();
    protocol::append_http2_load_request(data, out);
  }

  std::unique_ptr<protocol::LoadConnection> connect() const override {
    return std::make_unique<protocol::Http2LoadConnection>(first_block_, outcome_of);
  }

 private:
  const std::string first_block_;
  std::string greeting_, value_;
  RateLimitRequest request_;
  base::Buffer message_;
};

}  // namespace
}  // namespace grpc_load

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<grpc_load::GrpcLoadClient>();
    },
};

}  // namespace sluice::envoy
