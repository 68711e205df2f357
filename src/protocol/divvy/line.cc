#include "protocol/divvy/line.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/utf8.h"
#include "policy/text.h"

namespace sluice::divvy {
namespace {

using base::bounds::descriptor_entries_max;

// What a byte can mean for the end of an unquoted string.
enum Class : uint8_t {
  text,    // cannot end the string
  blank,   // ASCII white space
  equals,  // =
  lead,    // begins a character of several bytes, which may be white space
};

constexpr std::array<Class, 256> classes = [] {
  std::array<Class, 256> all{};
  for (const size_t byte : {0x09u, 0x0Au, 0x0Bu, 0x0Cu, 0x0Du, 0x20u}) all[byte] = blank;
  for (const size_t byte : {0xC2u, 0xE1u, 0xE2u, 0xE3u, 0xEFu}) all[byte] = lead;
  all['='] = equals;
  return all;
}();

Class class_of(char byte) {
  return classes[static_cast<uint8_t>(byte)];
}

std::string_view character_at(const char* at, const char* end) {
  return {at, base::utf8::character_size({at, end})};
}

[[gnu::noinline, gnu::cold]] size_t wide_blank_size(const char* at, const char* end) {
  const std::string_view character = character_at(at, end);
  return base::utf8::is_wide_blank(character) ? character.size() : 0;
}

// The size in bytes of the white space character at `at`; 0: another character is there.
size_t blank_size(const char* at, const char* end) {
  if (at == end) return 0;
  const Class kind = class_of(*at);
  if (kind == blank) return 1;
  if (kind != lead) return 0;
  return wide_blank_size(at, end);
}

inline const char* skip_blanks(const char* at, const char* end) {
  // Usually there is exactly one blank.
  if (at < end && class_of(*at) == blank) ++at;
  if (at < end && class_of(*at) == text) [[likely]]
    return at;
  while (const size_t size = blank_size(at, end)) at += size;
  return at;
}

// The end of [begin, end) without the white space at its end.
const char* trim_end(const char* begin, const char* end) {
  if (begin < end && class_of(end[-1]) == text && static_cast<uint8_t>(end[-1]) < 0x80) [[likely]]
    return end;
  while (begin < end) {
    const char* at = end - 1;
    while (at > begin && (static_cast<uint8_t>(*at) & 0xC0) == 0x80) --at;
    if (blank_size(at, end) == 0) break;
    end = at;
  }
  return end;
}

constexpr uint64_t each(uint8_t byte) {
  return uint64_t{byte} * 0x0101'0101'0101'0101;
}

uint64_t word_at(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

// One bit for each byte of a word, bit 0 for its first byte: set for bytes up to 0x20, for `=`, and
// for bytes above 0x7F. Sums of seven-bit values never carry into the next byte, so each bit is
// exact.
uint64_t stops_in(uint64_t word) {
  const uint64_t low = word & each(0x7F);
  const uint64_t above_blank = low + each(0x7F - 0x20);
  const uint64_t not_equals = (low ^ each('=')) + each(0x7F);
  const uint64_t stops = (~(above_blank & not_equals) | word) & each(0x80);
  return ((stops >> 7) * 0x0102'0408'1020'4080) >> 56;  // gathers the eight bits
}

// Finds the bytes at which an unquoted string may end (the stops of a line), 64 bytes at a time, so
// that a short string costs only a few instructions.
class Stops {
 public:
  explicit Stops(std::string_view line)
      : begin_(line.data()), end_(begin_ + line.size()), block_(begin_) {
    load();
  }

  // The first stop in [at, end of line), or the end of the line. `at` must not decrease from call
  // to call.
  const char* from(const char* at) {
    const auto offset = static_cast<size_t>(at - block_);
    if (offset < block_bytes) [[likely]] {
      const uint64_t ahead = bits_ >> offset;
      if (ahead != 0) [[likely]]
        return at + std::countr_zero(ahead);
    }
    return beyond_block(at);
  }

 private:
  static constexpr size_t block_bytes = 64;

  const char* next_block() const {
    return static_cast<size_t>(end_ - block_) > block_bytes ? block_ + block_bytes : end_;
  }

  // `from`, if the current block has no stop at or after `at`.
  [[gnu::noinline]] const char* beyond_block(const char* at) {
    at = std::max(at, next_block());
    do {
      block_ = at;
      load();
      if (bits_ != 0) return block_ + std::countr_zero(bits_);
      at = next_block();
    } while (at < end_);
    return end_;
  }

  void load() {
    const size_t size = std::min(block_bytes, static_cast<size_t>(end_ - block_));
    bits_ = size < block_bytes ? uint64_t{1} << size : 0;  // the end of the line is a stop
    size_t i = 0;
    for (; i + 8 <= size; i += 8) bits_ |= stops_in(word_at(block_ + i)) << i;
    if (i == size) return;
    // The last bytes of the line are read with a word that ends where the line ends, if the line is
    // at least one word long.
    const size_t tail = size - i;
    uint64_t word = 0;
    if (end_ - begin_ >= 8) {
      word = word_at(end_ - 8) >> (8 * (8 - tail));
    } else {
      for (size_t k = 0; k < tail; ++k)
        word |= uint64_t{static_cast<uint8_t>(block_[i + k])} << 8 * k;
    }
    bits_ |= (stops_in(word) & ((uint64_t{1} << tail) - 1)) << i;
  }

  const char* begin_;
  const char* end_;
  const char* block_;  // bits_ describes [block_, block_ + 64)
  uint64_t bits_ = 0;
};

// unquoted_end, if the first stop is not a definite end of the string.
[[gnu::noinline]] const char* unquoted_end_from(Stops& stops, const char* stop, const char* end) {
  while (stop < end) {
    const Class kind = class_of(*stop);
    if (kind == blank || kind == equals) return stop;
    if (kind == lead && wide_blank_size(stop, end) > 0) return stop;
    stop = stops.from(stop + 1);
  }
  return end;
}

// The end of the unquoted string at `at`, at most `end`: where the line ends, or where its trailing
// white space begins.
inline const char* unquoted_end(Stops& stops, const char* at, const char* end) {
  const char* const stop = stops.from(at);
  if (stop == end) return end;
  const Class kind = class_of(*stop);
  if (kind == blank || kind == equals) [[likely]]
    return stop;
  return unquoted_end_from(stops, stop, end);
}

// Reads the string at `at` and moves `at` past it. False: its closing quote is missing.
inline bool take_string(Stops& stops, const char*& at, const char* end, std::string_view& out) {
  const char* begin = at;
  if (at < end && *at == '"') {
    ++begin;
    const void* const quote = std::memchr(begin, '"', static_cast<size_t>(end - begin));
    if (quote == nullptr) return false;
    const char* const close = static_cast<const char*>(quote);
    out = {begin, close};
    at = close + 1;
  } else {
    at = unquoted_end(stops, at, end);
    out = {begin, at};
  }
  return true;
}

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool is_hit(std::string_view word) {
  return word.size() == 3 && upper(word[0]) == 'H' && upper(word[1]) == 'I' &&
         upper(word[2]) == 'T';
}

// `Expected '=', found 'C'`. Divvy's clients expect C to be one UTF-16 unit. For a character of two
// units that is half a surrogate pair, which is sent as U+FFFD.
std::string expected(std::string_view what, const char* at, const char* end) {
  std::string_view found = character_at(at, end);
  if (found.size() == 4) found = base::utf8::replacement;
  std::string reason("Expected ");
  return reason.append(what).append(", found '").append(found).append("'");
}

constexpr std::string_view unclosed = "Unexpected end of quoted string.";

// Adds the entries of [at, end), which has no white space at its ends, to the open request. False:
// the text is malformed, and `reason` says why.
bool take_entries(Stops& stops, const char* at, const char* end, request::Requests& requests,
                  std::string& reason) {
  while (at < end) {
    request::Entry entry;
    if (!take_string(stops, at, end, entry.key)) return reason = unclosed, false;
    if (at == end) return reason = "Unexpected end of input string.", false;
    if (*at != '=') return reason = expected("'='", at, end), false;
    ++at;
    if (!take_string(stops, at, end, entry.value)) return reason = unclosed, false;
    if (requests.open_entries() == descriptor_entries_max) {
      reason = "More than " + std::to_string(descriptor_entries_max) + " pairs in one request.";
      return false;
    }
    requests.add(entry);
    if (at == end) break;
    const char* const next = skip_blanks(at, end);
    if (next == at) return reason = expected("whitespace", at, end), false;
    at = next;
  }
  return true;
}

// Why the request is ambiguous, in words for the client; empty: it is not. A quoted string cannot
// contain quotes, so a string with a quote in it was unquoted.
std::string doubtful(std::span<const request::Entry> entries) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    for (const std::string_view text : {key, value})
      if (text.find('"') != text.npos) return "Stray quote in a string; there are no escapes.";
    for (const request::Entry& before : entries.first(i))
      if (before.key == key) return "Key '" + policy::shortened(key, 64) + "' is given twice.";
  }
  return "";
}

}  // namespace

std::string divvy_error(std::string_view reason) {
  return std::string("ERR unknown \"").append(reason).append("\"");
}

bool parse_divvy_line(std::string_view line, request::Requests& requests, std::string& error,
                      bool strict) {
  const char* at = line.data();
  const char* end = at + line.size();
  Stops stops(line);
  std::string_view word;
  if (!take_string(stops, at, end, word)) {
    error = divvy_error(unclosed);
    return false;
  }
  if (!is_hit(word)) {
    error.assign("ERR unknown-command \"Unrecognized command: ");
    std::transform(word.begin(), word.end(), std::back_inserter(error), upper);
    error.push_back('"');
    return false;
  }
  at = skip_blanks(at, end);
  end = trim_end(at, end);

  requests.open();
  std::string reason;
  if (!take_entries(stops, at, end, requests, reason)) {
    requests.rollback();
    error = divvy_error(reason);
    return false;
  }
  if (strict) [[unlikely]]
    reason = doubtful(requests.open_list());
  if (!reason.empty()) {
    requests.rollback();
    error = divvy_error(reason);
    return false;
  }
  requests.commit({});
  return true;
}

base::Done append_divvy_request(std::span<DivvyEntry> descriptor, base::Buffer& out) {
  const auto is_before = [](const DivvyEntry& a, const DivvyEntry& b) { return a.first < b.first; };
  constexpr size_t few = 16;
  // The sort must be stable: of equal keys the last one counts. std::stable_sort allocates, so a
  // few entries are sorted without it.
  if (descriptor.size() > few) {
    std::stable_sort(descriptor.begin(), descriptor.end(), is_before);
  } else {
    for (size_t i = 1; i < descriptor.size(); ++i)
      for (size_t j = i; j > 0 && is_before(descriptor[j], descriptor[j - 1]); --j)
        std::swap(descriptor[j], descriptor[j - 1]);
  }
  size_t bytes = sizeof "HIT\n";
  for (const auto& [key, value] : descriptor) {
    for (const std::string_view part : {key, value}) {
      const size_t bad = part.find_first_of("\"\n");
      if (bad == std::string_view::npos) continue;
      return base::Problem{(part.data() == key.data() ? "the key `" : "the value of `") +
                           std::string(key) + "` holds " +
                           (part[bad] == '"' ? "a double quote" : "a line end") +
                           ", which Divvy's protocol cannot carry; leave it out or replace it"};
    }
    bytes += key.size() + value.size() + 6;
  }
  out.prepare(bytes);
  out.append("HIT");
  for (const auto& [key, value] : descriptor) {
    out.append(" \"");
    out.append(key);
    out.append("\"=\"");
    out.append(value);
    out.append('"');
  }
  out.append('\n');
  return {};
}

base::Result<std::string> divvy_request(
    std::span<const std::pair<std::string, std::string>> descriptor) {
  std::vector<DivvyEntry> views(descriptor.begin(), descriptor.end());
  base::Buffer line;
  if (base::Done done = append_divvy_request(views, line); !done) return std::move(done).problem();
  return std::string(line.view());
}

bool read_divvy_reply(std::string_view line, DivvyReply& reply) {
  const auto take = [&](std::string_view text) {
    const bool there = line.starts_with(text);
    if (there) line.remove_prefix(text.size());
    return there;
  };
  const auto take_number = [&](int64_t& n) {
    const auto [at, bad] = std::from_chars(line.data(), line.data() + line.size(), n);
    // Divvy's numbers have no bounds, so a number beyond 64 bits is read as the nearest one.
    if (bad == std::errc::result_out_of_range)
      n = line.starts_with('-') ? INT64_MIN : INT64_MAX;
    else if (bad != std::errc{})
      return false;
    line.remove_prefix(static_cast<size_t>(at - line.data()));
    return true;
  };
  reply.allowed = take("OK true ");
  if (!reply.allowed && !take("OK false ")) return false;
  return take_number(reply.remaining) && take(" ") && take_number(reply.reset_seconds) &&
         line.empty();
}

void append_divvy_internal_error(std::string_view text, base::Buffer& out) {
  out.append("ERR Internal Error: ");
  out.append(text.find('\n') == text.npos ? text : "Message contained newlines");
  out.append('\n');
}

}  // namespace sluice::divvy
