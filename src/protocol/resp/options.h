// What the sessions of the Redis protocol go by, and what they share. Constant once the server
// runs, but for the latter; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/time.h"
#include "protocol/resp/clients.h"
#include "request/charge.h"
#include "request/peer.h"
#include "wire/resp.h"

namespace sluice::resp {

// The families of commands that a configuration may leave out.
enum class CommandFamily : uint8_t { cell, throttle, gcra, sluice };
inline constexpr std::array<std::string_view, 4> family_names = {"cell", "throttle", "gcra",
                                                                 "sluice"};

// What SLUICE commands answer where no rule applies.
enum class Unmatched : uint8_t { error, allow, deny };
inline constexpr std::array<std::string_view, 3> unmatched_names = {"error", "allow", "deny"};

// What the commands that throttle, and limits that come with a command, answer where the store
// cannot decide.
inline constexpr std::array<std::string_view, 3> store_error_names = {"error", "allow", "deny"};
inline constexpr std::array<request::OnError, 3> store_error_answers = {
    request::OnError::error, request::OnError::allow, request::OnError::deny};

struct RespOptions final : request::SessionOptions {
  std::array<bool, family_names.size()> answers = {true, true, true, true};  // by CommandFamily
  bool inline_limits = true;  // SLUICE commands may bring limits along (KEY ... LIMIT ...)
  Unmatched unmatched = Unmatched::error;
  size_t waiting_max = 10'000;                                // clients that wait at a time
  request::OnError on_store_error = request::OnError::error;  // of store_error_answers
  bool throttle_true_reset = false;  // THROTTLE's reset_after is the time until the bucket is full
  bool cell_shared = false;  // counters of CL.THROTTLE are in Redis as redis-cell has them there
  base::Duration idle_timeout{};  // 0: none
  wire::RespBounds bounds{};
  std::shared_ptr<Clients> clients = std::make_shared<Clients>();  // of the server
};

}  // namespace sluice::resp
