#include "base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::base::utf8 {
namespace {

constexpr uint64_t high_bits = 0x8080'8080'8080'8080;

uint64_t word_at(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint8_t byte_at(const char* at) {
  return static_cast<uint8_t>(*at);
}

// The first byte of [at, end) that is not ASCII, or `end`.
const char* skip_ascii(const char* at, const char* end) {
  while (end - at >= 8 && (word_at(at) & high_bits) == 0) at += 8;
  while (at < end && byte_at(at) < 0x80) ++at;
  return at;
}

// What a lead byte asks for: the length of its sequence and the range of its second byte. Length 0:
// no lead byte.
struct Lead {
  uint8_t size, low, high;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0, 0, 0};
}

// The sequence at `at`, which is not ASCII.
Sequence sequence_at(const char* at, const char* end) {
  const Lead lead = lead_of(byte_at(at));
  if (lead.size == 0) return {1, false};
  const size_t there = std::min(static_cast<size_t>(end - at), size_t{lead.size});
  if (there < 2 || byte_at(at + 1) < lead.low || byte_at(at + 1) > lead.high) return {1, false};
  size_t size = 2;
  while (size < there && (byte_at(at + size) & 0xC0) == 0x80) ++size;
  return {size, size == lead.size};
}

}  // namespace

Sequence first_sequence(std::string_view text) {
  if (byte_at(text.data()) < 0x80) return {1, true};
  return sequence_at(text.data(), text.data() + text.size());
}

bool is_wide_blank(std::string_view character) {
  if (character.size() == 2) return character == "\xC2\xA0";
  if (character.size() != 3) return false;
  if (character.starts_with("\xE2\x80")) {
    const auto last = static_cast<uint8_t>(character[2]);
    return last <= 0x8A || last == 0xA8 || last == 0xA9 || last == 0xAF;
  }
  return character == "\xE1\x9A\x80" || character == "\xE2\x81\x9F" ||
         character == "\xE3\x80\x80" || character == "\xEF\xBB\xBF";
}

bool is_valid(std::string_view text) {
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  if (text.size() >= 8) [[likely]] {
    uint64_t seen = word_at(end - 8);  // overlaps the words before it
    for (; end - at > 8; at += 8) seen |= word_at(at);
    if ((seen & high_bits) == 0) return true;
    at = text.data();
  }
  at = skip_ascii(at, end);
  while (at < end) {
    const Sequence sequence = sequence_at(at, end);
    if (!sequence.valid) return false;
    at += sequence.size;
    if (at < end && byte_at(at) < 0x80) at = skip_ascii(at, end);
  }
  return true;
}

size_t sanitized_size(std::string_view text) {
  const char* const end = text.data() + text.size();
  size_t size = text.size();
  for (const char* at = skip_ascii(text.data(), end); at < end; at = skip_ascii(at, end)) {
    const Sequence sequence = sequence_at(at, end);
    if (!sequence.valid) size += replacement.size() - sequence.size;
    at += sequence.size;
  }
  return size;
}

void sanitize(std::string_view text, char* out) {
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  const auto copy_to = [&](const char* until) {
    out = std::copy(at, until, out);
    at = until;
  };
  while (true) {
    copy_to(skip_ascii(at, end));
    if (at == end) return;
    const Sequence sequence = sequence_at(at, end);
    if (sequence.valid) {
      copy_to(at + sequence.size);
    } else {
      out = std::copy(replacement.begin(), replacement.end(), out);
      at += sequence.size;
    }
  }
}

size_t character_size(std::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text.front());
  return lead < 0x80 ? 1 : lead_of(lead).size;
}

}  // namespace sluice::base::utf8
