#include "protocol/http/take_body_scanner.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace sluice::http {
namespace {

constexpr bool is_json_digit(char c) {
  return c >= '0' && c <= '9';
}

// The value of the four hexadecimal digits at `at`; above 0xFFFF: there are no such digits.
uint32_t read_code_unit(const char* at, const char* end) {
  constexpr uint32_t none = 0x10000;
  if (end - at < 4) return none;
  uint32_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at[i], lower = static_cast<char>(c | 0x20);
    const bool is_letter = lower >= 'a' && lower <= 'f';
    if (!is_letter && !is_json_digit(c)) return none;
    unit = unit << 4 | static_cast<uint32_t>(is_letter ? lower - 'a' + 10 : c - '0');
  }
  return unit;
}

char* write_utf8(uint32_t point, char* out) {
  constexpr uint32_t leads[] = {0, 0xC0, 0xE0, 0xF0};
  unsigned more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  *out++ = static_cast<char>(leads[more] | point >> 6 * more);
  while (more-- > 0) *out++ = static_cast<char>(0x80 | (point >> 6 * more & 0x3F));
  return out;
}

// Reads the exponent of a number, from the text after its `e`.
int64_t read_exponent(std::string_view text) {
  constexpr int64_t enough = int64_t{1} << 50;  // more digits than there is memory for
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  int64_t exponent = 0;
  for (const char c : text)
    if (exponent < enough) exponent = exponent * 10 + (c - '0');
  return is_negative ? -exponent : exponent;
}

}  // namespace

std::optional<int64_t> scale_number(std::string_view number, int64_t places, int64_t most) {
  if (number.size() == 1 && places == 0 && most >= 9) return number.front() - '0';  // usual case
  const bool is_negative = number.front() == '-';
  uint64_t digits = 0;     // the digits read so far, without the zeros at their end
  int64_t zeros = 0;       // the number of these zeros
  int64_t power = places;  // the result is `digits`, then `zeros` zeros, times 10^power
  bool behind_point = false;
  size_t at = is_negative ? 1 : 0;
  for (; at < number.size() && (number[at] | 0x20) != 'e'; ++at) {
    const char c = number[at];
    if (c == '.') {
      behind_point = true;
      continue;
    }
    if (behind_point) --power;
    if (c == '0') {
      if (digits != 0) ++zeros;
      continue;
    }
    for (; zeros >= 0; --zeros)
      if (__builtin_mul_overflow(digits, 10u, &digits)) return std::nullopt;
    zeros = 0;
    if (__builtin_add_overflow(digits, static_cast<uint64_t>(c - '0'), &digits))
      return std::nullopt;
  }
  if (digits == 0) return 0;
  if (at < number.size()) power += read_exponent(number.substr(at + 1));
  power += zeros;
  if (is_negative || power < 0) return std::nullopt;
  for (; power > 0; --power)
    if (__builtin_mul_overflow(digits, 10u, &digits)) return std::nullopt;
  if (digits > static_cast<uint64_t>(most)) return std::nullopt;
  return static_cast<int64_t>(digits);
}

static_assert(std::endian::native == std::endian::little);  // the first byte is the lowest

const char* skip_plain(const char* at, const char* end) {
#if defined(__SSE2__)
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i last_control = _mm_set1_epi8(0x1F);
    const __m128i found =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))),
                     _mm_cmpeq_epi8(_mm_max_epu8(bytes, last_control), last_control));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(found));
    if (mask != 0) return at + std::countr_zero(mask);
  }
#endif
  constexpr uint64_t ones = 0x0101'0101'0101'0101, high_bits = ones << 7;
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    const uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    // Only the lowest bit that is set is certain: a borrow may set others above it.
    const uint64_t found = (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                            ((word - ones * ' ') & ~word)) &
                           high_bits;
    if (found != 0) return at + std::countr_zero(found) / 8;
  }
  while (at < end && *at != '"' && *at != '\\' && static_cast<uint8_t>(*at) >= ' ') ++at;
  return at;
}

bool TakeBodyScanner::read_number(std::string_view& to) {
  const char* const first = at_;
  if (*at_ == '-') ++at_;
  const bool is_zero = at_ < end_ && *at_ == '0';
  bool sound = skip_digits();
  if (is_zero) at_ = first + (*first == '-' ? 2 : 1);  // no digit may follow a leading 0
  if (sound && at_ < end_ && *at_ == '.') {
    ++at_;
    sound = skip_digits();
  }
  if (sound && at_ < end_ && (*at_ | 0x20) == 'e') {
    ++at_;
    if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    sound = skip_digits();
  }
  if (!sound) return broken("a malformed number");
  to = {first, static_cast<size_t>(at_ - first)};
  return true;
}

bool TakeBodyScanner::take_boolean(std::string_view& to) {
  peek();
  const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
  to = rest.substr(0, rest.starts_with("true") ? 4 : rest.starts_with("false") ? 5 : 0);
  at_ += to.size();
  return !to.empty();
}

bool TakeBodyScanner::fail(std::initializer_list<std::string_view> parts) {
  problem_.clear();
  for (const std::string_view part : parts) problem_ += part;
  return false;
}

bool TakeBodyScanner::refuse(std::string_view sentence) {
  return is_done() ? expected("a value") : fail({sentence});
}

bool TakeBodyScanner::expected(std::string_view token) {
  if (is_done()) return fail({"the body is not JSON: it ends where ", token, " must stand"});
  return fail({"the body is not JSON: ", token, " must stand at offset ", offset()});
}

bool TakeBodyScanner::broken(std::string_view what) {
  return fail({"the body is not JSON: ", what, " at offset ", offset()});
}

bool TakeBodyScanner::skip_digits() {
  const char* const first = at_;
  while (at_ < end_ && is_json_digit(*at_)) ++at_;
  return at_ != first;
}

std::string TakeBodyScanner::offset() const {
  return std::to_string(at_ - begin_);
}

bool TakeBodyScanner::read_escaped(const char* first, std::string_view& to) {
  while (at_ < end_ && *at_ == '\\')
    at_ = skip_plain(at_ + std::min<ptrdiff_t>(2, end_ - at_), end_);
  if (at_ == end_) return fail({"the body is not JSON: it ends within a text"});
  if (*at_ != '"') return broken("a control character that is not escaped, as in `\\n`,");
  const char* const last = at_;
  has_copies_ = true;
  char* const room = texts_.allocate(static_cast<size_t>(last - first));
  char* out = room;
  for (at_ = first; at_ < last;) {
    const char* const next = std::find(at_, last, '\\');
    out = std::copy(at_, next, out);
    at_ = next;
    if (at_ < last && !unescape(last, out)) return false;
  }
  ++at_;
  to = {room, static_cast<size_t>(out - room)};
  return true;
}

// Reads the escape at `at_`. Its backslash is never the last byte before `last`.
bool TakeBodyScanner::unescape(const char* last, char*& out) {
  constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
  if (at_[1] == 'u') return unescape_unit(last, out);
  const size_t which = names.find(at_[1]);
  if (which == names.npos) return broken("an escape that JSON does not have");
  *out++ = values[which];
  at_ += 2;
  return true;
}

bool TakeBodyScanner::unescape_unit(const char* last, char*& out) {
  uint32_t point = read_code_unit(at_ + 2, last);
  if (point > 0xFFFF) return broken("`\\u` without four hexadecimal digits");
  const char* next = at_ + 6;
  if (point >= 0xD800 && point < 0xE000) {
    const bool has_next = last - next >= 6 && next[0] == '\\' && next[1] == 'u';
    const uint32_t low = has_next ? read_code_unit(next + 2, last) : 0;
    if (point >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return broken("half of a surrogate pair");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    next += 6;
  }
  out = write_utf8(point, out);
  at_ = next;
  return true;
}

}  // namespace sluice::http
