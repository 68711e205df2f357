#include "wire/resp.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

namespace sluice::wire {
namespace {

constexpr size_t npos = std::string_view::npos;
constexpr size_t integer_bytes_max = 20;
// The most words of a list whose memory is kept between commands.
constexpr size_t words_kept = 32;
// Redis' own bound of an array, independent of RespBounds.
constexpr int64_t array_words_max = 1 << 20;

enum class Line : uint8_t { whole, incomplete, too_long };

// Finds the line that begins at `from` and ends by CR and any byte. `scanned`: up to where it has
// been searched, kept from call to call.
Line find_line(std::string_view in, size_t from, size_t& scanned, std::string_view& line) {
  const size_t begin = std::max(from, scanned);
  const size_t end = std::min(in.size(), from + resp_line_bytes_max + 1);
  const void* const cr = begin < end ? std::memchr(in.data() + begin, '\r', end - begin) : nullptr;
  if (cr == nullptr) {
    scanned = std::max(begin, end);
    return end - from > resp_line_bytes_max ? Line::too_long : Line::incomplete;
  }
  const size_t at = static_cast<size_t>(static_cast<const char*>(cr) - in.data());
  scanned = at;
  if (at + 1 == in.size()) return Line::incomplete;
  line = in.substr(from, at - from);
  return Line::whole;
}

// Reads the number of the header at `from`, after its type byte, and returns the offset after the
// header. Handles complete headers of at most six digits without superfluous zeros; for others it
// returns 0, and the caller uses the general way.
inline size_t read_short_header(std::string_view in, size_t from, uint32_t& value) {
  // Most headers have one or two digits.
  if (in.size() - from >= 5) [[likely]] {
    const char* const digits = in.data() + from + 1;
    const uint32_t first = static_cast<unsigned char>(digits[0]) - uint32_t{'0'};
    const uint32_t second = static_cast<unsigned char>(digits[1]) - uint32_t{'0'};
    if (first <= 9 && digits[1] == '\r') {
      value = first;
      return from + 4;
    }
    if (first - 1 <= 8 && second <= 9 && digits[2] == '\r') {
      value = first * 10 + second;
      return from + 5;
    }
  }
  const char* const begin = in.data() + from + 1;
  const char* const end = in.data() + std::min(in.size(), from + 9);
  const char* at = begin;
  uint32_t number = 0;
  for (; at < end; ++at) {
    const uint32_t digit = static_cast<unsigned char>(*at) - uint32_t{'0'};
    if (digit > 9) break;
    number = number * 10 + digit;
  }
  const auto digits = at - begin;
  if (end - at < 2 || *at != '\r' || digits < 1 || (*begin == '0' && digits > 1)) return 0;
  value = number;
  return static_cast<size_t>(at + 2 - in.data());
}

// Is a word an integer?
bool is_integer(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

int escaped_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Reads the inline word at the front of `text`, and sets `end` to its end. Writes it to `out`
// unless that is null. Returns its size; npos: its quotes are not balanced.
size_t read_inline_word(std::string_view text, size_t& end, char* out) {
  size_t bytes = 0, at = 0;
  const auto put = [&](char c) {
    if (out != nullptr) out[bytes] = c;
    ++bytes;
  };
  for (; at < text.size() && !is_blank(text[at]); ++at) {
    const char quote = text[at];
    if (quote != '"' && quote != '\'') {
      put(quote);
      continue;
    }
    for (++at;; ++at) {
      if (at == text.size()) return npos;
      const char c = text[at];
      if (c == quote) break;
      const size_t left = text.size() - at;
      if (c != '\\' || left < 2 || (quote == '\'' && text[at + 1] != '\'')) {
        put(c);
      } else if (text[at + 1] == 'x' && left >= 4 && escaped_digit(text[at + 2]) >= 0 &&
                 escaped_digit(text[at + 3]) >= 0) {
        put(static_cast<char>(escaped_digit(text[at + 2]) << 4 | escaped_digit(text[at + 3])));
        at += 3;
      } else {
        put(quote == '"' ? unescaped(text[at + 1]) : '\'');
        ++at;
      }
    }
    if (at + 1 < text.size() && !is_blank(text[at + 1])) return npos;
  }
  end = at;
  return bytes;
}

bool is_word(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char c, char l) {
           return (c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c) == l;
         });
}

}  // namespace

bool read_resp_number(std::string_view text, int64_t& value) {
  const size_t sign = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() == sign) return false;
  if (text[sign] == '0' && text.size() > 1) return false;  // "-0" is none either
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end;
}

// ---- Commands ----

RespCommandReader::Result RespCommandReader::next(std::string_view in, base::Arena& texts) {
  if (!error_.empty()) return {Found::broken, in.size()};
  if (http_) return {Found::http, in.size()};
  for (size_t consumed = 0;;) {
    const std::string_view rest = in.substr(consumed);
    if (rest.empty()) return {Found::incomplete, consumed};
    size_t end = 0;
    const Step step = rest[0] == '*' ? read_array(rest, end) : read_inline(rest, texts, end);
    if (step == Step::incomplete) return {Found::incomplete, consumed};
    position_ = scanned_ = left_ = 0;
    consumed += end;
    switch (step) {
      case Step::command:
        return {Found::command, consumed};
      case Step::broken:
        return {Found::broken, in.size()};
      case Step::http:
        http_ = true;
        return {Found::http, in.size()};
      case Step::passed_over:
      case Step::incomplete:
        break;
    }
  }
}

RespCommandReader::Step RespCommandReader::fail(std::string_view why) {
  error_ = "ERR Protocol error: ";
  error_ += why;
  return Step::broken;
}

RespCommandReader::Step RespCommandReader::read_array(std::string_view in, size_t& end) {
  if (position_ == 0) {
    const Step step = read_count(in);
    end = position_;
    if (step != Step::command) return step;
  }
  // The last word that was read may be incomplete.
  while (in.size() >= position_) {
    if (left_ == 0) {
      words_.clear();
      for (const WordPlace& place : places_)
        words_.emplace_back(in.data() + place.offset, place.bytes);
      end = position_;
      return Step::command;
    }
    const Step step = read_word(in);
    if (step != Step::command) return step;
    --left_;
  }
  return Step::incomplete;
}

// The header of the array: then there are words to read, or it must be skipped.
RespCommandReader::Step RespCommandReader::read_count(std::string_view in) {
  uint32_t quick;
  int64_t count;
  if (const size_t behind = read_short_header(in, 0, quick); behind != 0) [[likely]] {
    count = quick;
    position_ = behind;
  } else {
    std::string_view line;
    const Line found = find_line(in, 0, scanned_, line);
    if (found == Line::incomplete) return Step::incomplete;
    if (found == Line::too_long) return fail("too big mbulk count string");
    if (!read_resp_number(line.substr(1), count)) return fail("invalid multibulk length");
    position_ = line.size() + 2;
  }
  if (count > array_words_max || count > static_cast<int64_t>(bounds_.words))
    return fail("invalid multibulk length");
  if (count <= 0) return Step::passed_over;
  left_ = static_cast<size_t>(count);
  places_.resize(left_);
  return Step::command;
}

// The header of a word: where the word is, and where the next header will be.
RespCommandReader::Step RespCommandReader::read_word(std::string_view in) {
  WordPlace& place = places_[places_.size() - left_];
  uint32_t quick;
  size_t offset, bytes;
  if (position_ < in.size() && in[position_] == '$' &&
      (offset = read_short_header(in, position_, quick)) != 0) [[likely]] {
    bytes = quick;
  } else {
    std::string_view line;
    const Line found = find_line(in, position_, scanned_, line);
    if (found == Line::incomplete) return Step::incomplete;
    if (found == Line::too_long) return fail("too big bulk count string");
    const char type = line.empty() ? '\r' : line[0];
    // An argument, never the name of the command.
    if (type == ':' && left_ < places_.size() && is_integer(line.substr(1))) {
      place = {static_cast<uint32_t>(position_ + 1), static_cast<uint32_t>(line.size() - 1)};
      position_ += line.size() + 2;
      return position_ > bounds_.command_bytes ? fail("invalid bulk length") : Step::command;
    }
    if (type != '$') {
      const char shown = type == '\r' || type == '\n' ? ' ' : type;
      return fail(std::string("expected '$', got '") + shown + "'");
    }
    int64_t length;
    if (!read_resp_number(line.substr(1), length) || length < 0) return fail("invalid bulk length");
    offset = position_ + line.size() + 2;
    bytes = static_cast<size_t>(length);
  }
  if (bytes > bounds_.word_bytes || offset + bytes + 2 > bounds_.command_bytes)
    return fail("invalid bulk length");
  place = {static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)};
  position_ = offset + bytes + 2;
  return Step::command;
}

RespCommandReader::Step RespCommandReader::read_inline(std::string_view in, base::Arena& texts,
                                                       size_t& end) {
  const size_t bytes_max = std::min(resp_line_bytes_max, bounds_.command_bytes);
  const size_t stop = std::min(in.size(), bytes_max + 1);
  const void* const lf =
      scanned_ < stop ? std::memchr(in.data() + scanned_, '\n', stop - scanned_) : nullptr;
  if (lf == nullptr) {
    scanned_ = stop;
    return stop > bytes_max ? fail("too big inline request") : Step::incomplete;
  }
  const size_t at = static_cast<size_t>(static_cast<const char*>(lf) - in.data());
  end = at + 1;
  std::string_view line = in.substr(0, at);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!split(line, texts)) return Step::broken;
  if (words_.empty()) return Step::passed_over;
  return is_word(words_[0], "post") || is_word(words_[0], "host:") ? Step::http : Step::command;
}

// The words of an inline command. False: it failed.
bool RespCommandReader::split(std::string_view line, base::Arena& texts) {
  words_.clear();
  while (true) {
    while (!line.empty() && is_blank(line[0])) line.remove_prefix(1);
    if (line.empty()) return true;
    size_t end = 0;
    const size_t bytes = read_inline_word(line, end, nullptr);
    if (bytes == npos) {
      fail("unbalanced quotes in request");
      return false;
    }
    if (words_.size() == bounds_.words) {
      fail("invalid multibulk length");
      return false;
    }
    if (bytes > bounds_.word_bytes) {
      fail("too big inline request");
      return false;
    }
    const bool quoted = line[0] == '"' || line[0] == '\'';
    if (bytes == end) {
      words_.push_back(line.substr(0, end));
    } else if (quoted && bytes + 2 == end) {
      words_.push_back(line.substr(1, bytes));
    } else {
      char* const text = texts.allocate(bytes);
      read_inline_word(line, end, text);
      words_.emplace_back(text, bytes);
    }
    line.remove_prefix(end);
  }
}

void RespCommandReader::release() {
  if (words_.capacity() > words_kept) std::vector<std::string_view>().swap(words_);
  if (position_ == 0 && places_.capacity() > words_kept) std::vector<WordPlace>().swap(places_);
  words_.clear();
}

// ---- Writing ----

namespace {

// The type, the number and the line end; where there is room.
char* write_head(char* at, char type, int64_t value) {
  *at++ = type;
  if (value >= 0 && value <= 9)
    *at++ = static_cast<char>('0' + value);
  else
    at = std::to_chars(at, at + integer_bytes_max, value).ptr;
  *at++ = '\r';
  *at++ = '\n';
  return at;
}
constexpr size_t head_bytes_max = integer_bytes_max + 3;

void append_head(base::Buffer& out, char type, int64_t value) {
  char* const begin = out.prepare(head_bytes_max);
  out.commit(static_cast<size_t>(write_head(begin, type, value) - begin));
}

void append_bulk(base::Buffer& out, std::string_view text) {
  char* const begin = out.prepare(head_bytes_max + text.size() + 2);
  char* at = write_head(begin, '$', static_cast<int64_t>(text.size()));
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  at += text.size();
  *at++ = '\r';
  *at++ = '\n';
  out.commit(static_cast<size_t>(at - begin));
}

}  // namespace

void append_resp_command(std::span<const std::string_view> words, base::Buffer& out) {
  append_head(out, '*', static_cast<int64_t>(words.size()));
  for (const std::string_view word : words) append_bulk(out, word);
}

void RespWriter::line(char type, std::string_view text) {
  char* const begin = out_.prepare(text.size() + 3);
  char* at = begin;
  *at++ = type;
  for (const char c : text) *at++ = c == '\r' || c == '\n' ? ' ' : c;
  *at++ = '\r';
  *at++ = '\n';
  out_.commit(text.size() + 3);
}

void RespWriter::head(char type, int64_t value) {
  append_head(out_, type, value);
}

void RespWriter::integers(std::span<const int64_t> values) {
  char* const begin = out_.prepare((values.size() + 1) * head_bytes_max);
  char* at = write_head(begin, '*', static_cast<int64_t>(values.size()));
  for (const int64_t value : values) at = write_head(at, ':', value);
  out_.commit(static_cast<size_t>(at - begin));
}

void RespWriter::bulk(std::string_view text) {
  append_bulk(out_, text);
}

void RespWriter::null() {
  out_.append(version_ == RespVersion::resp3 ? "_\r\n" : "$-1\r\n");
}

void RespWriter::null_list() {
  out_.append(version_ == RespVersion::resp3 ? "_\r\n" : "*-1\r\n");
}

void RespWriter::map(size_t count) {
  if (version_ == RespVersion::resp3)
    head('%', static_cast<int64_t>(count));
  else
    list(count * 2);
}

void RespWriter::boolean(bool value) {
  if (version_ == RespVersion::resp3)
    out_.append(value ? "#t\r\n" : "#f\r\n");
  else
    integer(value ? 1 : 0);
}

void RespWriter::number(double value) {
  char text[32] = "nan";
  size_t bytes = 3;  // to_chars would tell its sign
  if (!std::isnan(value))
    bytes = static_cast<size_t>(std::to_chars(text, std::end(text), value).ptr - text);
  if (version_ == RespVersion::resp3)
    line(',', {text, bytes});
  else
    bulk({text, bytes});
}

// ---- Reading replies ----

namespace {

// Reads an item's line. `body`: the bytes of text that follow it, npos: none. `items`: the number
// of items that follow and belong to it.
bool read_item(std::string_view line, RespItem& item, size_t& body, size_t& items) {
  using Kind = RespItem::Kind;
  item = {};
  body = npos;
  items = 0;
  if (line.empty()) return false;
  const char type = line[0];
  const std::string_view text = line.substr(1);
  switch (type) {
    case '+':
    case '-':
    case '(':
      item.kind = type == '+' ? Kind::simple : type == '-' ? Kind::error : Kind::big_number;
      item.text = text;
      return true;
    case ':':
      item.kind = Kind::integer;
      return read_resp_number(text.starts_with('+') ? text.substr(1) : text, item.number);
    case '_':
      return text.empty();
    case '#':
      item.kind = Kind::boolean;
      item.number = text == "t" ? 1 : 0;
      return text == "t" || text == "f";
    case ',': {
      item.kind = Kind::real;
      const char* const end = text.data() + text.size();
      const auto [last, error] = std::from_chars(text.data(), end, item.real);
      return error == std::errc() && last == end;
    }
    default:
      break;
  }
  int64_t count;
  if (!read_resp_number(text, count)) return false;
  if (count == -1 && (type == '$' || type == '*')) return true;
  if (count < 0 || count > std::numeric_limits<int32_t>::max()) return false;
  const auto size = static_cast<size_t>(count);
  switch (type) {
    case '$':
    case '=':
    case '!':
      item.kind = type == '!' ? Kind::error : Kind::bulk;
      body = size;
      return type != '=' || size >= 4;
    case '*':
    case '~':
    case '>':
      item.kind = Kind::list;
      item.push = type == '>';
      item.count = items = size;
      return true;
    case '%':
    case '|':
      item.kind = type == '%' ? Kind::map : Kind::attributes;
      item.count = size;
      items = 2 * size + (type == '|' ? 1 : 0);
      return true;
    default:
      return false;
  }
}

}  // namespace

RespReplyReader::Result RespReplyReader::next(std::string_view in) {
  if (broken_) return {Found::broken, 0};
  const auto broken = [this] {
    broken_ = true;
    return Result{Found::broken, 0};
  };
  while (in.size() >= position_) {
    if (left_ == 0) {
      const size_t bytes = position_;
      position_ = scanned_ = items_ = 0;
      left_ = 1;
      return {Found::reply, bytes};
    }
    std::string_view line;
    const Line found = find_line(in, position_, scanned_, line);
    if (found == Line::incomplete) return {Found::incomplete, 0};
    if (found == Line::too_long) return broken();
    RespItem item;
    size_t body, items;
    if (in[position_ + line.size() + 1] != '\n' || !read_item(line, item, body, items))
      return broken();
    position_ += line.size() + 2;
    if (body != npos) position_ += body + 2;
    if (position_ > bounds_.bytes || items > bounds_.items - items_) return broken();
    items_ += items;
    left_ += items;
    --left_;
  }
  return {Found::incomplete, 0};
}

bool RespItems::next(RespItem& item) {
  size_t scanned = 0, body, items;
  std::string_view line;
  if (find_line(rest_, 0, scanned, line) != Line::whole) return false;
  if (!read_item(line, item, body, items)) return false;
  rest_.remove_prefix(line.size() + 2);
  if (body == npos) return true;
  if (rest_.size() < body + 2) return false;
  item.text = rest_.substr(0, body);
  rest_.remove_prefix(body + 2);
  if (line[0] == '=') item.text.remove_prefix(4);
  return true;
}

}  // namespace sluice::wire
