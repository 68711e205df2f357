// What a peer may do wrong in HTTP/2 so that its connection ends, and how often it may do what is
// allowed once and a burden when repeated. Plain values of one session.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace sluice::wire {

// Frames of one kind that a peer may send beside its requests, a second and at a time, and those
// that each answer to it allows in addition. Past it: GOAWAY with ENHANCE_YOUR_CALM.
inline constexpr int64_t http2_frames_max = 10'000;
inline constexpr int64_t http2_frames_per_second = 100;
inline constexpr int64_t http2_frames_per_answer = 4;
// Requests that it may take back, or have reset by sending what is forbidden, before they are
// answered; likewise. Past it: the same.
inline constexpr int64_t http2_resets_max = 1'000;
inline constexpr int64_t http2_resets_per_second = 100;
inline constexpr int64_t http2_resets_per_answer = 1;
// A DATA frame with a smaller payload counts as one of these.
inline constexpr size_t http2_small_data_bytes = 64;

enum class Http2Fault : uint8_t {
  none,
  not_http2,         // does not begin with the client's preface
  protocol,          // the other errors of a connection, as RFC 9113 names them
  flow_control,      //
  frame_size,        //
  compression,       //
  stream_closed,     //
  settings_size,     // too many entries in one SETTINGS frame
  header_list,       // a header list far above what was announced
  continuations,     // too many CONTINUATION frames of one header block
  resets,            // too many of each of these
  reset_frames,      //
  settings,          //
  pings,             //
  priorities,        //
  window_updates,    //
  small_data,        //
  repeated_headers,  // HEADERS of streams that were begun before
  refused_streams,   //
  other_frames,      //
  unsent_control,    // more acknowledgements than are kept for a peer that does not read
  memory,            // the system has none
  internal,          //
};
inline constexpr size_t http2_fault_count = static_cast<size_t>(Http2Fault::internal) + 1;

// A metric's label: "window_updates".
std::string_view http2_fault_name(Http2Fault fault);
// What is sent to the peer in GOAWAY.
std::string_view http2_fault_text(Http2Fault fault);
uint32_t http2_fault_code(Http2Fault fault);  // of GOAWAY
Http2Fault http2_fault_of(uint32_t code);     // of a GOAWAY that nghttp2 sends

// How often a peer may still do what is a burden when repeated.
class Http2Allowances {
 public:
  // False: once more than it may.
  bool spend(Http2Fault kind) {
    int64_t& left = left_[index(kind)];
    if (left == 0) add_answers();
    if (left == 0) return false;
    --left;
    return true;
  }
  void on_answers(int64_t count) { answers_ += count; }
  // Time only goes on; one that goes back counts as standing still.
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
