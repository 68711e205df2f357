// Reads and writes droplet's two messages (proto/droplet.proto, docs/droplet-protocol.md): request
// and response. Functions without state; any thread. Views of a request point into the bytes from
// which it was read.
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

// The periods of the fields ls, lm, lh, ld, lw, lo. This is the order of the fields' numbers, and
// of the bits of Verdict::slot_mask.
inline constexpr std::array<base::Duration, 6> droplet_windows{
    base::seconds(1),      base::seconds(60),         base::seconds(3'600),
    base::seconds(86'400), base::seconds(7 * 86'400), base::seconds(30 * 86'400)};

// The names of the periods, in the same order.
inline constexpr std::array<std::string_view, droplet_windows.size()> droplet_periods{
    "ls", "lm", "lh", "ld", "lw", "lo"};

// A request. Absent fields have the values below.
struct DropletRequest {
  std::string_view bucket{}, id{};
  int32_t count = 1;
  bool reset = false;
  std::array<uint32_t, droplet_windows.size()> limits{};  // 0: no limit
  uint32_t type = 0;                                      // 0: a take; otherwise a query
};

inline constexpr uint32_t query_type = 1;  // the type that clients write for a query

// False: the bytes are not a request, and `request` must not be used.
bool read_droplet_request(std::string_view bytes, DropletRequest& request);

// Appends the request. Fields with the values of absent ones are left out, except the names.
void append_droplet_request(const DropletRequest& request, base::Buffer& out);

struct DropletResponse {
  bool accept = false;
  // For the periods in the answer: the units left or, after a refusal, that would have been left.
  std::array<std::optional<int32_t>, droplet_windows.size()> left{};
};

// False: the bytes are not a response, and `response` must not be used.
bool read_droplet_response(std::string_view bytes, DropletResponse& response);

// A tag and a flag; for each period a tag and at most ten bytes.
inline constexpr size_t droplet_response_bytes_max = 2 + droplet_windows.size() * 11;

// Writes a response to `out`, which must have room for droplet_response_bytes_max bytes, and
// returns its size. `slots`: a decision for each bit of slot_mask, in ascending order. The units
// left are written as an int32; numbers beyond its range become its ends.
size_t write_droplet_response(bool accept, uint32_t slot_mask,
                              std::span<const limit::Decision> slots, char* out);

}  // namespace sluice::droplet
