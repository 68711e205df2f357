// Reads tokens of JSON (RFC 8259), only for the reader of take_body.h, which asks at each place for
// the tokens that may come next. Texts without escapes are views into the input. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/arena.h"

namespace sluice::http {

// A number of JSON times 10^places, if that is an integer from 0 to `most`; otherwise empty. It is
// computed from the digits, so nothing is rounded.
std::optional<int64_t> scale_number(std::string_view number, int64_t places, int64_t most);

// The first byte in [at, end) that a text of JSON cannot contain unescaped: a quote, a backslash, a
// control character.
const char* skip_plain(const char* at, const char* end);

// Scans `text`, which must be UTF-8. A function that returns false has set `problem` to a sentence,
// unless it says otherwise; then nothing else may be used. Texts that had escapes are in `texts`,
// which must outlive the scanner, as must `problem`. `problem` is not part of a base::Result
// because each body is read here, token by token, and the text's memory is used again.
class TakeBodyScanner {
 public:
  TakeBodyScanner(std::string_view text, base::Arena& texts, std::string& problem)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        texts_(texts),
        problem_(problem) {}

  // Skips blanks, and returns the next byte without consuming it; 0 at the end.
  char peek() {
    for (; at_ < end_; ++at_) {
      const char c = *at_;
      if (static_cast<unsigned char>(c) > ' ') return c;
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    }
    return '\0';
  }
  // Skips blanks and consumes `c`, which must not be 0. False: another byte is next; not reported.
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  // Whether any text had escapes.
  bool has_copies() const { return has_copies_; }
  bool is_done() { return peek() == '\0' && at_ == end_; }

  // Reads a text, at its quote.
  bool read_text(std::string_view& to) {
    const char* const first = ++at_;
    at_ = skip_plain(at_, end_);
    if (at_ == end_ || *at_ != '"') return read_escaped(first, to);
    to = {first, static_cast<size_t>(at_++ - first)};
    return true;
  }

  bool is_at_number() {
    const char c = peek();
    return c == '-' || (c >= '0' && c <= '9');
  }
  // Reads a number at this place; `to` is its text.
  bool read_number(std::string_view& to);

  // Reads `true` or `false` into `to`. False: it is neither; not reported.
  bool take_boolean(std::string_view& to);

  // These report a problem and return false. `problem` becomes the parts, one after the other.
  bool fail(std::initializer_list<std::string_view> parts);
  // For a value that is not allowed in its place, or that is not a value.
  bool refuse(std::string_view sentence);
  // "`,`": the token that was expected.
  bool expected(std::string_view token);
  // "an escape that JSON does not have": the broken token that was found.
  bool broken(std::string_view what);

 private:
  std::string offset() const;
  bool skip_digits();
  // Reads the rest of a text that began at `first`, and has escapes or an error after a plain part.
  bool read_escaped(const char* first, std::string_view& to);
  bool unescape(const char* last, char*& out);
  bool unescape_unit(const char* last, char*& out);

  const char* const begin_;
  const char* at_;
  const char* const end_;
  base::Arena& texts_;
  std::string& problem_;
  bool has_copies_ = false;
};

}  // namespace sluice::http
