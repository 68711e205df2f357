#include "protocol/http/take_body.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "base/json_writer.h"
#include "base/printable.h"
#include "base/same.h"
#include "base/units.h"
#include "base/utf8.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "policy/text.h"
#include "request/charge_ids.h"
#include "wire/http_session.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

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

// Why not a library: this is the hot path, and the typical body of 75 bytes takes 1,500
// instructions here, its grammar included, and copies nothing. RapidJSON's SAX reader takes 3,800
// for the tokens alone (numbers as texts, UTF-8 validated; 4,800 by iteration, 2,700 in situ and
// unvalidated), and it pushes the tokens, so the grammar would have to be a state machine. Here the
// code follows the grammar: it asks for what may come next. That bounds the depth as well, because
// a value that the grammar does not allow is refused at its first byte, and never skipped.
namespace {

using limit::Algorithm;

constexpr size_t take_name_bytes_max = 64;    // of a limit
constexpr size_t take_quoted_bytes_max = 64;  // of the input, in a problem and its pointer
constexpr int64_t window_places = 6;          // decimal places of seconds: microseconds

// The texts of problems contain these numbers.
static_assert(base::bounds::quota_max == 9'007'199'254'740'991 &&
              base::bounds::window_us_max == int64_t{36'600} * 86'400 * 1'000'000 &&
              limit::slots_max == 8 && takes_entries_max == 64 && take_name_bytes_max == 64 &&
              request::charge_id_bytes_min == 16 && request::charge_id_bytes_max == 64 &&
              takes_together_max == 64 && hold_ttl_max == base::seconds(86'400) &&
              request::holder_bytes_max == 255);

// A set of members is a bit mask, by these numbers.
enum class BodyMember : uint32_t {
  entries,
  key,
  limits,
  takes,
  n,
  all,
  mode,
  detail,
  timeout,
  id,
  ttl,
  holder
};
constexpr std::array<std::string_view, 12> body_members = {"entries", "key", "limits", "takes",
                                                           "n",       "all", "mode",   "detail",
                                                           "timeout", "id",  "ttl",    "holder"};
enum class LimitMember : uint32_t {
  name,
  quota,
  window,
  algorithm,
  burst,
  over,
  overdraft,
  time_zone,
  week_starts,
  month_day,
  year_day,
  starts_at
};
constexpr std::array<std::string_view, 12> limit_members = {
    "name",      "quota",     "window",      "algorithm", "burst",    "over",
    "overdraft", "time_zone", "week_starts", "month_day", "year_day", "starts_at"};
constexpr std::array<Algorithm, 6> take_algorithms = {
    Algorithm::token_bucket,   Algorithm::fixed_window, Algorithm::aligned_window,
    Algorithm::sliding_window, Algorithm::sliding_log,  Algorithm::fixed_bucket};

template <class... Members>
constexpr uint32_t set_of(Members... which) {
  return ((uint32_t{1} << static_cast<uint32_t>(which)) | ...);
}

// Marks of a subject without `n`, which gets the body's: it has no `all`; its `all` is false.
constexpr int64_t n_of_body = -1, n_of_body_not_all = -2;

// An object with members of body_members, while it is read.
struct TakeDraft {
  uint32_t allowed, seen;  // sets of body_members
  bool all;
  int64_t n;
  TakeSubject subject;
};

std::string take_quoted(std::string_view text) {
  return "`" + base::printable(policy::shortened(text, take_quoted_bytes_max)) + "`";
}

// `a`, `b`, `c`
std::string take_listed(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) (((text += text.empty() ? "`" : ", `") += word) += '`');
  return text;
}

class TakeBodyParser {
 public:
  TakeBodyParser(std::string_view json, const BodyForm& wanted, base::Arena& texts, TakeBody& body)
      : json_(json),
        wanted_(wanted),
        allowed_in_take_(set_of(entries, key, limits) | (wanted.has_n ? set_of(n) : 0) |
                         (wanted.has_all ? set_of(all) : 0)),
        body_(body),
        scanner_(json, texts, body.problem) {}

  bool read() {
    if (!base::utf8::is_valid(json_)) return fail_encoding();
    if (scanner_.peek() != '{') return fail_start();
    TakeDraft draft{allowed_in_body(), 0, false, 1, {}};
    if (!read_members(draft) || !finish_body(draft)) return false;
    body_.has_copies = scanner_.has_copies();
    return scanner_.is_done() || scanner_.broken("something stands behind its object");
  }

  bool read_hold(request::HoldAsk ask) {
    if (!base::utf8::is_valid(json_)) return fail_encoding();
    if (scanner_.peek() != '{') return fail_hold_start(ask);
    TakeDraft draft{allowed_in_hold(ask), 0, false, 1, {}};
    if (!read_hold_members(ask, draft) || !finish_hold(ask, draft)) return false;
    body_.has_copies = scanner_.has_copies();
    return scanner_.is_done() || scanner_.broken("something stands behind its object");
  }

 private:
  using enum BodyMember;
  using enum LimitMember;

  uint32_t allowed_in_body() const {
    const uint32_t beside = wanted_.has_detail ? set_of(detail) : 0;
    if (wanted_.only_takes) return beside | set_of(takes);
    return beside | allowed_in_take_ | (wanted_.takes_max > 0 ? set_of(takes) : 0) |
           (wanted_.has_mode ? set_of(mode) : 0) | (wanted_.has_timeout ? set_of(timeout) : 0) |
           (wanted_.has_id ? set_of(id) : 0);
  }

  // ---- Body and takes ----

  bool read_members(TakeDraft& draft) {
    return read_object([&](std::string_view its_name) {
      const size_t which = find_member(its_name, body_members, draft.allowed, draft.seen);
      return which < body_members.size() && read_member(static_cast<BodyMember>(which), draft);
    });
  }

  bool read_member(BodyMember member, TakeDraft& draft) {
    switch (member) {
      case entries:
        return excludes(draft, set_of(key, limits, takes)) && read_entries(draft.subject);
      case key:
        return excludes(draft, set_of(entries, takes)) && read_key(draft.subject);
      case limits:
        return excludes(draft, set_of(entries, takes)) && read_limits(draft.subject);
      case takes:
        return excludes(draft, set_of(entries, key, limits)) && read_takes();
      case n:
        return read_n(draft.n);
      case all:
        return read_boolean("`all` must be true or false", draft.all);
      case mode:
        return read_mode();
      case detail:
        return read_boolean("`detail` must be true or false", body_.detail);
      case timeout:
        return read_timeout();
      case id:
        return read_id();
      case ttl:
        return read_ttl();
      case holder:
        return read_holder();
    }
    return false;
  }

  bool excludes(const TakeDraft& draft, uint32_t others) {
    return (draft.seen & others) == 0 || fail_forms(draft);
  }

  // Finishes the subject of a take, or of a body without `takes`.
  bool finish_subject(TakeDraft& draft) {
    const uint32_t its = draft.seen & set_of(entries, key, limits);
    if (its == 0) return fail_forms(draft);
    if (its == set_of(key))
      return scanner_.fail(
          {"`limits` is missing beside `key`: add a list such as "
           "[{\"quota\": 100, \"window\": \"1m\"}]"});
    if (its == set_of(limits))
      return scanner_.fail({"`key` is missing beside `limits`: add the name of the counter"});
    draft.subject.is_inline = its != set_of(entries);
    draft.subject.all = draft.all;
    draft.subject.n = (draft.seen & set_of(n)) != 0     ? draft.n
                      : draft.all                       ? 1
                      : (draft.seen & set_of(all)) != 0 ? n_of_body_not_all
                                                        : n_of_body;
    body_.subjects.push_back(draft.subject);
    return check_amount(draft);
  }
  bool check_amount(const TakeDraft& draft) {
    if (!draft.all || (draft.seen & set_of(n)) == 0) return true;
    return fail_at("all", {"`n` and `\"all\": true` exclude each other: take one of them out"});
  }

  bool finish_body(TakeDraft& draft) {
    body_.has_takes = (draft.seen & set_of(takes)) != 0;
    if (!(body_.has_takes ? check_amount(draft) : finish_subject(draft))) return false;
    for (TakeSubject& subject : body_.subjects) {
      if (subject.n >= 0) continue;
      if (subject.n == n_of_body) subject.all = draft.all;
      subject.n = draft.n;
    }
    return true;
  }

  bool read_takes() {
    const std::string_view sentence =
        "`takes` must be a list of takes, such as "
        "[{\"entries\": {\"ip\": \"10.0.0.1\"}}], and not empty";
    return read_list(sentence, wanted_.takes_max, "takes", [this] {
      TakeDraft draft{allowed_in_take_, 0, false, 1, {}};
      if (scanner_.peek() != '{')
        return scanner_.refuse(
            "a take must be an object such as "
            "{\"entries\": {\"ip\": \"10.0.0.1\"}}");
      return read_members(draft) && finish_subject(draft);
    });
  }

  bool read_mode() {
    constexpr std::string_view sentence = "`mode` must be \"all\" or \"each\"";
    std::string_view text;
    if (scanner_.peek() != '"') return scanner_.refuse(sentence);
    if (!scanner_.read_text(text)) return false;
    body_.each = text == "each";
    return body_.each || text == "all" || scanner_.fail({sentence});
  }

  bool read_n(int64_t& to) {
    const std::string_view sentence = wanted_.has_all
                                          ? "`n` must be a whole number from 1 to 9007199254740991"
                                          : "`n` must be a whole number from 0 to 9007199254740991";
    if (!read_scaled(sentence, 0, base::bounds::quota_max, to)) return false;
    return to > 0 || !wanted_.has_all || scanner_.fail({sentence});
  }

  bool read_timeout() {
    base::Duration length;
    constexpr std::string_view sentence =
        "`timeout` must be a number of seconds from 0 to 3162240000, with at most 6 digits behind "
        "the point";
    if (!read_scaled(sentence, window_places, base::bounds::window_us_max, length.us)) return false;
    body_.timeout = length;
    return true;
  }

  bool read_id() {
    constexpr std::string_view sentence =
        "`id` must be a text of 16 to 64 of the characters A-Z a-z 0-9 _ -";
    if (scanner_.peek() != '"') return scanner_.refuse(sentence);
    if (!scanner_.read_text(body_.id)) return false;
    return request::is_charge_id(body_.id) || scanner_.fail({sentence});
  }

  // ---- Holds ----

  static uint32_t allowed_in_hold(request::HoldAsk ask) {
    switch (ask) {
      case request::HoldAsk::reserve:
        return set_of(entries, key, limits, takes, n, detail, id, ttl, holder, timeout);
      case request::HoldAsk::extend:
        return set_of(id, n, ttl);
      case request::HoldAsk::renew:
        return set_of(id, ttl);
      case request::HoldAsk::commit:
        return set_of(id, n, entries, key, limits, takes);
      case request::HoldAsk::release:
        return set_of(id);
    }
    return 0;
  }

  static bool has_units(request::HoldAsk ask) {
    return ask == request::HoldAsk::extend || ask == request::HoldAsk::commit;
  }

  bool read_hold_members(request::HoldAsk ask, TakeDraft& draft) {
    return read_object([&](std::string_view its_name) {
      const size_t which = find_member(its_name, body_members, draft.allowed, draft.seen);
      if (which == body_members.size()) return false;
      const auto member = static_cast<BodyMember>(which);
      return member == n && has_units(ask) ? read_units_of_hold() : read_member(member, draft);
    });
  }

  bool read_units_of_hold() {
    constexpr std::string_view sentence =
        "`n` must be a whole number from 0 to 9007199254740991, or a list of such numbers, one for "
        "each of the `takes` that were reserved";
    const auto read_one = [&] {
      int64_t one = 0;
      if (!read_scaled(sentence, 0, base::bounds::quota_max, one)) return false;
      body_.units.push_back(one);
      return true;
    };
    body_.has_units_list = scanner_.peek() == '[';
    return body_.has_units_list ? read_list(sentence, takes_together_max, "n", read_one)
                                : read_one();
  }

  bool finish_hold(request::HoldAsk ask, TakeDraft& draft) {
    const auto has = [&draft](uint32_t which) { return (draft.seen & which) != 0; };
    if (!has(set_of(id)) && ask != request::HoldAsk::reserve)
      return scanner_.fail({"`id` is missing: add that of the reservation"});
    if (!has(set_of(n)) && has_units(ask))
      return scanner_.fail({ask == request::HoldAsk::commit
                                ? "`n` is missing: add the units that were used"
                                : "`n` is missing: add how many units more"});
    if (ask == request::HoldAsk::reserve && has(set_of(timeout)) && has(set_of(takes)))
      return fail_at("timeout",
                     {"a reservation of several `takes` does not wait for units: leave `timeout` "
                      "out, and send it again when `retry_after` has passed"});
    if (ask == request::HoldAsk::reserve) return finish_body(draft);
    if (!has(set_of(entries, key, limits, takes))) return true;
    if (!finish_body(draft)) return false;
    if (body_.units.size() != body_.subjects.size())
      return fail_at("n", {"`n` must have one number for each of `takes`: ",
                           std::to_string(body_.subjects.size())});
    for (size_t i = 0; i < body_.units.size(); ++i) body_.subjects[i].n = body_.units[i];
    return true;
  }

  bool read_ttl() {
    constexpr std::string_view sentence =
        "`ttl` must be a number of seconds above 0 and up to 86400, with at most 6 digits behind "
        "the point";
    if (!read_scaled(sentence, window_places, hold_ttl_max.us, body_.ttl.us)) return false;
    return body_.ttl.us > 0 || scanner_.fail({sentence});
  }

  bool read_holder() {
    constexpr std::string_view sentence = "`holder` must be a text of at most 255 bytes";
    if (scanner_.peek() != '"') return scanner_.refuse(sentence);
    if (!scanner_.read_text(body_.holder)) return false;
    return body_.holder.size() <= request::holder_bytes_max || scanner_.fail({sentence});
  }

  bool fail_hold_start(request::HoldAsk ask) {
    if (ask == request::HoldAsk::reserve || json_.starts_with("\xEF\xBB\xBF")) return fail_start();
    return scanner_.fail({scanner_.is_done() ? "the body is empty: send" : "the body must be",
                          " an object such as {\"id\": \"0c7a2f8e-5d1b-4b1e\"",
                          has_units(ask) ? ", \"n\": 120}" : "}"});
  }

  // ---- Entries ----

  bool read_entries(TakeSubject& subject) {
    constexpr std::string_view sentence =
        "`entries` must be an object of 1 to 64 keys with their values, such as "
        "{\"ip\": \"10.0.0.1\"}";
    if (scanner_.peek() != '{') return scanner_.refuse(sentence);
    const size_t first = body_.entries.size();
    if (!read_object([&](std::string_view its_key) { return read_entry(first, its_key); }))
      return false;
    subject.first = static_cast<uint32_t>(first);
    subject.count = static_cast<uint32_t>(body_.entries.size() - first);
    return subject.count > 0 || scanner_.fail({sentence});
  }

  // Compares the key with those of all entries before it: 2,016 comparisons for 64 entries.
  bool read_entry(size_t first, std::string_view its_key) {
    if (its_key.empty()) return scanner_.fail({"the key of an entry must not be empty"});
    if (body_.entries.size() - first == takes_entries_max)
      return scanner_.fail({"`entries` has more than 64 keys: leave out those that no rule needs"});
    for (size_t i = first; i < body_.entries.size(); ++i)
      if (base::same(body_.entries[i].key, its_key)) return fail_twice(its_key);
    std::string_view value;
    const char c = scanner_.peek();
    if (c == '"' ? !scanner_.read_text(value) : !read_word(value)) return false;
    body_.entries.push_back({its_key, value});
    return true;
  }
  bool read_word(std::string_view& to) {
    if (scanner_.is_at_number()) return scanner_.read_number(to);
    return scanner_.take_boolean(to) ||
           scanner_.refuse("the value of an entry must be a text, a number, true or false");
  }

  // ---- Inline limits ----

  bool read_key(TakeSubject& subject) {
    if (scanner_.peek() != '"') return scanner_.refuse("`key` must be a text");
    return scanner_.read_text(subject.key);
  }

  bool read_limits(TakeSubject& subject) {
    const std::string_view sentence =
        "`limits` must be a list of 1 to 8 limits, such as "
        "[{\"quota\": 100, \"window\": \"1m\"}]";
    const size_t first = body_.limits.size();
    if (!read_list(sentence, limit::slots_max, "limits", [&] { return read_limit(first); }))
      return false;
    subject.first = static_cast<uint32_t>(first);
    subject.count = static_cast<uint32_t>(body_.limits.size() - first);
    size_t cells = 0;
    for (size_t i = first; i < body_.limits.size(); ++i)
      cells += limit::cells(body_.limits[i].limit);
    return cells <= limit::cells_max ||
           scanner_.fail({"these limits need more memory than one counter may have: at most two of "
                          "sliding_log can have a quota of 32 or more"});
  }

  bool read_limit(size_t first) {
    if (scanner_.peek() != '{')
      return scanner_.refuse(
          "a limit must be an object such as "
          "{\"quota\": 100, \"window\": \"1m\"}");
    TakeBody::NamedLimit named{{.algorithm = Algorithm::token_bucket}, {}};
    uint32_t seen = 0;
    std::optional<limit::Calendar::Unit> unit;
    limit::CalendarWords words;
    const bool sound = read_object([&](std::string_view its_name) {
      constexpr uint32_t allowed = set_of(name, quota, window, algorithm, burst, over, overdraft,
                                          time_zone, week_starts, month_day, year_day, starts_at);
      switch (static_cast<LimitMember>(find_member(its_name, limit_members, allowed, seen))) {
        case name:
          return read_name(first, named.name);
        case quota:
          return read_units(quota, named.limit.quota);
        case window:
          return read_window(named.limit.window, unit);
        case algorithm:
          return read_algorithm(named.limit.algorithm);
        case burst:
          return read_units(burst, named.limit.burst);
        case over:
          return read_over(named.counts);
        case overdraft:
          return read_units(overdraft, named.overdraft);
        case time_zone:
        case week_starts:
        case month_day:
        case year_day:
        case starts_at:
          return read_calendar_word(its_name, *words.find(its_name));
      }
      return false;
    });
    if (!sound || !check_limit(named.limit, seen) ||
        !read_calendar(unit, words, (seen & set_of(algorithm)) != 0, named.limit))
      return false;
    body_.limits.push_back(named);
    return true;
  }

  bool read_calendar_word(std::string_view its_name, std::optional<std::string_view>& to) {
    std::string_view text;
    if (scanner_.is_at_number() && its_name == "month_day") {
      if (!scanner_.read_number(text)) return false;
    } else if (scanner_.peek() != '"') {
      return scanner_.refuse(
          "a member of a window of the calendar must be a text, or of "
          "`month_day` a number");
    } else if (!scanner_.read_text(text)) {
      return false;
    }
    to = text;
    return true;
  }

  // The window of a limit that may be one of the calendar.
  bool read_calendar(std::optional<limit::Calendar::Unit> unit, const limit::CalendarWords& words,
                     bool has_algorithm, limit::Limit& limit) {
    const auto fail_by = [&](const limit::CalendarProblem& problem) {
      return fail_at(problem.key, {"`", problem.key, "`: ", problem.message, "; ", problem.remedy});
    };
    if (!unit) {
      const auto problem = limit::beside_length(words);
      return !problem || fail_by(*problem);
    }
    if (has_algorithm && limit.algorithm != Algorithm::aligned_window)
      return fail_at("window",
                     {"`window` is one of the calendar, which ", limit::name_of(limit.algorithm),
                      " cannot have, as they differ in length: take the algorithm out"});
    if (limit.burst != 0)
      return fail_at("burst", {"`burst` is for token_bucket, and windows of the calendar are of "
                               "aligned_window: take it out"});
    limit.algorithm = Algorithm::aligned_window;
    limit.window = limit::Calendar::nominal(*unit);
    limit::Calendar::Terms terms;
    if (const auto problem = limit::read_calendar(*unit, words, terms)) return fail_by(*problem);
    const limit::Calendar::Made its = limit::Calendar::of(terms);
    limit.calendar = its.calendar;
    return limit.calendar || fail_by(limit::problem_of(its.fault, terms, false));
  }

  // Checks what policies check too (policy/read/native.cc).
  bool check_limit(limit::Limit& limit, uint32_t seen) {
    const bool is_bucket = limit.algorithm == Algorithm::token_bucket;
    const bool is_fixed = limit.algorithm == Algorithm::fixed_bucket;
    const bool has_window = (seen & set_of(window)) != 0;
    if ((seen & set_of(quota)) == 0)
      return scanner_.fail({"`quota` is missing: add the units that a window allows"});
    if (has_window && is_fixed)
      return fail_at("window", {"`window` has no effect on a fixed_bucket, whose units come back "
                                "only by being put back: take it out"});
    if (!has_window && !is_fixed)
      return scanner_.fail(
          {"`window` is missing: add the length of time that the quota is for, "
           "such as \"1m\""});
    if ((seen & set_of(burst)) == 0) {
      if ((is_bucket && limit.window.us > 0) || is_fixed) limit.burst = limit.quota;
    } else if (!is_bucket) {
      return fail_at("burst", {"`burst` is for token_bucket, and this is a ",
                               limit::name_of(limit.algorithm), ": take it out"});
    }
    return true;
  }

  bool read_over(bool& counts) {
    constexpr std::string_view sentence = "`over` must be \"refuse\" or \"count\"";
    std::string_view text;
    if (scanner_.peek() != '"') return scanner_.refuse(sentence);
    if (!scanner_.read_text(text)) return false;
    counts = text == "count";
    return counts || text == "refuse" || scanner_.fail({sentence});
  }

  bool read_name(size_t first, std::string_view& to) {
    constexpr std::string_view sentence =
        "`name` must be 1 to 64 letters, digits, `_`, `-`, `.`, `:` or `/`";
    if (scanner_.peek() != '"') return scanner_.refuse(sentence);
    if (!scanner_.read_text(to)) return false;
    const bool sound = std::all_of(to.begin(), to.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '_' || (c >= '-' && c <= '/') || c == ':';
    });
    if (to.empty() || to.size() > take_name_bytes_max || !sound) return scanner_.fail({sentence});
    for (size_t i = first; i < body_.limits.size(); ++i)
      if (body_.limits[i].name == to)
        return scanner_.fail({"another limit of this list is named ", take_quoted(to), " too"});
    return true;
  }

  // Reads units: a number, or a text as in policies.
  bool read_units(LimitMember member, int64_t& to) {
    const std::string_view sentence =
        member == quota   ? "`quota` must be a whole number from 1 to 9007199254740991, or such a "
                            "number as a text: \"10k\""
        : member == burst ? "`burst` must be a whole number from 1 to 9007199254740991, or such a "
                            "number as a text: \"10k\""
                          : "`overdraft` must be a whole number from 0 to 9007199254740991, or "
                            "such a number as a text: \"10k\"";
    if (scanner_.peek() != '"') {
      if (!read_scaled(sentence, 0, base::bounds::quota_max, to)) return false;
    } else {
      std::string_view text;
      if (!scanner_.read_text(text)) return false;
      const auto count = base::parse_count(text);
      if (!count || *count > uint64_t{base::bounds::quota_max}) return scanner_.fail({sentence});
      to = static_cast<int64_t>(*count);
    }
    return to > 0 || member == overdraft || scanner_.fail({sentence});
  }

  // Reads a window: a number of seconds, or a text as in policies. Of one of the calendar `unit`.
  bool read_window(base::Duration& to, std::optional<limit::Calendar::Unit>& unit) {
    constexpr std::string_view sentence =
        "`window` must be a length of time such as \"1m\", a number of seconds, or a window of the "
        "calendar: \"hour\", \"day\", \"week\", \"month\" or \"year\"";
    constexpr std::string_view range =
        "`window` must be 1us to 36600d; a number of seconds has at most 6 digits behind the point";
    if (scanner_.is_at_number()) {
      if (!read_scaled(range, window_places, base::bounds::window_us_max, to.us)) return false;
    } else {
      std::string_view text;
      if (scanner_.peek() != '"') return scanner_.refuse(sentence);
      if (!scanner_.read_text(text)) return false;
      const auto length = base::parse_duration(text);
      if (!length && (unit = limit::calendar_unit(text))) return true;
      if (!length && base::parse_count(text))
        return scanner_.fail(
            {"`window` has no unit: write a number in place of a text if seconds "
             "are meant; units are us, ms, s, m, h, d"});
      if (!length) return scanner_.fail({sentence});
      to = *length;
    }
    return (to.us > 0 && to.us <= base::bounds::window_us_max) || scanner_.fail({range});
  }

  bool read_algorithm(Algorithm& to) {
    if (scanner_.peek() != '"')
      return scanner_.refuse("`algorithm` must be a text such as \"token_bucket\"");
    std::string_view text;
    if (!scanner_.read_text(text)) return false;
    for (const Algorithm known : take_algorithms) {
      if (!base::same(limit::name_of(known), text)) continue;
      to = known;
      return true;
    }
    if (text.starts_with("gcra"))
      return scanner_.fail({"unknown algorithm ", take_quoted(text), ": write `token_bucket`, ",
                            "which makes the same promise in exact arithmetic"});
    std::vector<std::string_view> names;
    for (const Algorithm known : take_algorithms) names.push_back(limit::name_of(known));
    return fail_unknown("algorithm", text, names);
  }

  // ---- Objects, lists and values ----

  // Reads an object from its opening brace on. Adds a member's name to the pointer of a problem in
  // the member.
  template <class Read>
  bool read_object(Read read_member_named) {
    scanner_.take('{');
    if (scanner_.take('}')) return true;
    do {
      std::string_view its_name;
      if (scanner_.peek() != '"') return scanner_.expected("a name in double quotes");
      if (!scanner_.read_text(its_name)) return false;
      if (!scanner_.take(':')) return scanner_.expected("`:`");
      if (!read_member_named(its_name)) return within(its_name);
    } while (scanner_.take(','));
    return scanner_.take('}') || scanner_.expected("`,` or `}`");
  }

  template <class Read>
  bool read_list(std::string_view sentence, size_t most, std::string_view its_name,
                 Read read_item) {
    if (!scanner_.take('[')) return scanner_.refuse(sentence);
    if (scanner_.take(']')) return scanner_.fail({sentence});
    size_t index = 0;
    do {
      if (index == most || !read_item()) {
        if (index == most)
          scanner_.fail({"`", its_name, "` has more than ", std::to_string(most), " items"});
        return within(std::to_string(index));
      }
      ++index;
    } while (scanner_.take(','));
    return scanner_.take(']') || scanner_.expected("`,` or `]`");
  }

  // Finds the member's index and adds it to `seen`. known.size(): the member is unknown or not
  // allowed, or it was seen before; that was reported.
  template <size_t count>
  size_t find_member(std::string_view its_name, const std::array<std::string_view, count>& known,
                     uint32_t allowed, uint32_t& seen) {
    size_t which = 0;
    while (which < count && !base::same(its_name, known[which])) ++which;
    const uint32_t bit = uint32_t{1} << which;
    if ((allowed & bit) == 0) {
      std::vector<std::string_view> names;
      for (size_t i = 0; i < count; ++i)
        if ((allowed >> i & 1) != 0) names.push_back(known[i]);
      fail_unknown("member", its_name, names);
      return count;
    }
    if ((seen & bit) != 0) {
      fail_twice(its_name);
      return count;
    }
    seen |= bit;
    return which;
  }

  bool read_boolean(std::string_view sentence, bool& to) {
    std::string_view word;
    if (!scanner_.take_boolean(word)) return scanner_.refuse(sentence);
    to = word == "true";
    return true;
  }

  // Reads a number and multiplies it by 10^places. The product must be a whole number from 0 to
  // `most`.
  bool read_scaled(std::string_view sentence, int64_t places, int64_t most, int64_t& to) {
    if (!scanner_.is_at_number()) return scanner_.refuse(sentence);
    std::string_view text;
    if (!scanner_.read_number(text)) return false;
    const auto number = scale_number(text, places, most);
    if (number) to = *number;
    return number || scanner_.fail({sentence});
  }

  // ---- Problems ----

  bool fail_encoding() {
    size_t at = 0;
    while (true) {
      const auto [size, valid] = base::utf8::first_sequence(json_.substr(at));
      if (!valid) break;
      at += size;
    }
    return scanner_.fail({"the body is not UTF-8 at offset ", std::to_string(at)});
  }

  bool fail_start() {
    if (json_.starts_with("\xEF\xBB\xBF"))
      return scanner_.fail({"the body begins with a byte order mark: send UTF-8 without one"});
    return scanner_.fail({scanner_.is_done() ? "the body is empty: send" : "the body must be",
                          " an object such as ", wanted_.only_takes ? "{\"takes\": [" : "",
                          "{\"entries\": {\"ip\": \"10.0.0.1\"}}", wanted_.only_takes ? "]}" : ""});
  }

  bool fail_forms(const TakeDraft& draft) {
    if (wanted_.only_takes && (draft.allowed & set_of(takes)) != 0)
      return scanner_.fail(
          {"`takes` is missing: add a list such as "
           "[{\"entries\": {\"ip\": \"10.0.0.1\"}}]"});
    return scanner_.fail(
        {"exactly one must be given of `entries`", (draft.allowed & set_of(takes)) != 0
                                                       ? ", `key` with `limits`, and `takes`"
                                                       : " and `key` with `limits`"});
  }

  bool fail_twice(std::string_view its_name) {
    return scanner_.fail({take_quoted(its_name), " is there twice: take one of them out"});
  }

  bool fail_unknown(std::string_view kind, std::string_view word,
                    const std::vector<std::string_view>& known) {
    const std::string_view nearest = base::nearest_word(word, known);
    scanner_.fail({"unknown ", kind, " ", take_quoted(word)});
    if (nearest.empty())
      body_.problem += "; known are " + take_listed(known);
    else
      body_.problem += "; did you mean " + take_quoted(nearest) + "?";
    return false;
  }

  bool fail_at(std::string_view its_name, std::initializer_list<std::string_view> parts) {
    scanner_.fail(parts);
    return within(its_name);
  }

  // Puts a reference token (RFC 6901, 3) in front of the pointer, on the way out of a failure.
  // Returns false.
  bool within(std::string_view token) {
    if (token.size() > take_quoted_bytes_max) return false;
    std::string escaped = "/";
    for (const char c : token) {
      if (c == '~' || c == '/')
        escaped += c == '~' ? "~0" : "~1";
      else
        escaped += c;
    }
    body_.pointer.insert(0, escaped);
    return false;
  }

  const std::string_view json_;
  const BodyForm& wanted_;
  const uint32_t allowed_in_take_;  // a set of body_members
  TakeBody& body_;
  TakeBodyScanner scanner_;
};

}  // namespace

void TakeBodyReader::begin(TakeBody& body) {
  body.has_takes = body.each = body.detail = body.has_copies = false;
  body.timeout.reset();
  body.id = {};
  body.subjects.clear();
  body.entries.clear();
  body.limits.clear();
  body.problem.clear();
  body.pointer.clear();
  texts_.clear();
}

bool TakeBodyReader::read(std::string_view json, const BodyForm& wanted, TakeBody& body) {
  begin(body);
  return TakeBodyParser(json, wanted, texts_, body).read();
}

bool TakeBodyReader::read_hold(std::string_view json, request::HoldAsk ask, TakeBody& body) {
  constexpr BodyForm with_n, without_n{.has_n = false};
  begin(body);
  body.ttl = {};
  body.holder = {};
  body.units.clear();
  body.has_units_list = false;
  return TakeBodyParser(json, ask == request::HoldAsk::commit ? without_n : with_n, texts_, body)
      .read_hold(ask);
}

// ---- In a query ----

namespace {

// The most parameters of a query; more are refused. A head of 64 KiB has room for more.
constexpr size_t query_pairs_max = 256;

struct ReadQuery {
  std::vector<std::pair<std::string, std::string>> entries;
  // The values of query_names, as texts: of the limit that comes with the request, and of the take.
  std::array<std::optional<std::string>, 11> values;
  bool always_ok = false;
};

constexpr std::array<std::string_view, 11> query_names = {
    "key",       "limit",       "window",    "algorithm", "burst",    "n",
    "time_zone", "week_starts", "month_day", "year_day",  "starts_at"};

std::string unknown_parameter(std::string_view name) {
  return "the query has an unknown parameter `" + std::string(name.substr(0, 64)) +
         "`; it takes entry, key, limit, window, algorithm, burst, time_zone, week_starts, "
         "month_day, year_day, starts_at, n and status=200";
}

base::Done add_entry(const std::string& text, ReadQuery& read) {
  const size_t cut = text.find('=');
  if (cut == std::string::npos || cut == 0) return base::Problem{"`entry` must be KEY=VALUE"};
  read.entries.emplace_back(text.substr(0, cut), text.substr(cut + 1));
  return {};
}

base::Done add_pair(std::string_view pair, ReadQuery& read) {
  const size_t cut = std::min(pair.find('='), pair.size());
  const auto name = wire::percent_decoded(pair.substr(0, cut), true);
  const auto value = wire::percent_decoded(pair.substr(std::min(cut + 1, pair.size())), true);
  if (!name || !value) return base::Problem{"the query is not percent-encoded well"};
  // JSON has no other text: different bytes would become the same key.
  if (!base::utf8::is_valid(*name) || !base::utf8::is_valid(*value))
    return base::Problem{"the query has bytes that are not UTF-8"};
  if (*name == "entry") return add_entry(*value, read);
  if (*name == "status" && *value == "200") {
    read.always_ok = true;
    return {};
  }
  const auto at = std::find(query_names.begin(), query_names.end(), *name);
  if (at == query_names.end()) return base::Problem{unknown_parameter(*name)};
  auto& to = read.values[static_cast<size_t>(at - query_names.begin())];
  if (to) return base::Problem{"the query has `" + *name + "` twice"};
  to = *value;
  return {};
}

}  // namespace

base::Result<TakeOfQuery> body_of_query(std::string_view query) {
  ReadQuery read;
  for (size_t pairs = 0; !query.empty(); ++pairs) {
    if (pairs == query_pairs_max) return base::Problem{"the query has more than 256 parameters"};
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (base::Done added = add_pair(pair, read); !added) return std::move(added).problem();
  }
  const auto& [key, limit, window, algorithm, burst, n, time_zone, week_starts, month_day, year_day,
               starts_at] = read.values;
  std::string body;
  base::JsonWriter to(body, base::JsonForm::spaced);
  const auto put = [&](std::string_view name, const std::optional<std::string>& value) {
    if (!value) return;
    to.name(name);
    to.text(*value);
  };
  to.open_object();
  if (!read.entries.empty()) {
    to.name("entries");
    to.open_object();
    for (const auto& [name, value] : read.entries) put(name, value);
    to.close_object();
  }
  put("key", key);
  if (limit || window || algorithm || burst || time_zone || week_starts || month_day || year_day ||
      starts_at) {
    to.name("limits");
    to.open_list();
    to.open_object();
    put("quota", limit);
    put("window", window);
    put("algorithm", algorithm);
    put("burst", burst);
    put("time_zone", time_zone);
    put("week_starts", week_starts);
    put("month_day", month_day);
    put("year_day", year_day);
    put("starts_at", starts_at);
    to.close_object();
    to.close_list();
  }
  if (n) {
    const bool is_number = !n->empty() && std::all_of(n->begin(), n->end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return base::Problem{"`n` must be a whole number"};
    to.name("n");
    to.raw(*n);
  }
  to.close_object();
  return TakeOfQuery{std::move(body), read.always_ok};
}

}  // namespace sluice::http
