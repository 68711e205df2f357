// What the sessions of the HTTP protocol go by. Constant once the server runs; any thread.
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
#include "protocol/http/idempotency.h"
#include "protocol/http/limit_fields.h"
#include "request/peer.h"

namespace sluice::http {

// What a request is answered to which no rule applies.
enum class Unmatched : uint8_t { error, allow, deny };
inline constexpr std::array<std::string_view, 3> unmatched_names = {"error", "allow", "deny"};

// Requests of one connection that wait for units, at most. Past it: 503.
inline constexpr size_t waiting_per_connection_max = 100;
inline constexpr size_t body_bytes_max = size_t{1} << 20;

struct HttpOptions final : request::SessionOptions {
  Unmatched unmatched = Unmatched::error;
  bool inline_limits = true;
  bool get_takes = false;
  bool throttlecrab = false;  // POST /throttle and GET /health as throttlecrab has them
  request::OnError on_store_error = request::OnError::error;  // of inline limits
  base::Duration wait_max = base::seconds(60);
  size_t waiting_max = 10'000;  // of the server; past it: 503
  HeaderOptions headers;
  // Members of the fields tell which actor they are of, by a hash with the server's own secret.
  bool partition_keys = false;
  std::array<unsigned char, 32> partition_secret{};
  unsigned retry_jitter_percent = 0;  // of Retry-After, that may be added by chance
  // Beside addresses and `localhost`, names that Host may have; and origins of pages that may ask.
  std::vector<std::string> hosts, origins;
  base::Duration idempotency_ttl = base::seconds(60);  // 0: keys are refused
  size_t idempotency_bytes = size_t{64} << 20;
  AuthOptions auth;
  base::Duration idle_timeout{};  // 0: none

  // What the sessions of the server share; null in a test that has none of it.
  std::shared_ptr<IdempotencyMemory> idempotency;
  std::shared_ptr<class WaitCount> waits;
};

}  // namespace sluice::http
