#include "redis/arrival.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "limit/decide.h"
#include "limit/wide.h"

namespace sluice::redis::arrival {

using limit::Algorithm;
using limit::Limit;
using limit::State;
using limit::Wide;
using request::Charge;
using request::KeyEncoding;
using Which = Scripts::Arrival;

namespace {

// KEYS: the counter. ARGV: what the take adds, and the tolerance, each as microseconds and parts;
// of gcra_crab then the emission in the same way; of a token bucket then its quota, the name of its
// limits and the ms for which a counter is kept after it equals a fresh one.
// Reply: `a0` (refused) or `a1`, the time in seconds and microseconds as TIME has it, then the
// state that was found, if any. `~c` and `~w`: nothing was done, call the full or the wide script.
//
// Names: `at` is now, in the limit's resolution; `fresh`, `fresh_n` the arrival of a fresh counter;
// `u`, `n` the counter's; `ends` the microsecond from which it equals a fresh one.

constexpr std::string_view head = R"lua(
local call, match, sub, format, key, A = redis.call, string.match, string.sub, string.format, KEYS[1], ARGV
local now = clock[1] * 1000000 + clock[2]
if now >= 4503599627370496 then return '~w' end
)lua";

// The arrival of a fresh counter, and the parts of a microsecond.
constexpr std::string_view now_bucket = R"lua(
local at, radix = now, A[5] + 0
local fresh, fresh_n = at, 0
)lua";
constexpr std::string_view now_nanoseconds = R"lua(
local at, radix = now, 1000
local fresh, fresh_n = at, 0
)lua";
constexpr std::string_view now_crab = R"lua(
local at, radix = now, 1000
local fresh, fresh_n = at - A[5], -A[6]
if fresh_n < 0 then fresh, fresh_n = fresh - 1, fresh_n + 1000 end
)lua";
constexpr std::string_view now_milliseconds = R"lua(
local at, radix = now - now % 1000, 1
local fresh, fresh_n = at, 0
)lua";

constexpr std::string_view load = R"lua(
local v, said, live, x, y = call('GET', key), '', false, 0, 0
if v then
)lua";

// Reads the stored arrival, x and y, and whether the counter differs from a fresh one.
constexpr std::string_view read_bucket = R"lua(
  local name = A[6]
  if sub(v, 1, #name) ~= name then return '~c' end
  local mark, parts = match(v, '^ (%d+) (%d+)$', #name + 1)
  if not mark then return '~c' end
  x, y = mark - 1, parts + 0
  if y == 0 or y > radix then return '~c' end
  if y == radix then x, y = x + 1, 0 end
  said, live = ' ' .. mark .. ' ' .. parts, mark + 0 > now
)lua";
constexpr std::string_view read_cell = R"lua(
  local mark, tat = match(v, '^s1;c1,1,1 (%d+) (%d+)$')
  if not mark or #tat < 4 then return '~w' end
  x, y = sub(tat, 1, -4) + 0, sub(tat, -3) + 0
  said, live = ' ' .. mark .. ' ' .. tat, mark + 0 > now
)lua";
constexpr std::string_view read_crab = R"lua(
  local mark, tat = match(v, '^s1;h1,1,1 (%d+) (%d+)$')
  if not mark or #tat < 4 then return '~w' end
  x, y = sub(tat, 1, -4) + 0, sub(tat, -3) + 0
  said, live = ' ' .. mark .. ' ' .. tat, mark + 0 > now
)lua";
constexpr std::string_view read_redis = R"lua(
  local mark, tat = match(v, '^s1;g1,1,1 (%d+) (%d+)$')
  if not mark then return '~w' end
  x = tat + 0
  said, live = ' ' .. mark .. ' ' .. tat, mark + 0 > now
)lua";
// As redis-cell writes it: the time alone.
constexpr std::string_view read_shared_cell = R"lua(
  if #v < 4 or #v > 19 or not match(v, '^%d+$') then return '~w' end
  x, y = sub(v, 1, -4) + 0, sub(v, -3) + 0
  said, live = ' ' .. v, x > now or x == now and y > 0
)lua";

constexpr std::string_view decide = R"lua(
  if x >= 4503599627370496 then return '~w' end
end
local most, most_n, u, n, cut = at + A[3], A[4] + 0, fresh, fresh_n, false
if live and (x > u or x == u and y > n) then u, n = x, y end
)lua";
// A bucket misses no more than it holds.
constexpr std::string_view cut_bucket = R"lua(
if u > most or u == most and n > most_n then u, n, cut = most, most_n, true end
)lua";
// n + A[2] might reach 2^53 otherwise.
constexpr std::string_view add = R"lua(
local to, to_n, takes = u + A[1], n - (radix - A[2]), A[1] ~= '0' or A[2] ~= '0'
if to_n < 0 then to_n = to_n + radix else to = to + 1 end
if to < fresh or to == fresh and to_n < fresh_n then to, to_n = fresh, fresh_n end
local ok = to < most or to == most and to_n <= most_n
if ok and (to >= 4503599627370496 or to < 0) then return '~w' end
said = (ok and 'a1 ' or 'a0 ') .. clock[1] .. ' ' .. clock[2] .. said
)lua";

constexpr std::string_view write_bucket = R"lua(
if not ok then to, to_n = u, n end
if to == now and to_n == 0 then
  if A[7] ~= '0' then return '~c' end
  if v then call('DEL', key) end
elseif ok or cut then
  local ends, parts = to + 1, to_n
  if to_n == 0 then ends, parts = to, radix end
  call('SET', key, format('%s %d %d', A[6], ends, parts), 'PX',
       format('%d', math.ceil((ends - now) / 1000) + SPARE + A[7]))
end
return said
)lua";
// A refusal and a look write nothing.
constexpr std::string_view write_gcra = R"lua(
if not ok or not takes then return said end
if to == fresh and to_n == fresh_n then
  if v then call('DEL', key) end
  return said
end
)lua";
constexpr std::string_view write_cell = R"lua(
local ends = to_n > 0 and to + 1 or to
call('SET', key, format('s1;c1,1,1 %d %d%03d', ends, to, to_n), 'PX',
     format('%d', math.ceil((ends - now) / 1000) + SPARE))
return said
)lua";
constexpr std::string_view write_crab = R"lua(
local ends = to + A[5]
if to_n + A[6] > 1000 then ends = ends + 2 elseif to_n + A[6] > 0 then ends = ends + 1 end
call('SET', key, format('s1;h1,1,1 %d %d%03d', ends, to, to_n), 'PX',
     format('%d', math.ceil((ends - now) / 1000) + SPARE))
return said
)lua";
constexpr std::string_view write_redis = R"lua(
local ends = math.ceil(to / 1000) * 1000
call('SET', key, format('s1;g1,1,1 %d %d', ends, to), 'PX',
     format('%d', math.ceil((ends - now) / 1000) + SPARE))
return said
)lua";
// A key whose time is over is left to its expiry: another program may have written it.
constexpr std::string_view write_shared_cell = R"lua(
if not ok or not takes then return said end
if to > now or to_n > 0 then
  call('SET', key, format('%d%03d', to, to_n), 'PX',
       format('%d', math.ceil(((to_n > 0 and to + 1 or to) - now) / 1000)))
elseif live then
  call('DEL', key)
end
return said
)lua";

// A number of microseconds, rounded down, and the parts that are left.
struct Split {
  int64_t us = 0, parts = 0;
};
// Nothing: it does not fit the script.
std::optional<Split> split(Wide length, int64_t radix) {
  constexpr Wide most = Wide{1} << 52;
  Wide us = length / radix, parts = length % radix;
  if (parts < 0) {
    us -= 1;
    parts += radix;
  }
  if (us >= most || us <= -most) return {};
  return Split{static_cast<int64_t>(us), static_cast<int64_t>(parts)};
}

struct Numbers {
  Split added, tolerance, emission;
};

std::optional<Numbers> numbers_of(const Limit& limit, int64_t cost) {
  std::optional<Split> added, tolerance, emission = Split{};
  if (limit.algorithm == Algorithm::token_bucket) {
    if (limit.quota >= int64_t{1} << 52) return {};
    added = split(Wide{cost} * limit.window.us, limit.quota);
    tolerance = split(Wide{limit.burst} * limit.window.us, limit.quota);
  } else {
    const Wide product = Wide{limit.window.us} * cost;
    if (limit.quota < 0 || !limit::gcra::fits(product)) return {};
    const int64_t per = limit::gcra::per_microsecond(limit.algorithm);
    const bool to_full = limit::gcra::tells_full(limit);
    added = split(product, per);
    tolerance = split(to_full ? ~limit.burst : limit.burst, per);
    emission = split(limit.window.us, per);
  }
  if (!added || !tolerance || !emission || tolerance->us < 0) return {};
  return Numbers{*added, *tolerance, *emission};
}

std::optional<Which> which_of(const Charge& charge) {
  const KeyEncoding encoding = charge.space->encoding;
  const Algorithm algorithm = charge.limits.front().algorithm;
  if (encoding == KeyEncoding::tat_text) return Which::shared_cell;
  if (encoding == KeyEncoding::remaining_text) return {};
  if (algorithm == Algorithm::token_bucket) return Which::bucket;
  if (charge.space->keep_fresh_for.us >= 1000) return {};
  if (algorithm == Algorithm::gcra_cell) return Which::cell;
  if (algorithm == Algorithm::gcra_crab) return Which::crab;
  if (algorithm == Algorithm::gcra_redis) return Which::redis;
  return {};
}

std::optional<int64_t> next(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty() && text.front() != ' ') return {};
  text.remove_prefix(text.empty() ? 0 : 1);
  return number;
}

}  // namespace

bool holds(const ScriptCall& ask, Which& which) {
  if (ask.charges.size() != 1 || ask.hold || ask.receipts || ask.id != nullptr ||
      ask.weight != Weight::light || (!ask.ahead.empty() && ask.ahead.front() > 0))
    return false;
  const Charge& charge = ask.charges.front();
  if (charge.verb != request::Verb::take || charge.reset_first || charge.keeps_limits ||
      charge.costs != nullptr || charge.limits.size() != 1)
    return false;
  const std::optional<Which> its = which_of(charge);
  if (!its || !numbers_of(charge.limits.front(), charge.cost)) return false;
  which = *its;
  return true;
}

std::string text_of(Which which) {
  std::string text(head);
  const auto add_all = [&text](std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) text += part;
  };
  switch (which) {
    case Which::bucket:
      add_all({now_bucket, load, read_bucket, decide, cut_bucket, add, write_bucket});
      break;
    case Which::cell:
      add_all({now_nanoseconds, load, read_cell, decide, add, write_gcra, write_cell});
      break;
    case Which::shared_cell:
      add_all({now_nanoseconds, load, read_shared_cell, decide, add, write_shared_cell});
      break;
    case Which::crab:
      add_all({now_crab, load, read_crab, decide, add, write_gcra, write_crab});
      break;
    case Which::redis:
      add_all({now_milliseconds, load, read_redis, decide, add, write_gcra, write_redis});
      break;
  }
  return text;
}

size_t arguments_of(Which which) {
  return which == Which::bucket ? 7 : which == Which::crab ? 6 : 4;
}

void append_arguments(std::string& out, Which which, const Charge& charge, std::string_view name) {
  const Limit& limit = charge.limits.front();
  const std::optional<Numbers> numbers = numbers_of(limit, charge.cost);
  SLUICE_CHECK(numbers.has_value());
  for (const Split& one : {numbers->added, numbers->tolerance}) {
    append_bulk(out, one.us);
    append_bulk(out, one.parts);
  }
  if (which == Which::crab) {
    append_bulk(out, numbers->emission.us);
    append_bulk(out, numbers->emission.parts);
  } else if (which == Which::bucket) {
    append_bulk(out, limit.quota);
    append_bulk(out, name);
    append_bulk(out, charge.space->keep_fresh_for.us / 1000);
  }
}

ScriptReply read(std::string_view text, const Charge& charge, limit::Decision& decision,
                 bool& allowed) {
  const auto said = next(text), seconds = next(text), us = next(text);
  if (!said || !seconds || !us || *seconds < 0 || *seconds > INT64_MAX / 2'000'000)
    return ScriptReply::nonsense;
  const limit::Time now{*seconds * 1'000'000 + *us};
  const Limit& limit = charge.limits.front();
  // Which of the algorithms these are is not known to the compiler: room for any of them.
  std::array<State, limit::limit_cells_max> cells, unused;
  State& state = cells.front();
  if (!text.empty()) {
    const auto first = next(text);
    if (!first) return ScriptReply::nonsense;
    if (charge.space->encoding == KeyEncoding::tat_text) {
      if (*first > 0) state = limit::gcra::state_of(limit, *first);
    } else {
      const auto second = next(text);
      if (!second) return ScriptReply::nonsense;
      state = {*first, *second};
    }
    if (!text.empty()) return ScriptReply::nonsense;
  }
  decision = limit::decide(cells.data(), limit, charge.cost, now, unused.data());
  allowed = decision.allowed;
  return allowed == (*said == 1) ? ScriptReply::decided : ScriptReply::nonsense;
}

}  // namespace sluice::redis::arrival
