#include "protocol/resp/sluice_command.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/bounds.h"
#include "base/units.h"
#include "limit/decide.h"
#include "protocol/resp/command_table.h"
#include "request/charge_ids.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

using limit::Algorithm;
using Words = std::span<const std::string_view>;

static_assert(base::bounds::together_max >= sluice_subjects_max);
// Texts of errors contain these numbers.
static_assert(request::charge_id_bytes_min == 16 && request::charge_id_bytes_max == 64 &&
              sluice_subjects_max == 64 && sluice_entries_max == 64 && limit::slots_max == 8 &&
              base::bounds::window_us_max == int64_t{36'600} * 86'400 * 1'000'000);

constexpr size_t quoted_bytes_max = 128;
// The longest text of a float, as in Redis.
constexpr size_t float_bytes_max = 5 * 1024 - 1;
// Keeps the sum of a time and a timeout within 64 bits.
constexpr long double timeout_us_end = 4611686018427387904.0L;  // 2^62

// Words that end a list of entries in any command. In bit sets the first word is bit 0, and so on.
constexpr std::string_view grammar_words[] = {"N",        "ALL",  "NOW",   "EACH",
                                              "WITHNAME", "ID",   "LIMIT", "ALGORITHM",
                                              "BURST",    "OVER", "KEY",   "ENTRIES"};
constexpr uint32_t n_option = 1, all_option = 2, now_option = 4, each_option = 8, name_option = 16,
                   id_option = 32;

struct SluiceForm {
  std::string_view name;
  SluiceVerb verb;
  size_t words_min;  // 1: exactly one word
  uint32_t options;  // a set of grammar_words
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
};

struct AlgorithmWord {
  std::string_view word;
  Algorithm algorithm;
};

constexpr AlgorithmWord algorithm_words[] = {
    {"TOKEN_BUCKET", Algorithm::token_bucket},     {"FIXED_WINDOW", Algorithm::fixed_window},
    {"ALIGNED_WINDOW", Algorithm::aligned_window}, {"SLIDING_WINDOW", Algorithm::sliding_window},
    {"SLIDING_LOG", Algorithm::sliding_log},       {"FIXED_BUCKET", Algorithm::fixed_bucket},
};

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
    int64_t subjects = form.words_min > 1 ? 1 : 0;
    if (form.verb == SluiceVerb::wait && !read_timeout(words_[at_++])) return false;
    if (form.verb == SluiceVerb::mtake && !read_number(words_[at_++], 1, sluice_subjects_max,
                                                       subjects, "ERR numsubjects must be 1 to 64"))
      return false;
    for (; subjects > 0; --subjects)
      if (!read_subject()) return false;
    return read_options(form.options);
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
    for (; take_word("LIMIT"); ++count) {
      if (count == limit::slots_max) return fail("ERR a subject has at most 8 limits");
      bool counts = false;
      if (!read_limit(counts)) return false;
      if (counts) counting = static_cast<limit::LimitMask>(counting | 1u << count);
    }
    if (count == 0) return syntax_error();
    const SluiceSubject subject{true, key, static_cast<uint32_t>(first),
                                static_cast<uint32_t>(count), counting};
    if (limit::cells(std::span(command_.limits).subspan(first)) > limit::cells_max)
      return fail(
          "ERR the limits of a subject need more memory than one counter may have: at most two of "
          "sliding_log can have a quota of 32 or more");
    command_.subjects.push_back(subject);
    return true;
  }

  // Reads the words after LIMIT.
  bool read_limit(bool& counts) {
    if (words_.size() - at_ < 2) return syntax_error();
    limit::Limit limit{.algorithm = Algorithm::token_bucket};
    if (!read_units(words_[at_++], limit.quota, "ERR quota must be positive")) return false;
    const std::string_view window = words_[at_++];
    auto length = base::parse_duration(window);
    if (!length) length = parse_seconds(window);
    if (!length) return fail("ERR window is not a length of time");
    limit.window = *length;
    bool has_algorithm = false, has_burst = false, has_over = false;
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
      } else {
        break;
      }
    }
    return add_limit(limit, has_burst);
  }

  bool add_limit(limit::Limit& limit, bool has_burst) {
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

  bool read_options(uint32_t allowed) {
    while (!is_done()) {
      const uint32_t option = grammar_bit(words_[at_++]) & allowed;
      if (option == 0) return syntax_error();
      allowed &= ~option;
      // N and ALL exclude each other.
      if (option == n_option || option == all_option) allowed &= ~(n_option | all_option);
      if (option == all_option) command_.all = true;
      if (option == each_option) command_.each = true;
      if (option == name_option) command_.with_name = true;
      if (option != n_option && option != now_option && option != id_option) continue;
      if (is_done()) return syntax_error();
      const std::string_view value = words_[at_++];
      if (!(option == n_option     ? read_n(value)
            : option == now_option ? read_now(value)
                                   : read_id(value)))
        return false;
    }
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

  // ---- Numbers ----

  bool read_number(std::string_view word, int64_t least, int64_t most, int64_t& number,
                   std::string_view out_of_range) {
    if (!wire::read_resp_number(word, number)) return number_error();
    return (number >= least && number <= most) || fail(out_of_range);
  }

  bool read_units(std::string_view word, int64_t& units, std::string_view zero) {
    const auto n = base::parse_count(word);
    if (!n || *n > uint64_t{base::bounds::quota_max}) return number_error();
    if (*n == 0) return fail(zero);
    units = static_cast<int64_t>(*n);
    return true;
  }

  bool read_timeout(std::string_view word) {
    const auto seconds = parse_float(word);
    if (!seconds) return fail("ERR timeout is not a float or out of range");
    if (*seconds < 0) return fail("ERR timeout is negative");
    const long double us = *seconds * 1e6L;
    if (us >= timeout_us_end) return fail("ERR timeout is out of range");
    command_.timeout.us = *seconds > 0 ? std::max<int64_t>(std::llround(us), 1) : 0;
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
  command.all = command.each = command.with_name = false;
  command.n = 1;
  command.now.reset();
  command.id = {};
  command.timeout = {};
  command.subjects.clear();
  command.entries.clear();
  command.limits.clear();
  command.error.clear();
  return SluiceCommandReader(words, command).read();
}

}  // namespace sluice::resp
