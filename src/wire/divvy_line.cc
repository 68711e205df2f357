#include "wire/divvy_line.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/bounds.h"
#include "wire/utf8.h"

namespace sluice::wire {
namespace {

using base::bounds::descriptor_entries_max;

// What a byte may mean to the end of an unquoted string.
enum Class : uint8_t {
  text,    // nothing
  blank,   // ASCII white space
  equals,  // =
  lead,    // begins a white space character of several bytes, or some other character
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

// White space beyond ASCII is what JavaScript's \s takes for it: U+00A0, 1680, 2000-200A, 2028,
// 2029, 202F, 205F, 3000, FEFF (ECMA-262, WhiteSpace and LineTerminator).
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

std::string_view character_at(const char* at, const char* end) {
  return {at, utf8::character_size({at, end})};
}

// Bytes of the white space character at `at`; 0: there is none.
size_t blank_size(const char* at, const char* end) {
  if (at == end) return 0;
  const Class kind = class_of(*at);
  if (kind == blank) return 1;
  if (kind != lead) return 0;
  const std::string_view character = character_at(at, end);
  return is_wide_blank(character) ? character.size() : 0;
}

const char* skip_blanks(const char* at, const char* end) {
  while (const size_t size = blank_size(at, end)) at += size;
  return at;
}

// The end of [begin, end) without the white space at its end.
const char* trim_end(const char* begin, const char* end) {
  while (begin < end) {
    const char* at = end - 1;
    while (at > begin && (static_cast<uint8_t>(*at) & 0xC0) == 0x80) --at;
    if (blank_size(at, end) == 0) break;
    end = at;
  }
  return end;
}

// The first byte of [at, end) that ends an unquoted string, or `end`.
const char* unquoted_end(const char* at, const char* end) {
  for (; at < end; ++at) {
    const Class kind = class_of(*at);
    if (kind == text) [[likely]]
      continue;
    if (kind != lead || is_wide_blank(character_at(at, end))) break;
  }
  return at;
}

// Reads the string at `at` and moves behind it. False: its closing quote is missing.
bool take_string(const char*& at, const char* end, std::string_view& out) {
  if (at < end && *at == '"') {
    const char* const begin = at + 1;
    const void* const quote = std::memchr(begin, '"', static_cast<size_t>(end - begin));
    if (quote == nullptr) return false;
    at = static_cast<const char*>(quote);
    out = {begin, at++};
    return true;
  }
  const char* const begin = at;
  at = unquoted_end(at, end);
  out = {begin, at};
  return true;
}

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool is_hit(std::string_view word) {
  return word.size() == 3 && upper(word[0]) == 'H' && upper(word[1]) == 'I' &&
         upper(word[2]) == 'T';
}

// `Expected '=', found 'C'`. C is one UTF-16 unit, as Divvy's clients know it: of a character that
// takes two, half a pair, which goes out as U+FFFD.
std::string expected(std::string_view what, const char* at, const char* end) {
  std::string_view found = character_at(at, end);
  if (found.size() == 4) found = utf8::replacement;
  std::string reason("Expected ");
  return reason.append(what).append(", found '").append(found).append("'");
}

constexpr std::string_view unclosed = "Unexpected end of quoted string.";

// Adds the entries of [at, end), which neither begins nor ends with white space, to the open
// request. Returns why it cannot, or nothing.
std::string take_entries(const char* at, const char* end, Requests& requests) {
  while (at < end) {
    limit::Entry entry;
    if (!take_string(at, end, entry.key)) return std::string(unclosed);
    if (at == end) return "Unexpected end of input string.";
    if (*at != '=') return expected("'='", at, end);
    ++at;
    if (!take_string(at, end, entry.value)) return std::string(unclosed);
    if (requests.open_entries() == descriptor_entries_max)
      return "More than " + std::to_string(descriptor_entries_max) + " pairs in one request.";
    requests.add(entry);
    if (at == end) break;
    const size_t size = blank_size(at, end);
    if (size == 0) return expected("whitespace", at, end);
    at = skip_blanks(at + size, end);
  }
  return {};
}

}  // namespace

std::string divvy_error(std::string_view reason) {
  return std::string("ERR unknown \"").append(reason).append("\"");
}

bool parse_divvy_line(std::string_view line, Requests& requests, std::string& error) {
  const char* at = line.data();
  const char* end = at + line.size();
  std::string_view word;
  if (!take_string(at, end, word)) {
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
  const std::string reason = take_entries(at, end, requests);
  if (!reason.empty()) {
    requests.rollback();
    error = divvy_error(reason);
    return false;
  }
  requests.commit(1);
  return true;
}

}  // namespace sluice::wire
