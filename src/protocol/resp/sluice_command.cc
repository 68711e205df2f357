#include "protocol/resp/sluice_command.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/buffer.h"
#include "base/rfc3339.h"
#include "base/units.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "limit/shown.h"
#include "policy/inline_limits.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"
#include "request/charge_ids.h"
#include "request/hold.h"
#include "request/kept_verdict.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

using limit::Algorithm;
using Words = std::span<const std::string_view>;

static_assert(base::bounds::together_max >= sluice_subjects_max);
// Texts of errors contain these numbers.
static_assert(request::charge_id_bytes_min == 16 && request::charge_id_bytes_max == 64 &&
              sluice_subjects_max == 64 && sluice_entries_max == 64 && limit::slots_max == 8 &&
              base::bounds::window_us_max == int64_t{36'600} * 86'400 * 1'000'000 &&
              sluice_ttl_max == base::seconds(86'400) && request::holder_bytes_max == 255);

constexpr size_t quoted_bytes_max = 128;
// The longest text of a float, as in Redis.
constexpr size_t float_bytes_max = 5 * 1024 - 1;
// Keeps the sum of a time and a timeout within 64 bits.
constexpr long double timeout_us_end = 4611686018427387904.0L;  // 2^62

// Words that end a list of entries in any command. In bit sets the first word is bit 0, and so on.
constexpr std::string_view grammar_words[] = {
    "N",       "ALL",      "NOW",       "EACH",      "WITHNAME", "ID",         "TTL",
    "WAIT",    "HOLDER",   "SUBJECT",   "WITHUNITS", "CLOSE",    "LIMIT",      "ALGORITHM",
    "BURST",   "OVER",     "KEY",       "ENTRIES",   "ZONE",     "WEEKSTARTS", "MONTHDAY",
    "YEARDAY", "STARTSAT", "OVERDRAFT", "MAXLEASE"};
constexpr uint32_t n_option = 1, all_option = 2, now_option = 4, each_option = 8, name_option = 16,
                   id_option = 32, ttl_option = 64, wait_option = 128, holder_option = 256,
                   subject_option = 512, units_option = 1024, close_option = 2048;
constexpr uint32_t flag_options =
    all_option | each_option | name_option | units_option | close_option;
constexpr uint32_t hold_options = id_option | wait_option | holder_option | units_option;

struct SluiceForm {
  std::string_view name;
  SluiceVerb verb;
  size_t words_min;       // 1: exactly one word
  uint32_t options;       // a set of grammar_words
  uint32_t required = 0;  // those that must come
};

constexpr SluiceForm sluice_forms[] = {
    {"SLUICE.TAKE", SluiceVerb::take, 2, n_option | now_option | name_option},
    {"SLUICE.PEEK", SluiceVerb::peek, 2, n_option | name_option},
    {"SLUICE.PUT", SluiceVerb::put, 2, n_option | all_option},
    {"SLUICE.RESET", SluiceVerb::reset, 2, 0},
    {"SLUICE.WAIT", SluiceVerb::wait, 3, n_option},
    {"SLUICE.MTAKE", SluiceVerb::mtake, 5, n_option | each_option},
    {"SLUICE.CHARGE", SluiceVerb::charge, 2, n_option | id_option | name_option},
    {"SLUICE.EXPLAIN", SluiceVerb::explain, 2, 0},
    {"SLUICE.INFO", SluiceVerb::info, 1, 0},
    {"SLUICE.HELP", SluiceVerb::help, 1, 0},
    {"SLUICE.RESERVE", SluiceVerb::reserve, 5, n_option | hold_options, n_option},
    {"SLUICE.MRESERVE", SluiceVerb::mreserve, 6, hold_options},
    {"SLUICE.ACQUIRE", SluiceVerb::acquire, 3, n_option | hold_options | close_option},
    {"SLUICE.EXTEND", SluiceVerb::extend, 2, n_option | ttl_option | units_option},
    {"SLUICE.COMMIT", SluiceVerb::commit, 4, n_option | subject_option, n_option},
    {"SLUICE.RELEASE", SluiceVerb::release, 2, 0},
    {"SLUICE.RENEW", SluiceVerb::renew, 2, 0},
};

struct AlgorithmWord {
  std::string_view word;
  Algorithm algorithm;
};

constexpr AlgorithmWord algorithm_words[] = {
    {"TOKEN_BUCKET", Algorithm::token_bucket},     {"FIXED_WINDOW", Algorithm::fixed_window},
    {"ALIGNED_WINDOW", Algorithm::aligned_window}, {"SLIDING_WINDOW", Algorithm::sliding_window},
    {"SLIDING_LOG", Algorithm::sliding_log},       {"FIXED_BUCKET", Algorithm::fixed_bucket},
    {"CONCURRENCY", Algorithm::concurrency},
};

struct CalendarUnitWord {
  std::string_view word;
  limit::Calendar::Unit unit;
};

constexpr CalendarUnitWord calendar_unit_words[] = {{"HOUR", limit::Calendar::Unit::hour},
                                                    {"DAY", limit::Calendar::Unit::day},
                                                    {"WEEK", limit::Calendar::Unit::week},
                                                    {"MONTH", limit::Calendar::Unit::month},
                                                    {"YEAR", limit::Calendar::Unit::year}};

// The words beside such a window, each with the key of policies.
struct CalendarWord {
  std::string_view word, key;
};

constexpr CalendarWord calendar_words[] = {{"ZONE", "time_zone"},
                                           {"WEEKSTARTS", "week_starts"},
                                           {"MONTHDAY", "month_day"},
                                           {"YEARDAY", "year_day"},
                                           {"STARTSAT", "starts_at"}};

// The bit of the word; 0: it is not one of grammar_words.
uint32_t grammar_bit(std::string_view word) {
  for (size_t i = 0; i < std::size(grammar_words); ++i)
    if (is_word(word, grammar_words[i])) return uint32_t{1} << i;
  return 0;
}

// Reads seconds with a fraction. Nothing: not a whole number of microseconds.
std::optional<base::Duration> parse_seconds(std::string_view text) {
  size_t point = text.find('.');
  if (point == text.npos)
    point = text.size();
  else if (point + 1 == text.size())
    return std::nullopt;
  if (point == 0) return std::nullopt;
  int64_t us = 0;
  constexpr size_t places = 6;
  // Reads the digits up to the sixth place after the point as one number. Missing digits are 0.
  for (size_t i = 0; i < std::max(text.size(), point + 1 + places); ++i) {
    if (i == point) continue;
    const char c = i < text.size() ? text[i] : '0';
    if (c < '0' || c > '9') return std::nullopt;
    if (i > point + places) {
      if (c != '0') return std::nullopt;
    } else if (__builtin_mul_overflow(us, 10, &us) || __builtin_add_overflow(us, c - '0', &us)) {
      return std::nullopt;
    }
  }
  return base::Duration{us};
}

// Reads a window or a lease: as in policies, or as seconds.
std::optional<base::Duration> parse_length(std::string_view text) {
  const auto length = base::parse_duration(text);
  return length ? length : parse_seconds(text);
}

// Reads what Redis accepts as a float: a number of the C library, but without leading blanks, NaN,
// overflow and underflow.
std::optional<long double> parse_float(std::string_view word) {
  char text[float_bytes_max + 1];
  if (word.empty() || word.size() > float_bytes_max || word[0] == ' ' ||
      (word[0] >= '\t' && word[0] <= '\r'))
    return std::nullopt;
  *std::copy(word.begin(), word.end(), text) = '\0';
  char* end = text;
  errno = 0;
  const long double number = std::strtold(text, &end);
  const bool left_range = errno == ERANGE && (std::isinf(number) || number == 0);
  if (end != text + word.size() || std::isnan(number) || left_range) return std::nullopt;
  return number;
}

class SluiceCommandReader {
 public:
  SluiceCommandReader(Words words, SluiceCommand& command) : words_(words), command_(command) {}

  bool read() {
    if (words_.empty()) return syntax_error();
    const std::string_view name = words_[at_++];
    for (const SluiceForm& form : sluice_forms)
      if (is_word(name, form.name)) return read_form(form);
    return fail("ERR unknown command '", quoted(name), "'");
  }

 private:
  bool read_form(const SluiceForm& form) {
    if (words_.size() < form.words_min || (form.words_min == 1 && words_.size() > 1))
      return wrong_count(form);
    command_.verb = form.verb;
    if (form.verb >= SluiceVerb::extend) return read_settling(form);
    const bool holds = form.verb >= SluiceVerb::reserve;
    const bool several = form.verb == SluiceVerb::mtake || form.verb == SluiceVerb::mreserve;
    int64_t subjects = form.words_min > 1 ? 1 : 0;
    if (holds && !read_ttl(words_[at_++])) return false;
    if (form.verb == SluiceVerb::wait && !read_timeout(words_[at_++])) return false;
    if (several && !read_number(words_[at_++], 1, sluice_subjects_max, subjects,
                                "ERR numsubjects must be 1 to 64"))
      return false;
    for (; subjects > 0; --subjects) {
      if (!read_subject()) return false;
      if (form.verb == SluiceVerb::mreserve && !read_units_of_subject()) return false;
    }
    if (!read_options(form)) return false;
    if (form.verb == SluiceVerb::reserve || form.verb == SluiceVerb::acquire)
      command_.units.push_back(std::exchange(command_.n, 1));
    return true;
  }

  // Reads a command about a hold that is named by its id.
  bool read_settling(const SluiceForm& form) {
    if (!read_id(words_[at_++])) return false;
    if (form.verb == SluiceVerb::renew && !is_done() && !read_ttl(words_[at_++])) return false;
    if (!read_options(form)) return false;
    return command_.subjects.empty() || command_.subjects.size() == command_.units.size() ||
           fail("ERR SUBJECT must come once for each number of N");
  }

  // ---- Subjects ----

  bool read_subject() {
    if (is_done()) return syntax_error();
    if (take_word("KEY")) return read_inline();
    if (take_word("ENTRIES")) return read_listed();
    if (command_.verb == SluiceVerb::mtake) return syntax_error();
    const size_t first = command_.entries.size();
    for (; !is_done(); ++at_) {
      const size_t equals = words_[at_].find('=');
      if (equals == std::string_view::npos && grammar_bit(words_[at_]) != 0) break;
      if (!add_entry(first, words_[at_], equals)) return false;
    }
    return add_entries_subject(first);
  }

  bool read_listed() {
    if (is_done()) return syntax_error();
    int64_t count;
    if (!read_number(words_[at_++], 1, sluice_entries_max, count, "ERR numentries must be 1 to 64"))
      return false;
    if (words_.size() - at_ < static_cast<size_t>(count)) return syntax_error();
    const size_t first = command_.entries.size();
    for (; count > 0; --count, ++at_)
      if (!add_entry(first, words_[at_], words_[at_].find('='))) return false;
    return add_entries_subject(first);
  }

  bool add_entry(size_t first, std::string_view word, size_t equals) {
    if (equals == word.npos) return fail("ERR entry '", quoted(word), "' has no '='");
    if (equals == 0) return fail("ERR entry '", quoted(word), "' has no key");
    if (command_.entries.size() - first == sluice_entries_max)
      return fail("ERR a subject has at most 64 entries");
    command_.entries.push_back({word.substr(0, equals), word.substr(equals + 1)});
    return true;
  }

  bool add_entries_subject(size_t first) {
    const size_t count = command_.entries.size() - first;
    if (count == 0) return syntax_error();
    command_.subjects.push_back(
        {.first = static_cast<uint32_t>(first), .count = static_cast<uint32_t>(count)});
    return true;
  }

  bool read_inline() {
    if (is_done()) return syntax_error();
    const std::string_view key = words_[at_++];
    const size_t first = command_.limits.size();
    size_t count = 0;
    limit::LimitMask counting = 0;
    bool has_overdraft = false;
    for (; take_word("LIMIT"); ++count) {
      if (count == limit::slots_max) return fail("ERR a subject has at most 8 limits");
      bool counts = false;
      if (!read_limit(counts)) return false;
      has_overdraft |= command_.overdrafts.back() < limit::Overdrafts::none;
      if (counts) counting = static_cast<limit::LimitMask>(counting | 1u << count);
    }
    if (count == 0) return syntax_error();
    const SluiceSubject subject{
        true,     key,          static_cast<uint32_t>(first), static_cast<uint32_t>(count),
        counting, has_overdraft};
    if (limit::cells(std::span(command_.limits).subspan(first)) > limit::cells_max)
      return fail(
          "ERR the limits of a subject need more memory than one counter may have: at most two of "
          "sliding_log or concurrency can have a quota of 32 or more");
    command_.subjects.push_back(subject);
    return true;
  }

  // Reads the words after LIMIT.
  bool read_limit(bool& counts) {
    if (words_.size() - at_ < 2) return syntax_error();
    limit::Limit limit{.algorithm = Algorithm::token_bucket};
    if (!read_units(words_[at_++], limit.quota, "ERR quota must be positive")) return false;
    const std::string_view window = words_[at_++];
    std::optional<limit::Calendar::Unit> unit;
    for (const CalendarUnitWord& one : calendar_unit_words)
      if (is_word(window, one.word)) unit = one.unit;
    const auto length = parse_length(window);
    if (!length && !unit) return fail("ERR window is not a length of time");
    limit.window = unit ? limit::Calendar::nominal(*unit) : *length;
    limit::CalendarWords calendar;
    bool has_algorithm = false, has_burst = false, has_over = false, has_overdraft = false;
    std::optional<base::Duration> longest;  // MAXLEASE
    int64_t& overdraft = command_.overdrafts.emplace_back(limit::Overdrafts::none);
    while (true) {
      if (!has_algorithm && take_word("ALGORITHM")) {
        has_algorithm = true;
        if (is_done()) return syntax_error();
        if (!read_algorithm(words_[at_++], limit.algorithm)) return false;
      } else if (!has_burst && take_word("BURST")) {
        has_burst = true;
        if (is_done()) return syntax_error();
        if (!read_units(words_[at_++], limit.burst, "ERR BURST must be positive")) return false;
      } else if (!has_over && take_word("OVER")) {
        has_over = true;
        if (is_done()) return syntax_error();
        const std::string_view word = words_[at_++];
        if (!is_word(word, "COUNT") && !is_word(word, "REFUSE"))
          return fail("ERR OVER must be COUNT or REFUSE");
        counts = is_word(word, "COUNT");
      } else if (!has_overdraft && take_word("OVERDRAFT")) {
        has_overdraft = true;
        if (is_done()) return syntax_error();
        if (!read_units(words_[at_++], overdraft)) return false;
      } else if (!longest && take_word("MAXLEASE")) {
        if (is_done()) return syntax_error();
        longest = parse_length(words_[at_++]);
        if (!longest) return fail("ERR MAXLEASE is not a length of time");
      } else if (auto* const word = take_calendar_word(calendar)) {
        if (is_done()) return syntax_error();
        *word = words_[at_++];
      } else {
        break;
      }
    }
    return read_calendar(unit, calendar, has_algorithm, limit) &&
           add_limit(limit, has_burst, longest);
  }

  // The place of the word that comes next; null: it is none, or comes again.
  std::optional<std::string_view>* take_calendar_word(limit::CalendarWords& words) {
    if (is_done()) return nullptr;
    for (const CalendarWord& one : calendar_words) {
      if (!is_word(words_[at_], one.word)) continue;
      auto* const place = words.find(one.key);
      if (place->has_value()) return nullptr;
      ++at_;
      return place;
    }
    return nullptr;
  }

  bool read_calendar(std::optional<limit::Calendar::Unit> unit, limit::CalendarWords words,
                     bool has_algorithm, limit::Limit& limit) {
    const auto fail_by = [&](const limit::CalendarProblem& problem) {
      for (const CalendarWord& one : calendar_words)
        if (one.key == problem.key)
          return fail("ERR ", one.word, ": " + problem.message + "; " + problem.remedy);
      return fail("ERR ", problem.message, "; " + problem.remedy);
    };
    if (!unit) {
      const auto problem = limit::beside_length(words);
      return !problem || fail_by(*problem);
    }
    if (has_algorithm && limit.algorithm != Algorithm::aligned_window)
      return fail(
          "ERR a window of the calendar is of aligned_window alone, as they differ in "
          "length");
    limit.algorithm = Algorithm::aligned_window;
    // Days in whatever case, as all words.
    std::string day(words.week_starts.value_or(""));
    for (char& c : day) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (words.week_starts) words.week_starts = day;
    limit::Calendar::Terms terms;
    if (const auto problem = limit::read_calendar(*unit, words, terms)) return fail_by(*problem);
    const limit::Calendar::Made its = limit::Calendar::of(terms);
    limit.calendar = its.calendar;
    return limit.calendar || fail_by(limit::problem_of(its.fault, terms, false));
  }

  bool add_limit(limit::Limit& limit, bool has_burst, std::optional<base::Duration> longest) {
    if (has_burst && limit.algorithm != Algorithm::token_bucket)
      return fail("ERR BURST is for token_bucket only");
    if (limit.algorithm == Algorithm::fixed_bucket) {
      if (limit.window.us != 0) return fail("ERR window of fixed_bucket must be 0");
    } else if (limit.window.us == 0) {
      return fail("ERR window must be positive");
    } else if (limit.window.us > base::bounds::window_us_max) {
      return fail("ERR window is longer than 36600d");
    }
    if (!has_burst &&
        (limit.algorithm == Algorithm::token_bucket || limit.algorithm == Algorithm::fixed_bucket))
      limit.burst = limit.quota;
    if (longest) {
      if (limit.algorithm != Algorithm::concurrency)
        return fail("ERR MAXLEASE is for concurrency only");
      if (longest->us < limit.window.us)
        return fail("ERR MAXLEASE is shorter than the lease, which is the window");
      if (longest->us > base::bounds::window_us_max)
        return fail("ERR MAXLEASE is longer than 36600d");
    }
    if (limit.algorithm == Algorithm::concurrency) limit.burst = longest.value_or(limit.window).us;
    command_.limits.push_back(limit);
    return true;
  }

  bool read_algorithm(std::string_view word, Algorithm& algorithm) {
    const auto named = algorithm_named(word);
    if (named) algorithm = *named;
    return named ||
           fail("ERR unknown algorithm '", quoted(word),
                is_word(word, "GCRA") ? "': token_bucket makes the same promise in exact arithmetic"
                                      : "'");
  }

  // ---- Options ----

  bool read_options(const SluiceForm& form) {
    uint32_t allowed = form.options;
    while (!is_done()) {
      const uint32_t option = grammar_bit(words_[at_++]) & allowed;
      if (option == 0) return syntax_error();
      if (option != subject_option) allowed &= ~option;
      // N and ALL exclude each other.
      if (option == n_option || option == all_option) allowed &= ~(n_option | all_option);
      if (option == all_option) command_.all = true;
      if (option == each_option) command_.each = true;
      if (option == name_option) command_.with_name = true;
      if (option == units_option) command_.with_units = true;
      if (option == close_option) command_.closes = true;
      if ((option & flag_options) == 0 && !read_value(option)) return false;
    }
    return (allowed & form.required) == 0 || syntax_error();
  }

  // Reads what follows an option.
  bool read_value(uint32_t option) {
    if (is_done()) return syntax_error();
    const bool is_list = command_.verb >= SluiceVerb::extend;
    if (option == subject_option)
      return command_.subjects.size() < sluice_subjects_max ? read_subject() : syntax_error();
    if (option == n_option && is_list) return read_units_list();
    const std::string_view value = words_[at_++];
    switch (option) {
      case n_option:
        return read_n(value);
      case now_option:
        return read_now(value);
      case id_option:
        return read_id(value);
      case ttl_option:
        return read_ttl(value);
      case wait_option:
        return read_timeout(value);
      default:
        return read_holder(value);
    }
  }

  // Reads the numbers after N, up to the next option.
  bool read_units_list() {
    do {
      if (command_.units.size() == sluice_subjects_max) return fail("ERR N has at most 64 numbers");
      if (!read_units_of_hold(words_[at_++])) return false;
    } while (!is_done() && grammar_bit(words_[at_]) == 0);
    return true;
  }

  // Reads `N n` after a subject.
  bool read_units_of_subject() {
    if (!take_word("N") || is_done()) return syntax_error();
    return read_units_of_hold(words_[at_++]);
  }

  bool read_units_of_hold(std::string_view word) {
    if (!read_n(word)) return false;
    command_.units.push_back(std::exchange(command_.n, 1));
    return true;
  }

  bool read_n(std::string_view word) {
    const bool is_put = command_.verb == SluiceVerb::put;
    int64_t n;
    if (!wire::read_resp_number(word, n) || n > base::bounds::quota_max || (n < 0 && !is_put))
      return number_error();
    if (n < 1 && is_put) return fail("ERR N must be positive");
    command_.n = n;
    return true;
  }

  bool read_now(std::string_view word) {
    int64_t ms, us;
    if (!wire::read_resp_number(word, ms) || ms < 0 || __builtin_mul_overflow(ms, 1000, &us))
      return number_error();
    command_.now = base::Time{us};
    return true;
  }

  bool read_id(std::string_view word) {
    command_.id = word;
    return request::is_charge_id(word) ||
           fail("ERR ID must be 16 to 64 of the characters A-Z a-z 0-9 _ -");
  }

  bool read_holder(std::string_view word) {
    command_.holder = word;
    return word.size() <= request::holder_bytes_max || fail("ERR HOLDER has at most 255 bytes");
  }

  // ---- Numbers ----

  bool read_number(std::string_view word, int64_t least, int64_t most, int64_t& number,
                   std::string_view out_of_range) {
    if (!wire::read_resp_number(word, number)) return number_error();
    return (number >= least && number <= most) || fail(out_of_range);
  }

  bool read_units(std::string_view word, int64_t& units) {
    const auto n = base::parse_count(word);
    if (!n || *n > uint64_t{base::bounds::quota_max}) return number_error();
    units = static_cast<int64_t>(*n);
    return true;
  }
  bool read_units(std::string_view word, int64_t& units, std::string_view zero) {
    return read_units(word, units) && (units > 0 || fail(zero));
  }

  bool read_timeout(std::string_view word) {
    return read_float("ERR timeout", word, command_.timeout);
  }
  bool read_ttl(std::string_view word) {
    if (!read_float("ERR ttl", word, command_.ttl)) return false;
    return command_.ttl.us <= sluice_ttl_max.us || fail("ERR ttl is more than 86400 seconds");
  }

  // `what`: the beginning of its errors.
  bool read_float(std::string_view what, std::string_view word, base::Duration& length) {
    const auto seconds = parse_float(word);
    if (!seconds) return fail(what, " is not a float or out of range");
    if (*seconds < 0) return fail(what, " is negative");
    const long double us = *seconds * 1e6L;
    if (us >= timeout_us_end) return fail(what, " is out of range");
    length.us = *seconds > 0 ? std::max<int64_t>(std::llround(us), 1) : 0;
    return true;
  }

  // ---- Words and errors ----

  bool is_done() const { return at_ == words_.size(); }

  // Takes the next word if it equals `upper`, ignoring case.
  bool take_word(std::string_view upper) {
    if (is_done() || !is_word(words_[at_], upper)) return false;
    ++at_;
    return true;
  }

  static std::string_view quoted(std::string_view text) { return text.substr(0, quoted_bytes_max); }

  bool fail(std::string_view begin, std::string_view middle = {}, std::string_view end = {}) {
    command_.error.assign(begin).append(middle).append(end);
    return false;
  }
  bool syntax_error() { return fail("ERR syntax error"); }
  bool number_error() { return fail("ERR value is not an integer or out of range"); }
  bool wrong_count(const SluiceForm& form) {
    fail("ERR wrong number of arguments for '");
    for (const char c : form.name)
      command_.error += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    command_.error += "' command";
    return false;
  }

  Words words_;
  SluiceCommand& command_;
  size_t at_ = 0;  // of the next word
};

}  // namespace

std::optional<Algorithm> algorithm_named(std::string_view word) {
  for (const AlgorithmWord& known : algorithm_words)
    if (is_word(word, known.word)) return known.algorithm;
  return std::nullopt;
}

bool parse_sluice_command(std::span<const std::string_view> words, SluiceCommand& command) {
  command.verb = SluiceVerb::info;
  command.all = command.each = command.with_name = command.with_units = command.closes = false;
  command.n = 1;
  command.now.reset();
  command.id = command.holder = {};
  command.timeout = command.ttl = {};
  command.units.clear();
  command.subjects.clear();
  command.entries.clear();
  command.limits.clear();
  command.overdrafts.clear();
  command.error.clear();
  return SluiceCommandReader(words, command).read();
}

// SLUICE.*, and replies that combine several verdicts.

using request::Verb;

namespace {

constexpr std::string_view other_charge = "IDINUSE the id was used with another charge";

}  // namespace

void RespSession::sluice(Words words) {
  if (!parse_sluice_command(words, sluice_)) return answer_malformed(sluice_.error);
  const auto is_inline = [](const SluiceSubject& subject) { return subject.is_inline; };
  if (!options_.inline_limits &&
      std::any_of(sluice_.subjects.begin(), sluice_.subjects.end(), is_inline))
    return answer_malformed(
        "ERR limits that come with a command are switched off (resp.inline_limits)");
  if (sluice_.now) return answer_malformed("ERR NOW is not available in this version");
  switch (sluice_.verb) {
    case SluiceVerb::take:
      return commit_subject(
          sluice_.subjects[0],
          {.message = message(), .note = sluice_.with_name ? five_and_name : five});
    case SluiceVerb::peek:
      return commit_subject(sluice_.subjects[0],
                            {.verb = Verb::would_take,
                             .message = message(),
                             .note = sluice_.with_name ? five_and_name : five});
    case SluiceVerb::put:
      return commit_subject(sluice_.subjects[0], {.verb = sluice_.all ? Verb::reset : Verb::put,
                                                  .message = message({.needs_store = true}),
                                                  .note = left_and_limit});
    case SluiceVerb::reset: {
      const request::Message* const its = message({.needs_store = true});
      commit_subject(sluice_.subjects[0],
                     {.verb = Verb::peek, .message = its, .note = counters | gathered});
      return commit_subject(sluice_.subjects[0],
                            {.verb = Verb::reset, .message = its, .note = counters});
    }
    case SluiceVerb::explain:
      return commit_subject(sluice_.subjects[0],
                            {.verb = Verb::would_take, .message = message(), .note = explanation});
    case SluiceVerb::charge:
      return sluice_.id.empty() ? charge() : charge_once();
    case SluiceVerb::mtake:
      return take_several();
    case SluiceVerb::wait:
      return wait();
    case SluiceVerb::reserve:
    case SluiceVerb::mreserve:
    case SluiceVerb::acquire:
    case SluiceVerb::extend:
    case SluiceVerb::commit:
    case SluiceVerb::release:
    case SluiceVerb::renew:
      return hold();
    case SluiceVerb::info:
      return answer_with([&](wire::RespWriter& out) {
        const request::ServerFigures figures =
            peer_.server == nullptr ? request::ServerFigures() : peer_.server->figures();
        out.map(4);
        out.bulk("version");
        out.bulk(server_version());
        out.bulk("uptime_seconds");
        out.integer(figures.uptime.us / 1'000'000);
        out.bulk("counters");
        out.integer(static_cast<int64_t>(figures.counters));
        out.bulk("counter_memory_bytes");
        out.integer(static_cast<int64_t>(figures.memory_bytes));
      });
    case SluiceVerb::help:
      return answer_with([](wire::RespWriter& out) {
        out.list(help_lines().size());
        for (const std::string_view line : help_lines()) out.simple(line);
      });
  }
}

// What holds for all requests of the command.
const request::Message* RespSession::message(request::Message its) {
  its.brought_by = identity_.number();
  return requests_->hold(its);
}

// PUT and RESET of a key with inline limits affect its own counters only, whatever rules the policy
// has for such takes (RuleScope::dialect). A subject of entries could imitate the descriptors of
// the program's own rules, and must not reach their counters, so it uses RuleScope::native.
void RespSession::commit_subject(const SluiceSubject& subject, request::Request request,
                                 int64_t n) {
  const bool is_about_counters =
      request::told_as(request.verb) == Verb::put || request.verb == Verb::peek;
  request.scope = !subject.is_inline  ? request::RuleScope::native
                  : is_about_counters ? request::RuleScope::dialect
                                      : request::RuleScope::all;
  requests_->open();
  if (subject.is_inline) {
    requests_->add(request::Entry{command_entry, inline_command});
    requests_->add(request::Entry{key_entry, subject.key});
    request.limits.replaces = true;
    if (request.verb != Verb::peek && request.verb != Verb::reset) {
      for (const limit::Limit& limit : sluice_.limits_of(subject)) requests_->add(limit);
      request.limits.counts = subject.counts;
      if (subject.has_overdraft) [[unlikely]]
        request.limits.overdrafts = requests_->hold(sluice_.overdrafts_of(subject));
    }
  } else {
    for (const request::Entry& entry : sluice_.entries_of(subject)) requests_->add(entry);
  }
  if (request.verb != Verb::peek && request.verb != Verb::reset) request.cost = n;
  if (request.note == charged_once && !charges_.back().claim) request.cost = 0;
  if (silent_ && request.note != charged_once) request.note |= silent;
  requests_->commit(request);
}

void RespSession::charge() {
  commit_subject(
      sluice_.subjects[0],
      {.verb = Verb::charge, .message = message(), .note = sluice_.with_name ? six_and_name : six});
}

void RespSession::add_content(const SluiceSubject& subject, int64_t n,
                              request::ChargeContent& content) const {
  if (!subject.is_inline) {
    const auto entries = sluice_.entries_of(subject);
    return content.add_entries({entries.begin(), entries.end()}, n);
  }
  content.add_key(subject.key, n);
  const limit::Overdrafts limits = sluice_.overdrafts_of(subject);
  for (size_t i = 0; i < limits.count; ++i)
    content.add_limit(limits.limits[i], limit::has(subject.counts, i), limits.most[i]);
}

// If the id was used before, the request looks at the counters in place of charging them: so its
// reply waits for what the first one waits for, and is an error if the store cannot answer.
void RespSession::charge_once() {
  using Found = request::ChargeIds::Found;
  if (peer_.charge_ids == nullptr)
    return answer_error("ERR this server remembers no ids of charges");
  const SluiceSubject& subject = sluice_.subjects[0];
  request::ChargeContent content;
  add_content(subject, sluice_.n, content);
  ChargeOnce once{.user = identity_.is_needed() ? identity_.user() : std::string(),
                  .id = std::string(sluice_.id),
                  .content = content.digest(),
                  .with_name = sluice_.with_name,
                  .silent = silent_};
  const Found found = peer_.charge_ids->claim(once.user, once.id, once.content,
                                              peer_.clock->monotonic(), once.claim);
  if (found == Found::other_content) return answer_error(other_charge);
  if (found == Found::full)
    return answer_error("BUSY the memory for ids of charges is full, try again later");
  request::Message its;
  if (once.claim) its.charge_id = requests_->hold_id({once.user + ":" + once.id, once.content});
  charges_.push_back(std::move(once));
  commit_subject(subject, {.verb = Verb::charge, .message = message(its), .note = charged_once});
}

// In EXEC the command does not wait.
void RespSession::wait() {
  if (!executing_ && !begin_wait()) return;
  commit_subject(sluice_.subjects[0],
                 {.verb = executing_ ? Verb::take : Verb::wait,
                  .message = message({.must_fit = true, .wait_at_most = sluice_.timeout}),
                  .note = waited});
}

// The command that is being read waits. False: it must not, and has its reply.
bool RespSession::begin_wait() {
  waiting_ = ++connections_.waiting <= options_.waiting_max;
  if (waiting_) return true;
  --connections_.waiting;
  answer("-BUSY too many clients wait, try again later\r\n");
  return false;
}

// Sends one reply for all subjects. The parts are gathered, and written with the last one.
void RespSession::take_several() {
  const size_t last = sluice_.subjects.size() - 1;
  const request::Message* const its = message({.together = !sluice_.each});
  for (size_t i = 0; i <= last; ++i)
    commit_subject(sluice_.subjects[i],
                   {.message = its,
                    .note = (sluice_.each ? each_five : joint_five) | (i < last ? gathered : 0u)});
}

// ---- Replies ----

// Adds the verdict to the gathered reply, and writes that if the verdict is its last.
void RespSession::reply_gathered(const request::Request& request, const request::Verdict& verdict,
                                 wire::RespWriter& out) {
  if (!verdict.error.empty() && gathered_.error.empty()) {
    gathered_.error = error_of(verdict);
    gathered_.refused = verdict.error == request::not_permitted;
  }
  const uint32_t kind = request.note & ~gathered;
  if (verdict.error.empty() && verdict.matched) {
    ++gathered_.matched;
    // The counters are counted by the peek before a put, because afterwards they may be gone.
    if (request.verb == Verb::peek) {
      gathered_.counters += live_counters(verdict);
      gathered_.life = std::max(gathered_.life, lives_for(verdict));
    }
    gathered_.allowed &= verdict.allowed;
  }
  if (kind == joint_five || kind == each_five) {
    ++gathered_.part_count;
    gathered_.allowed &= kind == joint_five || verdict.matched;
    wire::RespWriter parts(gathered_.parts, version());
    if (!verdict.error.empty() && kind == each_five)
      parts.error(error_of(verdict));
    else if (verdict.tightest == nullptr)
      kind == each_five ? parts.error(no_rule) : parts.null_list();
    else
      append_five(verdict, verdict.tightest->allowed, parts);
  }
  if ((request.note & gathered) != 0) return;
  write_gathered(kind, out);
  end_gathered();
}

// Keeps the memory of the parts for later replies.
void RespSession::end_gathered() {
  gathered_.parts.clear();
  gathered_.error.clear();
  gathered_.part_count = gathered_.counters = gathered_.matched = 0;
  gathered_.life = {};
  gathered_.allowed = true;
  gathered_.refused = gathered_.unmatched = false;
  gathered_.shown.reset();
}

void RespSession::write_gathered(uint32_t kind, wire::RespWriter& out) {
  const bool by_key = kind == ttl || kind == pttl;
  if (!gathered_.error.empty() && (kind != each_five || gathered_.refused))
    return out.error(gathered_.error);
  if (gathered_.matched == 0 && kind != each_five && !by_key) return out.error(no_rule);
  const bool is_there = gathered_.life.us > 0;
  switch (kind) {
    case ttl:
    case pttl: {
      if (!is_there) return out.integer(-2);
      if (gathered_.life == base::never) return out.integer(-1);
      return out.integer(kind == ttl ? limit::gcra::seconds_up(gathered_.life)
                                     : milliseconds_up(gathered_.life));
    }
    case counters:
      return out.integer(static_cast<int64_t>(gathered_.counters));
    default:
      out.list(1 + gathered_.part_count);
      out.integer(gathered_.allowed && gathered_.error.empty() ? 1 : 0);
      out.raw(gathered_.parts.view());
  }
}

// Replies to a charge with an id, the oldest without a reply.
void RespSession::reply_once(const request::Verdict& verdict, base::Time now,
                             wire::RespWriter& out) {
  using Found = request::ChargeIds::Found;
  ChargeOnce once = std::move(charges_.front());
  charges_.pop_front();
  const request::Request request{.verb = Verb::charge, .note = once.with_name ? six_and_name : six};
  if (verdict.charged.known == request::Known::other_content) {
    once.claim.drop();
    return once.silent ? void() : out.error(other_charge);
  }
  if (once.claim) {
    const bool decided = verdict.error.empty() &&
                         (verdict.tightest != nullptr || options_.unmatched != Unmatched::error);
    if (decided) {
      std::string answer;
      request::append_kept(verdict, now, answer);
      once.claim.finish(std::move(answer), peer_.clock->monotonic());
    } else {
      once.claim.drop();  // nothing was charged
    }
    if (!once.silent) reply_sluice(request, verdict, now, out);
    return;
  }
  if (once.silent) return;
  if (verdict.cause != request::Error::none || verdict.error == request::not_permitted)
    return out.error(error_of(verdict));
  std::string answer;
  switch (
      peer_.charge_ids->find(once.user, once.id, once.content, peer_.clock->monotonic(), answer)) {
    case Found::remembered: {
      std::string_view rest = answer;
      const request::KeptVerdict first(rest);
      return reply_sluice(request, first.verdict(), now, out);
    }
    case Found::under_way:
      return out.error("TRYAGAIN the first charge with this id has no answer yet");
    case Found::other_content:
      return out.error(other_charge);
    default:
      return out.error("TRYAGAIN the first charge with this id failed");
  }
}

// Replies if no rule applies. Commands other than takes need a rule, so they are answered with an
// error whatever `unmatched` says.
void RespSession::reply_unmatched(const request::Request& request, wire::RespWriter& out) const {
  const bool named = request.note == five_and_name || request.note == six_and_name;
  const bool charges = request.note == six || request.note == six_and_name;
  const bool takes = named || charges || request.note == five || request.note == waited;
  if (options_.unmatched == Unmatched::error || !takes) return out.error(no_rule);
  const bool allowed = options_.unmatched == Unmatched::allow;
  // What no limit holds is in no debt.
  const int64_t told[] = {allowed || charges ? 1 : 0, 0, 0, allowed ? 0 : -1, 0, 0};
  const auto numbers = std::span(told).first(request.note == waited || charges ? 6 : 5);
  out.list(numbers.size() + (named ? 1 : 0) + (charges ? 1 : 0));
  for (const int64_t number : numbers) out.integer(number);
  if (named) out.null();
  if (charges) out.integer(0);
}

void RespSession::reply_sluice(const request::Request& request, const request::Verdict& verdict,
                               base::Time now, wire::RespWriter& out) {
  if (!verdict.error.empty()) return out.error(error_of(verdict));
  if (verdict.expired) return out.null_list();
  if (verdict.tightest == nullptr) return reply_unmatched(request, out);
  switch (request.note) {
    case waited:
      return append_waited(verdict, out);
    case five:
      return append_five(verdict, verdict.allowed, out);
    case five_and_name:
      return append_five_and_name(verdict, out);
    case six:
    case six_and_name:
      return append_charged(verdict, request.note == six_and_name, out);
    case explanation:
      return append_explanation(verdict, now, out);
    default: {
      const int64_t two[] = {shown_remaining(*verdict.tightest), verdict.tightest->limit};
      out.integers(two);
    }
  }
}

// The text of SLUICE.HELP.

namespace {

// In the form of Redis' help texts: a command, and below it what it does.
constexpr std::string_view sluice_help[] = {
    "SLUICE.<command> [<arg> ...]. Commands are:",
    "SLUICE.TAKE <subject> [N <n>] [WITHNAME]",
    "    Take n units (default 1) if there are enough, else none.",
    "SLUICE.PEEK <subject> [N <n>] [WITHNAME]",
    "    Tell what TAKE would reply, and take nothing.",
    "SLUICE.PUT <subject> [N <n> | ALL]",
    "    Give n units back (default 1), or all.",
    "SLUICE.RESET <subject>",
    "    Make the counters of the subject as fresh.",
    "SLUICE.WAIT <timeout> <subject> [N <n>]",
    "    Take n units, and wait for them for at most so many seconds (0: for ever).",
    "SLUICE.MTAKE <numsubjects> <subject> [<subject> ...] [EACH] [N <n>]",
    "    Take n units of all subjects or, if one has too few, of none; EACH: of those that have.",
    "SLUICE.CHARGE <subject> [N <n>] [ID <id>] [WITHNAME]",
    "    Count n units (default 1) that were used, past the limit too. Sent again with its id it "
    "is",
    "    counted once.",
    "SLUICE.RESERVE <ttl> <subject> N <n> [ID <id>] [WAIT <seconds>] [HOLDER <text>] [WITHUNITS]",
    "    Take n units for ttl seconds (0: the server's), until they are committed or released.",
    "SLUICE.MRESERVE <ttl> <numsubjects> <subject> N <n> [<subject> N <n> ...] [ID <id>]",
    "    [HOLDER <text>] [WITHUNITS]",
    "    The same of several subjects, of all or of none.",
    "SLUICE.ACQUIRE <ttl> <subject> [N <n>] [ID <id>] [WAIT <seconds>] [HOLDER <text>] [CLOSE]",
    "    Take n places (default 1) for ttl seconds (0: the rule's lease), until they are released.",
    "    CLOSE: at the latest until this connection ends.",
    "SLUICE.EXTEND <id> [N <n> [<n> ...]] [TTL <seconds>] [WITHUNITS]",
    "    Take n units more for a reservation, or none, and set its end.",
    "SLUICE.COMMIT <id> N <n> [<n> ...] [SUBJECT <subject> ...]",
    "    Settle a reservation with the n units that were used. A subject for each number: it is",
    "    charged if the id is unknown.",
    "SLUICE.RELEASE <id>",
    "    Give all units or places back.",
    "SLUICE.RENEW <id> [<ttl>]",
    "    Let a reservation, or places, end so many seconds from now.",
    "SLUICE.EXPLAIN <subject>",
    "    Tell which rules apply, which one decides, and their counters.",
    "SLUICE.INFO",
    "    Tell of the server and its policy.",
    "SLUICE.HELP",
    "    Print this help.",
    "A <subject> is a request to the rules of the policy, or a key with limits of its own:",
    "    <key>=<value> [<key>=<value> ...]           (not of SLUICE.MTAKE)",
    "    ENTRIES <numentries> <key>=<value> [<key>=<value> ...]",
    "    KEY <key> LIMIT <quota> <window> [ALGORITHM <name>] [BURST <n>] [OVER COUNT]",
    "    [OVERDRAFT <n>] [MAXLEASE <window>] [LIMIT ...]",
    "A <window> is 250ms, 60s, 1h, or a number of seconds; or of the calendar:",
    "    HOUR|DAY|WEEK|MONTH|YEAR [ZONE <name>] [WEEKSTARTS <day>] [MONTHDAY <n>]",
    "    [YEARDAY <MM-DD>] [STARTSAT <HH:MM>]",
};

}  // namespace

std::span<const std::string_view> help_lines() {
  return sluice_help;
}

namespace {

using limit::Decision;
using request::Charge;

std::span<const Decision> decisions_of(const request::Verdict& verdict, const Charge& charge) {
  return {verdict.decisions + charge.decision_first, charge.limits.size()};
}

// Does the peek show a counter that is not fresh? Time alone never fills a fixed bucket, and its
// reset_after is `never` even if it is full, so it is judged by its units.
bool is_live(const limit::Limit& limit, const Decision& look) {
  if (limit.algorithm == limit::Algorithm::fixed_bucket) return look.remaining < look.limit;
  return limit::has_counter(limit.algorithm) && look.reset_after.us > 0;
}

// Calls `visit(decision)` for each limit of a charge whose counter is not fresh.
template <class Visit>
void each_live(const request::Verdict& verdict, const Charge& charge, Visit visit) {
  if (!charge.counted) return;
  const auto decisions = decisions_of(verdict, charge);
  for (size_t i = 0; i < decisions.size(); ++i)
    if (is_live(charge.limits[i], decisions[i])) visit(decisions[i]);
}

void append_numbers(const Decision& decision, bool allowed, wire::RespWriter& out) {
  out.integer(allowed ? 1 : 0);
  out.integer(decision.limit);
  out.integer(shown_remaining(decision));
  out.integer(decision.allowed ? 0 : milliseconds_up(decision.retry_after));
  out.integer(milliseconds_up(decision.reset_after));
}

void append_pair(std::string_view name, int64_t value, wire::RespWriter& out) {
  out.bulk(name);
  out.integer(value);
}

void append_name(const request::Verdict& verdict, wire::RespWriter& out) {
  if (verdict.rule.empty())
    out.null();
  else
    out.bulk(verdict.rule);
}

}  // namespace

int64_t milliseconds_up(base::Duration length) {
  if (length == base::never) return -1;
  return length.us / 1000 + (length.us % 1000 > 0 ? 1 : 0);
}

void append_five(const request::Verdict& verdict, bool allowed, wire::RespWriter& out) {
  out.list(5);
  append_numbers(*verdict.tightest, allowed, out);
}

void append_five_and_name(const request::Verdict& verdict, wire::RespWriter& out) {
  out.list(6);
  append_numbers(*verdict.tightest, verdict.allowed, out);
  append_name(verdict, out);
}

void append_charged(const request::Verdict& verdict, bool with_name, wire::RespWriter& out) {
  const Decision& shown = *verdict.tightest;
  out.list(with_name ? 8 : 7);
  out.integer(verdict.charged.over ? 0 : 1);
  out.integer(shown.limit);
  out.integer(shown_remaining(shown));
  out.integer(milliseconds_up(shown.retry_after));
  out.integer(milliseconds_up(shown.reset_after));
  out.integer(shown.remaining < 0 ? -shown.remaining : 0);
  if (with_name) append_name(verdict, out);
  out.integer(verdict.charged.units.value_or(0));
}

void append_waited(const request::Verdict& verdict, wire::RespWriter& out) {
  out.list(6);
  append_numbers(*verdict.tightest, verdict.allowed, out);
  out.integer(milliseconds_up(verdict.waited.value_or(base::Duration{})));
}

void append_explanation(const request::Verdict& verdict, base::Time now, wire::RespWriter& out) {
  out.map(3);
  append_pair("allowed", verdict.allowed ? 1 : 0, out);
  out.bulk("rule");
  out.bulk(verdict.rule);
  out.bulk("limits");
  size_t count = 0;
  for (const Charge& charge : verdict.charges) count += charge.limits.size();
  out.list(count);
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    for (size_t i = 0; i < charge.limits.size(); ++i) {
      const limit::Limit& limit = charge.limits[i];
      const limit::Calendar calendar = limit.calendar;
      out.map(calendar ? 12 : 8);
      out.bulk("counter");
      out.bulk(charge.space->prefix + std::string(charge.key) + charge.space->suffix);
      out.bulk("algorithm");
      out.bulk(name_of(limit.algorithm));
      append_pair("limit", decisions[i].limit, out);
      append_pair(limit.algorithm == limit::Algorithm::concurrency ? "lease_ms" : "window_ms",
                  milliseconds_up(limit::shown(limit, now).window), out);
      append_pair("allowed", decisions[i].allowed ? 1 : 0, out);
      append_pair("remaining", shown_remaining(decisions[i]), out);
      append_pair("retry_after_ms",
                  decisions[i].allowed ? 0 : milliseconds_up(decisions[i].retry_after), out);
      append_pair("reset_after_ms", milliseconds_up(decisions[i].reset_after), out);
      if (!calendar) continue;
      const limit::Calendar::Window window = calendar.window(now);
      const auto tell = [&out](std::string_view name, std::string_view text) {
        out.bulk(name);
        out.bulk(text);
      };
      tell("calendar", name_of(calendar.unit()));
      tell("time_zone", calendar.zone_name());
      tell("starts", base::format_rfc3339({window.start_us}));
      tell("ends", base::format_rfc3339({window.end_us}));
    }
  }
}

size_t live_counters(const request::Verdict& verdict) {
  size_t count = 0;
  for (const Charge& charge : verdict.charges) {
    bool live = false;
    each_live(verdict, charge, [&](const Decision&) { live = true; });
    count += live ? 1 : 0;
  }
  return count;
}

base::Duration lives_for(const request::Verdict& verdict) {
  base::Duration longest{};
  for (const Charge& charge : verdict.charges)
    each_live(verdict, charge,
              [&](const Decision& decision) { longest = std::max(longest, decision.reset_after); });
  return longest;
}

}  // namespace sluice::resp
