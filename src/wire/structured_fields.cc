#include "wire/structured_fields.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/utf8.h"
#include "wire/http_field.h"

namespace sluice::wire {
namespace {

constexpr bool is_sf_text(char c) {
  return c >= 0x20 && c < 0x7F;
}
constexpr bool is_sf_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_sf_lower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool is_sf_letter(char c) {
  return is_sf_lower(http_lower(c));
}

// Whether eight characters may all be in a String without escapes. (A carry may make the result
// wrong for bytes above the lowest one that must be escaped, but not the result for all eight.)
bool stand_as_they_are(const char* eight) {
  constexpr uint64_t ones = 0x0101010101010101, highest = ones << 7;
  uint64_t bytes;
  std::memcpy(&bytes, eight, sizeof bytes);
  // Sets the highest bit of each byte that is 0.
  const auto zeros = [](uint64_t word) { return (word - ones) & ~word; };
  const uint64_t others = bytes | (bytes - ones * 0x20) | zeros(bytes ^ (ones * 0x7F)) |
                          zeros(bytes ^ (ones * '"')) | zeros(bytes ^ (ones * '\\'));
  return (others & highest) == 0;
}

bool stands_as_it_is(std::string_view text) {
  if (text.size() < 8) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return is_sf_text(c) && c != '"' && c != '\\'; });
  }
  for (size_t i = 0; i + 8 < text.size(); i += 8)
    if (!stand_as_they_are(text.data() + i)) return false;
  return stand_as_they_are(text.data() + text.size() - 8);
}

// Reads from the front of a text; each function is one section of 4.2. False: the text is
// ill-formed.
class SfReader {
 public:
  explicit SfReader(std::string_view text) : text_(text) {}

  bool is_at_end() const { return text_.empty(); }

  void skip_blanks() {
    while (take(' ')) {
    }
  }

  // 4.2.5. The text of the String is written to `to`, unless that is null.
  bool string(std::string* to) {
    if (!take('"')) return false;
    while (!text_.empty()) {
      if (take('"')) return true;
      const bool escaped = take('\\');
      if (text_.empty()) return false;
      const char c = next();
      if (escaped ? c != '"' && c != '\\' : !is_sf_text(c)) return false;
      if (to != nullptr) *to += c;
    }
    return false;
  }

  // 4.2.3.2.
  bool parameters() {
    while (take(';')) {
      skip_blanks();
      if (!key() || (take('=') && !bare_item())) return false;
    }
    return true;
  }

 private:
  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  char next() {
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }
  // Takes the matching characters at the front and returns their number.
  template <class Predicate>
  size_t take_while(Predicate belongs) {
    const auto* const end = std::find_if_not(text_.begin(), text_.end(), belongs);
    const auto count = static_cast<size_t>(end - text_.begin());
    text_.remove_prefix(count);
    return count;
  }

  // 4.2.3.3.
  bool key() {
    if (text_.empty() || (!is_sf_lower(text_.front()) && text_.front() != '*')) return false;
    take_while([](char c) {
      return is_sf_lower(c) || is_sf_digit(c) || c == '_' || c == '-' || c == '.' || c == '*';
    });
    return true;
  }

  // 4.2.3.1.
  bool bare_item() {
    if (text_.empty()) return false;
    const char c = text_.front();
    if (c == '-' || is_sf_digit(c)) return number(true);
    if (c == '"') return string(nullptr);
    if (c == '*' || is_sf_letter(c)) return token();
    if (take('@')) return number(false);
    if (take(':')) return bytes();
    if (take('?')) return take('0') || take('1');
    return take('%') && display_string();
  }

  // 4.2.4; a Date (4.2.9) has no fraction.
  bool number(bool may_have_fraction) {
    take('-');
    const size_t digits = take_while(is_sf_digit);
    if (digits == 0 || digits > 15) return false;
    if (text_.empty() || text_.front() != '.') return true;
    if (!may_have_fraction || digits > 12) return false;
    next();
    const size_t fraction = take_while(is_sf_digit);
    return fraction >= 1 && fraction <= 3;
  }

  // 4.2.6.
  bool token() {
    take_while([](char c) { return is_http_token_char(c) || c == ':' || c == '/'; });
    return true;
  }

  // 4.2.7. The end of the base64 is not checked, as the section allows.
  bool bytes() {
    take_while([](char c) {
      return is_sf_letter(c) || is_sf_digit(c) || c == '+' || c == '/' || c == '=';
    });
    return take(':');
  }

  // 4.2.10.
  bool display_string() {
    if (!take('"')) return false;
    std::string decoded;
    while (!text_.empty()) {
      if (take('"')) return base::utf8::is_valid(decoded);
      const char c = next();
      if (!is_sf_text(c)) return false;
      if (c != '%')
        decoded += c;
      else if (!hex_pair(decoded))
        return false;
    }
    return false;
  }
  bool hex_pair(std::string& to) {
    int value = 0;
    for (int i = 0; i < 2; ++i) {
      if (text_.empty()) return false;
      const char c = next();
      if (!is_sf_digit(c) && (c < 'a' || c > 'f')) return false;
      value = value * 16 + (is_sf_digit(c) ? c - '0' : c - 'a' + 10);
    }
    to += static_cast<char>(value);
    return true;
  }

  std::string_view text_;
};

}  // namespace

void append_sf_string(std::string_view text, base::Buffer& out) {
  char* const start = out.prepare(2 * text.size() + 2);
  char* to = start;
  *to++ = '"';
  if (stands_as_it_is(text)) {
    std::copy(text.begin(), text.end(), to);
    to += text.size();
  } else {
    for (const char c : text) {
      if (c == '"' || c == '\\') *to++ = '\\';
      *to++ = is_sf_text(c) ? c : '_';
    }
  }
  *to++ = '"';
  out.commit(static_cast<size_t>(to - start));
}

void append_sf_bytes(std::string_view bytes, base::Buffer& out) {
  // A multiple of three, so that only the last piece is padded, and far below what an int holds.
  constexpr size_t piece_bytes = size_t{3} << 20;
  out.append(':');
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, piece_bytes);
    // Room for the NUL that OpenSSL adds as well.
    auto* const to = reinterpret_cast<unsigned char*>(out.prepare((piece.size() + 2) / 3 * 4 + 1));
    const int written = EVP_EncodeBlock(to, reinterpret_cast<const unsigned char*>(piece.data()),
                                        static_cast<int>(piece.size()));
    out.commit(static_cast<size_t>(written));
    bytes.remove_prefix(piece.size());
  }
  out.append(':');
}

bool parse_sf_string(std::string_view field, std::string& to) {
  to.clear();
  SfReader reader(field);
  reader.skip_blanks();
  if (!reader.string(&to) || !reader.parameters()) return false;
  reader.skip_blanks();
  return reader.is_at_end();
}

}  // namespace sluice::wire
