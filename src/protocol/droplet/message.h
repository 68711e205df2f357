// droplet's two messages (proto/droplet.proto, docs/droplet-protocol.md), a request and a response,
// read from their bytes and written to them. Plain functions without state; any thread. Views of a
// request point into the bytes it was read from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "base/time.h"
#include "limit/limit.h"

namespace sluice::droplet {

// The periods of the fields ls, lm, lh, ld, lw, lo, in that order: that of the fields' numbers, and
// of the bits of Verdict::slot_mask.
inline constexpr std::array<base::Duration, 6> droplet_windows{
    base::seconds(1),      base::seconds(60),         base::seconds(3'600),
    base::seconds(86'400), base::seconds(7 * 86'400), base::seconds(30 * 86'400)};

// Their names, in the same order.
inline constexpr std::array<std::string_view, droplet_windows.size()> droplet_periods{
    "ls", "lm", "lh", "ld", "lw", "lo"};

// With what an absent field stands for.
struct DropletRequest {
  std::string_view bucket{}, id{};
  int32_t count = 1;
  bool reset = false;
  std::array<uint32_t, droplet_windows.size()> limits{};  // 0: none
  uint32_t type = 0;                                      // 0 is a take, all else a query
};

inline constexpr uint32_t query_type = 1;  // what clients write

// False: not a request. `request` is then of no use.
bool read_droplet_request(std::string_view bytes, DropletRequest& request);

// What is as absent is left out, but for the names.
void append_droplet_request(const DropletRequest& request, base::Buffer& out);

struct DropletResponse {
  bool accept = false;
  // Of the periods in the answer: what is left or, after a refusal, would have been.
  std::array<std::optional<int32_t>, droplet_windows.size()> left{};
};

// False: not a response. `response` is then of no use.
bool read_droplet_response(std::string_view bytes, DropletResponse& response);

// A tag and a flag, and for each period a tag and at most ten bytes.
inline constexpr size_t droplet_response_bytes_max = 2 + droplet_windows.size() * 11;

// Writes a response at `out`, which has room for droplet_response_bytes_max, and returns its size.
// `slots`: a decision for each set bit of slot_mask, in rising order. What remains is shown as an
// int32, at its ends if it lies beyond them.
size_t write_droplet_response(bool accept, uint32_t slot_mask,
                              std::span<const limit::Decision> slots, char* out);

}  // namespace sluice::droplet
