// The options of the sessions of the Redis protocol, which are constant once the server runs, and
// what these sessions share. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/time.h"
#include "request/charge.h"
#include "request/peer.h"
#include "wire/resp.h"

namespace sluice::resp {

// The families of commands; a configuration may turn each off.
enum class CommandFamily : uint8_t { cell, throttle, gcra, sluice };
inline constexpr std::array<std::string_view, 4> family_names = {"cell", "throttle", "gcra",
                                                                 "sluice"};

// The answer of SLUICE commands if no rule applies.
enum class Unmatched : uint8_t { error, allow, deny };
inline constexpr std::array<std::string_view, 3> unmatched_names = {"error", "allow", "deny"};

// The names of the answers to throttling commands, and to commands with inline limits, if the store
// cannot decide.
inline constexpr std::array<std::string_view, 3> store_error_names = {"error", "allow", "deny"};
inline constexpr std::array<request::OnError, 3> store_error_answers = {
    request::OnError::error, request::OnError::allow, request::OnError::deny};

// What the connections of a server share.
struct Connections {
  std::atomic<int64_t> last_id{0};
  std::atomic<size_t> waiting{0};  // for units
};

struct RespOptions final : request::SessionOptions {
  std::array<bool, family_names.size()> answers = {true, true, true, true};  // by CommandFamily
  bool inline_limits = true;  // SLUICE commands may bring limits (KEY ... LIMIT ...)
  Unmatched unmatched = Unmatched::error;
  size_t waiting_max = 10'000;                                // the most clients that wait
  request::OnError on_store_error = request::OnError::error;  // one of store_error_answers
  bool throttle_true_reset = false;  // THROTTLE's reset_after is the time until the bucket is full
  bool cell_shared = false;          // counters of CL.THROTTLE in Redis have redis-cell's form
  base::Duration idle_timeout{};     // 0: none
  wire::RespBounds bounds{};
  std::shared_ptr<Connections> connections = std::make_shared<Connections>();  // of the server
};

}  // namespace sluice::resp
