// Find the ends of the parts of an HTTP/1.1 head. Each function returns the place of the first byte
// from `at` on that does not belong to the part, or the size of `in`. Pure functions; any thread.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/http_field.h"

namespace sluice::wire {

using HttpByteSet = std::array<bool, 256>;

constexpr bool is_in(const HttpByteSet& set, char c) {
  return set[static_cast<unsigned char>(c)];
}

constexpr HttpByteSet make_http_value_bytes() {
  HttpByteSet set{};
  for (size_t i = 0; i < set.size(); ++i) set[i] = i == '\t' || (i >= ' ' && i != 0x7F);
  return set;
}
// The bytes of a value (RFC 9110, 5.5): all except control characters; tabs are allowed.
inline constexpr HttpByteSet http_value_bytes = make_http_value_bytes();

inline size_t skip_set(const HttpByteSet& set, std::string_view in, size_t at) {
  const char* const bytes = in.data();
  const size_t unrolled = in.size() < 4 ? 0 : in.size() - 3;
  for (; at < unrolled; at += 4) {
    if (!is_in(set, bytes[at])) return at;
    if (!is_in(set, bytes[at + 1])) return at + 1;
    if (!is_in(set, bytes[at + 2])) return at + 2;
    if (!is_in(set, bytes[at + 3])) return at + 3;
  }
  while (at < in.size() && is_in(set, bytes[at])) ++at;
  return at;
}

#if defined(__SSE2__)

namespace sse {

inline constexpr size_t bytes_at_once = 16;

inline __m128i load(const char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
// Sets all bits of each byte that is one of the `count` values from `first` on; clears the others.
inline __m128i is_within(__m128i bytes, char first, char count) {
  const __m128i distance = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(distance, _mm_set1_epi8(static_cast<char>(count - 1))),
                        distance);
}
inline __m128i is_equal(__m128i bytes, char c) {
  return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}
// A bit for each byte.
inline uint32_t mask_of(__m128i found) {
  return static_cast<uint32_t>(_mm_movemask_epi8(found));
}

}  // namespace sse

// Skips http_token_chars: letters, digits and `-` sixteen at a time, others, which are rare,
// singly.
inline size_t skip_token(std::string_view in, size_t at) {
  while (in.size() - at >= sse::bytes_at_once) {
    const __m128i bytes = sse::load(in.data() + at);
    const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i usual =
        _mm_or_si128(_mm_or_si128(sse::is_within(lower, 'a', 26), sse::is_within(bytes, '0', 10)),
                     sse::is_equal(bytes, '-'));
    const uint32_t others = sse::mask_of(usual) ^ 0xFFFF;
    if (others == 0) {
      at += sse::bytes_at_once;
      continue;
    }
    at += static_cast<size_t>(std::countr_zero(others));
    if (!is_in(http_token_chars, in[at])) return at;
    ++at;
  }
  return skip_set(http_token_chars, in, at);
}

// Skips http_value_bytes, sixteen at a time.
inline size_t skip_value(std::string_view in, size_t at) {
  for (; in.size() - at >= sse::bytes_at_once; at += sse::bytes_at_once) {
    const __m128i bytes = sse::load(in.data() + at);
    const __m128i control =
        _mm_andnot_si128(sse::is_equal(bytes, '\t'), sse::is_within(bytes, '\0', ' '));
    const uint32_t others = sse::mask_of(_mm_or_si128(control, sse::is_equal(bytes, '\x7F')));
    if (others != 0) return at + static_cast<size_t>(std::countr_zero(others));
  }
  return skip_set(http_value_bytes, in, at);
}

#else

inline size_t skip_token(std::string_view in, size_t at) {
  return skip_set(http_token_chars, in, at);
}

inline size_t skip_value(std::string_view in, size_t at) {
  return skip_set(http_value_bytes, in, at);
}

#endif

}  // namespace sluice::wire
