// The options of the sessions of the HTTP protocol. Constant once the server runs; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "protocol/http/auth_profile.h"
#include "protocol/http/limit_fields.h"
#include "request/peer.h"

namespace sluice::http {

// The answer to a request to which no rule applies.
enum class Unmatched : uint8_t { error, allow, deny };
inline constexpr std::array<std::string_view, 3> unmatched_names = {"error", "allow", "deny"};

// The most requests of a connection that wait for units. Beyond it: 503.
inline constexpr size_t waiting_per_connection_max = 100;
inline constexpr size_t body_bytes_max = size_t{1} << 20;

struct HttpOptions final : request::SessionOptions {
  Unmatched unmatched = Unmatched::error;
  bool inline_limits = true;
  bool get_takes = false;
  bool throttlecrab = false;  // serve POST /throttle and GET /health as throttlecrab does
  request::OnError on_store_error = request::OnError::error;  // for limits that requests bring
  base::Duration wait_max = base::seconds(60);
  size_t waiting_max = 10'000;  // the most waiting requests of the server; beyond it: 503
  HeaderOptions headers;
  // The fields name the actor (`pk`), by a hash with a secret of the server.
  bool partition_keys = false;
  std::array<unsigned char, 32> partition_secret{};
  unsigned retry_jitter_percent = 0;  // the most that is added to Retry-After at random
  // Names that Host may have besides addresses and `localhost`; and the origins of web pages that
  // may send requests.
  std::vector<std::string> hosts, origins;
  AuthOptions auth;
  base::Duration idle_timeout{};  // 0: none

  // Shared by the sessions of the server; null in tests without it.
  std::shared_ptr<class WaitCount> waits;
};

}  // namespace sluice::http
