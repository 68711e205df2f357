// Tokens of JSON (RFC 8259), for the reader of take_body.h alone: it says at each place what may
// come next, and takes that. Texts without escapes are views into the input. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/arena.h"

namespace sluice::http {

// A number of JSON times 10^places, if that is whole and 0 to `most`. It is computed with its
// digits alone, so nothing is rounded.
std::optional<int64_t> scale_number(std::string_view number, int64_t places, int64_t most);

// The first byte of [at, end) that a text of JSON cannot have as it stands: a quote, a backslash, a
// control character.
const char* skip_plain(const char* at, const char* end);

// Goes through `text`, which is UTF-8. What returns false has told what is wrong in `problem`, a
// sentence, unless it says otherwise; nothing else is of use then. Texts that had escapes are in
// `texts`, which with `problem` outlives it. `problem` is not part of a base::Result because each
// body is read here, token by token, and its memory is used again.
class TakeBodyScanner {
 public:
  TakeBodyScanner(std::string_view text, base::Arena& texts, std::string& problem)
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        texts_(texts),
        problem_(problem) {}

  // The byte that comes next behind blanks, to which it goes; 0 at the end.
  char peek() {
    for (; at_ < end_; ++at_) {
      const char c = *at_;
      if (static_cast<unsigned char>(c) > ' ') return c;
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    }
    return '\0';
  }
  // `c`, which is not 0, behind blanks. False: something else is there, and nothing is reported.
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  // Has a text had escapes?
  bool has_copies() const { return has_copies_; }
  bool is_done() { return peek() == '\0' && at_ == end_; }

  // At its quote.
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
  // There; `to` is the text of it.
  bool read_number(std::string_view& to);

  // `true` or `false`; `to` is what stands there. False: neither does, and nothing is reported.
  bool take_boolean(std::string_view& to);

  // These tell and return false. `problem` becomes the parts in a row.
  bool fail(std::initializer_list<std::string_view> parts);
  // A value that is none of those that its place may have, or none at all.
  bool refuse(std::string_view sentence);
  // "`,`": it is not what comes next.
  bool expected(std::string_view token);
  // "an escape that JSON does not have": it is what comes next.
  bool broken(std::string_view what);

 private:
  std::string offset() const;
  bool skip_digits();
  // A text that began at `first` and has escapes, or a fault, behind what is plain.
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
