// What the sessions of the Redis protocol go by, and what they share. Constant once the server
// runs, but for the latter; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "protocol/resp/clients.h"
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

struct RespOptions final : request::SessionOptions {
  std::array<bool, family_names.size()> answers = {true, true, true, true};  // by CommandFamily
  bool inline_limits = true;  // SLUICE commands may bring limits along (KEY ... LIMIT ...)
  Unmatched unmatched = Unmatched::error;
  size_t waiting_max = 10'000;  // clients that wait at a time
  wire::RespBounds bounds{};
  std::shared_ptr<Clients> clients = std::make_shared<Clients>();  // of the server
};

}  // namespace sluice::resp
