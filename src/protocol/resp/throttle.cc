#include "protocol/resp/throttle.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bounds.h"
#include "protocol/resp/command_table.h"

namespace sluice::resp {
namespace {

using limit::Algorithm;
using limit::gcra::Error;
using limit::gcra::Rate;
using limit::gcra::seconds_up;
using Words = std::span<const std::string_view>;

std::string shown(std::string_view word) {
  return std::string(word.substr(0, shown_bytes_max));
}

bool fail(Throttle& throttle, std::string error) {
  throttle.error = std::move(error);
  return false;
}

bool take(Throttle& throttle, const Rate& rate) {
  throttle.limit = rate.limit;
  return true;
}

bool read_cell(Words words, Throttle& throttle) {
  if (words.size() < 5 || words.size() > 6)
    return fail(throttle,
                "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> "
                "<period> [<quantity>]");
  int64_t numbers[4] = {0, 0, 0, 1};
  for (size_t i = 2; i < words.size(); ++i)
    if (!read_integer(words[i], numbers[i - 2]))
      return fail(throttle,
                  "Cell error: Store error: Couldn't parse as integer: " + shown(words[i]));
  throttle.cost = numbers[3];
  const Rate rate = limit::gcra::cell_rate(numbers[0], numbers[1], numbers[2]);
  switch (rate.error) {
    case Error::none:
      return take(throttle, rate);
    case Error::zero_rate:
      return fail(throttle, "Cell error: Store error: Zero rates are not supported");
    case Error::out_of_range:
      return fail(throttle, "ERR max_burst, count and period are out of range together");
    default:
      return fail(throttle, "ERR count and period must be positive");
  }
}

bool read_crab(Words words, Throttle& throttle) {
  if (words.size() < 5 || words.size() > 6)
    return fail(throttle, "ERR wrong number of arguments for 'throttle' command");
  static constexpr std::string_view names[] = {"max_burst", "count_per_period", "period",
                                               "quantity"};
  int64_t numbers[4] = {0, 0, 0, 1};
  for (size_t i = 2; i < words.size(); ++i)
    if (!read_integer(words[i], numbers[i - 2]))
      return fail(throttle, "ERR invalid " + std::string(names[i - 2]));
  throttle.cost = numbers[3];
  if (throttle.cost < 0)
    return fail(throttle,
                "ERR Rate limit check failed: negative quantity: " + std::to_string(throttle.cost));
  const Rate rate = limit::gcra::crab_rate(numbers[0], numbers[1], numbers[2]);
  if (rate.error == Error::none) return take(throttle, rate);
  return fail(throttle, rate.error == Error::out_of_range
                            ? "ERR max_burst, count_per_period and period are out of range together"
                            : "ERR Rate limit check failed: invalid rate limit parameters");
}

// Reads a double as Redis does: without blanks, and the whole word.
bool read_double(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.front() == '+') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !std::isnan(value);
}

bool read_gcra(Words words, Throttle& throttle) {
  if (words.size() < 5) return fail(throttle, "ERR wrong number of arguments for 'gcra' command");
  int64_t max_burst, tokens;
  double period;
  if (!read_integer(words[2], max_burst) || !read_integer(words[3], tokens))
    return fail(throttle, "ERR value is not an integer or out of range");
  if (!read_double(words[4], period)) return fail(throttle, "ERR value is not a valid float");
  if (words.size() > 5) {
    if (!is_word(words[5], "TOKENS")) return fail(throttle, "ERR syntax error");
    if (words.size() < 7) return fail(throttle, "ERR Missing TOKENS value");
    if (words.size() > 7) return fail(throttle, "ERR syntax error");
    if (!read_integer(words[6], throttle.cost))
      return fail(throttle, "ERR value is not an integer or out of range");
    if (throttle.cost < 1) return fail(throttle, "ERR TOKENS must be >= 1");
  }
  const Rate rate = limit::gcra::redis_rate(max_burst, tokens, period);
  switch (rate.error) {
    case Error::none:
      return take(throttle, rate);
    case Error::negative:
      return fail(throttle, "ERR max_burst must be >= 0");
    case Error::bad_period:
      return fail(throttle, "ERR period must be > 0 and < 1e12");
    case Error::out_of_range:
      return fail(throttle,
                  "ERR GCRA limiting uses microsecond accuracy. Combination of max_burst, "
                  "tokens_per_period and period would cause an overflow");
    default:
      return fail(throttle, "ERR tokens_per_period must be >= 1");
  }
}

// Without UBOUND it would limit nothing, and without ENX each request would lengthen the window.
bool read_increx(Words words, Throttle& throttle) {
  if (words.size() < 2) return fail(throttle, "ERR wrong number of arguments for 'increx' command");
  static constexpr std::string_view unsupported[] = {"BYFLOAT", "LBOUND",  "SATURATE", "EXAT",
                                                     "PXAT",    "PERSIST", "NX",       "XX"};
  int64_t length = 0;
  int64_t* const upper = &throttle.limit.quota;
  throttle.limit = {.algorithm = Algorithm::fixed_window};
  bool enx = false, bounded = false;
  for (size_t i = 2; i < words.size(); ++i) {
    for (const std::string_view option : unsupported)
      if (is_word(words[i], option))
        return fail(throttle, "ERR INCREX with " + std::string(option) +
                                  " is not supported: it is answered as a fixed window, with "
                                  "UBOUND, EX or PX, ENX and BYINT");
    if (is_word(words[i], "ENX")) {
      enx = true;
      continue;
    }
    const bool ex = is_word(words[i], "EX"), px = is_word(words[i], "PX"),
               ubound = is_word(words[i], "UBOUND");
    if (!ex && !px && !ubound && !is_word(words[i], "BYINT"))
      return fail(throttle, "ERR syntax error");
    if (i + 1 == words.size() || ((ex || px) && length != 0) || (ubound && bounded))
      return fail(throttle, "ERR syntax error");
    int64_t number;
    if (!read_integer(words[++i], number))
      return fail(throttle, "ERR value is not an integer or out of range");
    if (ubound) {
      bounded = true;
      *upper = number;
    } else if (ex || px) {
      const int64_t unit_us = ex ? 1'000'000 : 1'000;
      if (number < 1 || number > base::bounds::window_us_max / unit_us)
        return fail(throttle, "ERR invalid expire time in 'increx' command");
      length = number * unit_us;
    } else {
      throttle.cost = number;
    }
  }
  if (!enx || !bounded || length == 0)
    return fail(
        throttle,
        "ERR INCREX needs UBOUND, ENX, and EX or PX here: it is answered as a fixed window");
  if (*upper < 1 || *upper > base::bounds::quota_max)
    return fail(throttle, "ERR UBOUND must be 1 to " + std::to_string(base::bounds::quota_max));
  if (throttle.cost < 0)
    return fail(throttle, "ERR BYINT must not be negative: SLUICE.PUT gives units back");
  throttle.limit.window = {length};
  return true;
}

}  // namespace

bool read_integer(std::string_view text, int64_t& value) {
  // Fast path: a few digits without a sign.
  constexpr size_t digits_max = 18;
  if (text.size() - 1 < digits_max) [[likely]] {
    int64_t number = 0;
    size_t at = 0;
    for (; at < text.size(); ++at) {
      const int digit = text[at] - '0';
      if (digit < 0 || digit > 9) break;
      number = number * 10 + digit;
    }
    if (at == text.size()) {
      value = number;
      return true;
    }
  }
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_throttle(Algorithm algorithm, Words words, Throttle& throttle) {
  throttle.cost = 1;
  throttle.error.clear();
  if (words.size() > 1) throttle.key = words[1];
  if (algorithm == Algorithm::gcra_cell) return read_cell(words, throttle);
  if (algorithm == Algorithm::gcra_crab) return read_crab(words, throttle);
  if (algorithm == Algorithm::fixed_window) return read_increx(words, throttle);
  return read_gcra(words, throttle);
}

void append_throttle_reply(Algorithm algorithm, const limit::Decision& decision,
                           wire::RespWriter& out) {
  if (limit::gcra::is_out_of_range(decision))
    return out.error("ERR the quantity is out of range with these numbers");
  // -1 means never, as in the original commands. Rules and overrides with other algorithms are
  // answered in the same way.
  const auto seconds = [](base::Duration length) {
    return length == base::never ? -1 : seconds_up(length);
  };
  const int64_t reset = seconds(decision.reset_after);
  const int64_t retry = decision.allowed ? -1 : seconds(decision.retry_after);
  if (algorithm == Algorithm::gcra_crab) {
    const int64_t wait = decision.allowed ? 0 : seconds(decision.retry_after);
    const int64_t five[] = {decision.allowed ? 1 : 0, decision.limit,
                            std::max<int64_t>(decision.remaining, 0), reset, wait};
    return out.integers(five);
  }
  const int64_t five[] = {decision.allowed ? 0 : 1, decision.limit,
                          std::max<int64_t>(decision.remaining, 0), retry, reset};
  out.integers(five);
}

void append_increx_reply(const limit::Decision& decision, int64_t cost, wire::RespWriter& out) {
  const int64_t pair[] = {decision.limit - std::max<int64_t>(decision.remaining, 0),
                          decision.allowed ? cost : 0};
  out.integers(pair);
}

}  // namespace sluice::resp
