#include "wire/http2_faults.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace sluice::wire {
namespace {

struct Fault {
  std::string_view name, text;
  uint32_t code;
};

constexpr std::array<Fault, http2_fault_count> faults{{
    {"none", "", NGHTTP2_NO_ERROR},
    {"not_http2", "the client's preface of HTTP/2 was expected", NGHTTP2_PROTOCOL_ERROR},
    {"protocol", "", NGHTTP2_PROTOCOL_ERROR},
    {"flow_control", "", NGHTTP2_FLOW_CONTROL_ERROR},
    {"frame_size", "", NGHTTP2_FRAME_SIZE_ERROR},
    {"compression", "", NGHTTP2_COMPRESSION_ERROR},
    {"stream_closed", "", NGHTTP2_STREAM_CLOSED},
    {"settings_size", "", NGHTTP2_ENHANCE_YOUR_CALM},
    {"header_list", "header list far too large", NGHTTP2_ENHANCE_YOUR_CALM},
    {"continuations", "too many CONTINUATION frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"resets", "too many requests reset", NGHTTP2_ENHANCE_YOUR_CALM},
    {"reset_frames", "too many RST_STREAM frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"settings", "too many SETTINGS frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"pings", "too many PING frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"priorities", "too many PRIORITY frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"window_updates", "too many WINDOW_UPDATE frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"small_data", "too many small DATA frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"repeated_headers", "too many HEADERS frames of streams begun before",
     NGHTTP2_ENHANCE_YOUR_CALM},
    {"refused_streams", "too many streams refused", NGHTTP2_ENHANCE_YOUR_CALM},
    {"other_frames", "too many frames without a use here", NGHTTP2_ENHANCE_YOUR_CALM},
    {"unsent_control", "acknowledgements are not read", NGHTTP2_ENHANCE_YOUR_CALM},
    {"memory", "out of memory", NGHTTP2_INTERNAL_ERROR},
    {"internal", "", NGHTTP2_INTERNAL_ERROR},
}};

}  // namespace

std::string_view http2_fault_name(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].name;
}

std::string_view http2_fault_text(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].text;
}

uint32_t http2_fault_code(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].code;
}

Http2Fault http2_fault_of(uint32_t code) {
  switch (code) {
    case NGHTTP2_NO_ERROR:
      return Http2Fault::none;
    case NGHTTP2_FLOW_CONTROL_ERROR:
      return Http2Fault::flow_control;
    case NGHTTP2_FRAME_SIZE_ERROR:
      return Http2Fault::frame_size;
    case NGHTTP2_COMPRESSION_ERROR:
      return Http2Fault::compression;
    case NGHTTP2_STREAM_CLOSED:
      return Http2Fault::stream_closed;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return Http2Fault::settings_size;  // the only flood that nghttp2 itself ends with this code
    case NGHTTP2_INTERNAL_ERROR:
      return Http2Fault::internal;
    default:
      return Http2Fault::protocol;
  }
}

void Http2Allowances::on_time(base::Time now) {
  if (refilled_at_.us == INT64_MIN || now < refilled_at_) {
    refilled_at_ = now;
    return;
  }
  const int64_t seconds = (now.us - refilled_at_.us) / 1'000'000;
  if (seconds == 0) return;
  refilled_at_.us += seconds * 1'000'000;
  const int64_t counted = std::min<int64_t>(seconds, http2_frames_max);
  add(counted * http2_resets_per_second, counted * http2_frames_per_second);
}

void Http2Allowances::add_answers() {
  const int64_t counted = std::min(answers_, http2_frames_max);
  answers_ = 0;
  add(counted * http2_resets_per_answer, counted * http2_frames_per_answer);
}

void Http2Allowances::add(int64_t resets, int64_t frames) {
  constexpr std::array<int64_t, kinds> most = full();
  for (size_t i = 0; i < kinds; ++i)
    left_[i] = std::min(left_[i] + (i == 0 ? resets : frames), most[i]);
}

}  // namespace sluice::wire
