// The faults of a peer of HTTP/2 that end its connection, and how often it may do things that are
// allowed but become a burden if they are repeated. Plain values of one session.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace sluice::wire {

// The frames of one kind that a peer may send besides its requests: at a time, per second, and in
// addition for each answer to it. Beyond that: GOAWAY with ENHANCE_YOUR_CALM.
inline constexpr int64_t http2_frames_max = 10'000;
inline constexpr int64_t http2_frames_per_second = 100;
inline constexpr int64_t http2_frames_per_answer = 4;
// The same for requests that the peer resets before they are answered, or makes the server reset by
// sending something that is forbidden.
inline constexpr int64_t http2_resets_max = 1'000;
inline constexpr int64_t http2_resets_per_second = 100;
inline constexpr int64_t http2_resets_per_answer = 1;
// A DATA frame with a smaller payload counts as `small_data`.
inline constexpr size_t http2_small_data_bytes = 64;

enum class Http2Fault : uint8_t {
  none,
  not_http2,         // does not begin with the client's preface
  protocol,          // this one and the next four: errors of a connection, as RFC 9113 names them
  flow_control,      //
  frame_size,        //
  compression,       //
  stream_closed,     //
  settings_size,     // too many entries in one SETTINGS frame
  header_list,       // a header list far larger than the announced size
  continuations,     // too many CONTINUATION frames of one header block
  resets,            // this one to other_frames: too many of each
  reset_frames,      //
  settings,          //
  pings,             //
  priorities,        //
  window_updates,    //
  small_data,        //
  repeated_headers,  // HEADERS for streams that had begun before
  refused_streams,   //
  other_frames,      //
  unsent_control,    // more acknowledgements than are kept for a peer that does not read
  memory,            // the system has no memory
  internal,          //
};
inline constexpr size_t http2_fault_count = static_cast<size_t>(Http2Fault::internal) + 1;

// The label for metrics, as in "window_updates".
std::string_view http2_fault_name(Http2Fault fault);
// The text that is sent to the peer in GOAWAY.
std::string_view http2_fault_text(Http2Fault fault);
uint32_t http2_fault_code(Http2Fault fault);  // the code in GOAWAY
Http2Fault http2_fault_of(uint32_t code);     // for a code in a GOAWAY that nghttp2 sends

// Counts how often a peer may still do each thing that is bounded above.
class Http2Allowances {
 public:
  // Counts one thing of a kind, `resets` to `other_frames`. False: it exceeds the bound.
  bool spend(Http2Fault kind) {
    int64_t& left = left_[index(kind)];
    if (left == 0) add_answers();
    if (left == 0) return false;
    --left;
    return true;
  }
  void on_answers(int64_t count) { answers_ += count; }
  // Adds what the time since the last call allows. A step back of `now` counts as no time.
  void on_time(base::Time now);

 private:
  static constexpr auto first = static_cast<size_t>(Http2Fault::resets);
  static constexpr size_t kinds = static_cast<size_t>(Http2Fault::other_frames) - first + 1;

  static size_t index(Http2Fault kind) { return static_cast<size_t>(kind) - first; }
  static constexpr std::array<int64_t, kinds> full() {
    std::array<int64_t, kinds> all{};
    for (size_t i = 0; i < kinds; ++i) all[i] = i == 0 ? http2_resets_max : http2_frames_max;
    return all;
  }

  void add_answers();
  void add(int64_t resets, int64_t frames);

  std::array<int64_t, kinds> left_ = full();
  int64_t answers_ = 0;  // since the last add_answers
  base::Time refilled_at_{INT64_MIN};
};

}  // namespace sluice::wire
