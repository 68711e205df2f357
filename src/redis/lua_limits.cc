// The functions of src/limit in Lua; their guarantees are documented there.
#include "redis/lua.h"

namespace sluice::redis {

// The arithmetic on doubles. A product of 2^52 or more gives up (`~w`), so that the sum of two
// products is still exact.
const std::string_view lua_plain = R"lua(
local esc
local floor, format = math.floor, string.format
local Z, ONE, NEVER, END = 0, 1, math.huge, 9223372036854775807
local function N(x)
  local n = tonumber(x)
  if n and (n >= 9007199254740992 or n <= -9007199254740992) then esc = '~w' end
  return n
end
-- %d takes half the time of %.0f, and writes the same of a whole number below 2^63.
local function S(n)
  if n == NEVER then return 'n' end
  return format('%d', n)
end
local function div(a, b) return floor(a / b) end
local function cdiv(a, b) return -floor(-a / b) end
local function mod(a, b) return a % b end
local function mul(a, b)
  local p = a * b
  if p >= 4503599627370496 or p <= -4503599627370496 then esc = '~w' end
  return p
end
local function keep(n)
  if n <= -9007199254740992 then esc = '~w' end
  return n
end
local function least(a, b) if b < a then return b end return a end
local function capacity(q, w, b) return mul(b, w) end
-- The most units that may be used, and the most parts of a bucket in debt that may be missing:
-- doubles do not reach them.
local FULL = 9007199254740991
local function bounded(parts) return parts end
local function charged(c) return c end
)lua";

const std::string_view lua_wide = R"lua(
local esc
local floor, format, concat = math.floor, string.format, table.concat
local BASE = 10000000
local M = {}
local function make(t, neg)
  local n = #t
  while n > 0 and t[n] == 0 do t[n] = nil n = n - 1 end
  t.neg = (neg and n > 0) or false
  return setmetatable(t, M)
end
local function N(x)
  local sign, digits = string.match(x, '^(%-?)(%d+)$')
  if not digits then return nil end
  local t = {}
  for i = #digits, 1, -7 do
    t[#t + 1] = tonumber(string.sub(digits, i > 6 and i - 6 or 1, i))
  end
  return make(t, sign == '-')
end
local Z, ONE, NEVER = make({}), make({1}), make({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
local function S(n)
  if rawequal(n, NEVER) then return 'n' end
  if #n == 0 then return '0' end
  local t = {n.neg and '-' or '', format('%.0f', n[#n])}
  for i = #n - 1, 1, -1 do t[#t + 1] = format('%07.0f', n[i]) end
  return concat(t)
end
local function compare(a, b)  -- compares absolute values
  if #a ~= #b then return #a - #b end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then return a[i] - b[i] end
  end
  return 0
end
local function plus(a, b)
  local t, carry = {}, 0
  for i = 1, math.max(#a, #b) + 1 do
    local sum = (a[i] or 0) + (b[i] or 0) + carry
    if sum >= BASE then t[i] = sum - BASE carry = 1 else t[i] = sum carry = 0 end
  end
  return t
end
local function minus(a, b)  -- of absolute values, a >= b
  local t, borrow = {}, 0
  for i = 1, #a do
    local rest = a[i] - (b[i] or 0) - borrow
    if rest < 0 then t[i] = rest + BASE borrow = 1 else t[i] = rest borrow = 0 end
  end
  return t
end
local function add(a, b, b_neg)
  if a.neg == b_neg then return make(plus(a, b), a.neg) end
  if compare(a, b) >= 0 then return make(minus(a, b), a.neg) end
  return make(minus(b, a), b_neg)
end
M.__add = function(a, b) return add(a, b, b.neg) end
M.__sub = function(a, b) return add(a, b, not b.neg) end
M.__lt = function(a, b)
  if a.neg ~= b.neg then return a.neg end
  local c = compare(a, b)
  if a.neg then return c > 0 end
  return c < 0
end
M.__le = function(a, b)
  if a.neg ~= b.neg then return a.neg end
  local c = compare(a, b)
  if a.neg then return c >= 0 end
  return c <= 0
end
M.__eq = function(a, b) return a.neg == b.neg and compare(a, b) == 0 end
M.__unm = function(a)
  local t = {}
  for i = 1, #a do t[i] = a[i] end
  return make(t, not a.neg)
end
local function mul(a, b)
  local t = {}
  for i = 1, #a + #b do t[i] = 0 end
  for i = 1, #a do
    local carry, x = 0, a[i]
    for j = 1, #b do
      local at = i + j - 1
      local sum = t[at] + x * b[j] + carry
      carry = floor(sum / BASE)
      t[at] = sum - carry * BASE
    end
    t[i + #b] = t[i + #b] + carry
  end
  return make(t, a.neg ~= b.neg)
end
local function front(t, from)  -- the limbs from index `from` on, as a double
  local sum = 0
  for i = #t, math.max(from, 1), -1 do sum = sum * BASE + t[i] end
  return sum
end
local function divide(a, b)  -- returns quotient and rest; a and b are not negative, b is not 0
  if compare(a, b) < 0 then return Z, a end
  local quotient, rest = {}, make({})
  for i = #a, 1, -1 do
    table.insert(rest, 1, a[i])
    rest = make(rest)
    local digit = 0
    if compare(rest, b) >= 0 then
      -- The first three limbs of the divisor estimate the digit to within 1; then it is corrected.
      local from = #b - 2
      digit = floor(front(rest, from) / front(b, from))
      if digit >= BASE then digit = BASE - 1 end
      rest = rest - mul(make({digit}), b)
      while rest.neg do digit = digit - 1 rest = rest + b end
      while compare(rest, b) >= 0 do digit = digit + 1 rest = rest - b end
    end
    quotient[i] = digit
  end
  return make(quotient), rest
end
local function div(a, b) local q = divide(a, b) return q end
local function cdiv(a, b)
  local q, r = divide(a, b)
  if #r > 0 then return q + ONE end
  return q
end
local function mod(a, b) local _, r = divide(a, b) return r end
local function keep(n) return n end
local function least(a, b) if b < a then return b end return a end
-- The most parts that may be missing: the time at which the bucket is full must be representable.
local END = N('9223372036854775807')
local function capacity(q, w, b, at)
  local most = END - ONE
  if at > ONE then most = END - at end
  return least(mul(b, w), mul(most, q))
end
local FULL = N('9007199254740991')
local function bounded(parts, q, w, at) return least(parts, capacity(q, w, FULL, at)) end
-- The units of a charge of `c` for which there is room.
local function charged(c, missing, q, w, at)
  local room = capacity(q, w, FULL, at) - missing
  if room <= Z then return Z end
  return least(c, div(room, w))
end
)lua";

const std::string_view lua_redis_time = R"lua(
local clock = redis.call('TIME')
local now, SPARE = N(format('%d%06d', clock[1], clock[2])), 1000
)lua";

// A double holds it until 2255.
const std::string_view lua_redis_time_plain = R"lua(
local clock = redis.call('TIME')
local now, SPARE = clock[1] * 1000000 + clock[2], 1000
)lua";

const std::string_view lua_told_time = R"lua(
local now, SPARE = N(ARGV[#ARGV]), 100000000
)lua";

const std::string_view lua_redis_clock = "local clock, SPARE = redis.call('TIME'), 1000\n";
const std::string_view lua_told_clock = "local clock, SPARE = {'0', ARGV[#ARGV]}, 100000000\n";

// The end of a window that opens now. lua_window is the rest of both functions.
const std::string_view lua_fixed_window = R"lua(
F.f = function(s, q, w, b, c)
  local latest = now + w
)lua";
const std::string_view lua_aligned_window = R"lua(
F.a = function(s, q, w, b, c)
  local latest = now + (w - mod(now, w))
)lua";
const std::string_view lua_window = R"lua(
  local m, u, cut = s[1] or Z, s[2] or Z, false
  if u > Z and now < m then
    if m > latest then m = latest cut = true end
  else
    m = latest
    u = Z
  end
  local left, retry = q - u, Z
  local ok = c <= left
  if ok then u = u + c left = left - c
  elseif c > q then retry = NEVER
  else retry = m - now end
  if u > Z then return ok, left, m - now, retry, {m, u}, cut end
  return ok, left, Z, retry, {}, false
end
)lua";

// An aligned window of a calendar (limit/calendar.h). `b` are the boundaries around the window of
// the clock of the server that asks, from the start of the one before to the end of the one behind,
// and the nominal length: this Redis' time may be in any of the three. Of a limit that the counter
// was written under it is a number: its state counts until its end.
const std::string_view lua_calendar_window = R"lua(
local function calendar_of(text)
  local all = {}
  for x in string.gmatch(text, '%d+') do all[#all + 1] = N(x) end
  return {calendar = all}
end
-- The window of now; nil: it is not known.
local function calendar_window(b)
  local all = type(b) == 'table' and b.calendar
  if not all then return nil end
  for i = 1, 3 do
    if now >= all[i] and now < all[i + 1] then return all[i], all[i + 1] end
  end
  esc = {err = 'CLOCK the time of Redis is in another window of the calendar than that of the server'}
  return now, now + ONE
end
F.m = function(s, q, w, b, c)
  local start, ends = calendar_window(b)
  local m, u, cut = s[1] or Z, s[2] or Z, false
  if u > Z and (start and m > start or not start and now < m) then
    if start and m ~= ends then m = ends cut = true end
  else
    m = ends or now
    u = Z
  end
  local left, retry = q - u, Z
  local ok = c <= left
  if ok then u = u + c left = left - c
  elseif c > q then retry = NEVER
  else retry = m - now end
  if u > Z then return ok, left, m - now, retry, {m, u}, cut end
  return ok, left, Z, retry, {}, false
end
P.m = function(s, units, q, w, b)
  local start = calendar_window(b) or now
  if s[2] and s[2] > Z and s[1] > start and units < s[2] then return {s[1], s[2] - units} end
  return {}
end
)lua";

// A bucket in debt has four numbers: the third is the time of the state (limit/debt.h), the fourth
// is not used.
const std::string_view lua_token_bucket = R"lua(
-- The missing parts, and whether the state must be written again.
local function missing_of(s, q, w, b)
  if not s[2] or s[2] <= Z or now >= s[1] then return Z, s[3] end
  if s[3] then
    local at = s[3]
    if at < now then at = now end
    return bounded(mul(s[1] - ONE - at, q) + s[2], q, w, at), true
  end
  local parts, cap = mul(s[1] - ONE - now, q) + s[2], capacity(q, w, b, now)
  if parts > cap then return cap, true end
  return parts, false
end
local function bucket_of(missing, q, cap)
  if missing <= Z then return {}, Z end
  local us = div(missing - ONE, q)
  local mark, units = now + us + ONE, missing - mul(us, q)
  if cap and missing > cap then return {mark, units, now, Z}, us + ONE end
  return {mark, units}, us + ONE
end
-- Whole units that are left; below 0 in debt.
local function left_in(cap, missing, w)
  if missing > cap then return -cdiv(missing - cap, w) end
  return div(cap - missing, w)
end
F.t = function(s, q, w, b, c)
  local missing, cut = missing_of(s, q, w, b)
  local cap = capacity(q, w, b, now)
  local left = missing > cap and left_in(cap, missing, w) or div(cap - missing, w)
  if c <= left then
    local next, reset = bucket_of(missing + mul(c, w), q)
    return true, left - c, reset, Z, next, cut
  end
  local next, reset = bucket_of(missing, q, cap)
  local retry = NEVER
  if c <= b then
    local parts, most = mul(c, w), capacity(q, w, b, Z)
    if parts <= most then
      local lacking, wait, still = missing + parts - most, Z, missing
      if lacking > Z then wait = cdiv(lacking, q) end
      still = missing - mul(wait, q)
      if still < Z then still = Z end
      if still + parts <= capacity(q, w, b, now + wait) then retry = wait end
    end
  end
  return false, left, reset, retry, next, cut
end
)lua";

const std::string_view lua_sliding_window = R"lua(
F.s = function(s, q, w, b, c)
  local left_us = w - mod(now, w)
  local ends = now + left_us
  local m1, u1, m2, u2 = s[1] or Z, s[2] or Z, s[3] or Z, s[4] or Z
  local live = u1 > Z and now < m1
  local current, previous = Z, Z
  if live then
    if m2 <= now then previous = u1 else current = u1 previous = u2 end
  end
  local left, retry = q - current - cdiv(mul(previous, left_us), w), Z
  local ok = c <= left
  if ok then
    left = left - c
  elseif c > q then
    retry = NEVER
  elseif c <= q - current then
    retry = left_us - div(mul(q - current - c, w), previous)
  else
    retry = left_us + w - div(mul(q - c, w), current)
  end
  if ok then current = current + c end
  if current > Z then
    local mark = ends + w
    return ok, left, mark - now, retry, {mark, current, ends, previous}, m1 > mark
  elseif live then
    local mark = least(m1, ends)
    return ok, left, mark - now, retry, {mark, u1, m2, u2}, m1 > mark
  end
  return ok, left, Z, retry, {}, false
end
)lua";

// merge_in_slots(runs, length): two runs of one slot become one, or of all where there is no
// length. False: no two are in one slot.
const std::string_view lua_merge = R"lua(
local function merge_in_slots(runs, length)
  local best, loss
  for i = #runs - 1, 3, -2 do  -- the one that ends first
    if not length or div(runs[i], length) == div(runs[i - 2], length) then
      local its = mul(runs[i - 2] - runs[i], runs[i + 1])
      if not best or its < loss then best = i loss = its end
    end
  end
  if not best then return false end
  runs[best - 1] = runs[best - 1] + runs[best + 1]
  table.remove(runs, best)
  table.remove(runs, best)
  return true
end
local function slot_of(us) return div(us - ONE, N('31')) + ONE end
-- The wait until the runs that end first have left room for `c`.
local function wait_for(runs, left, c)
  local i = #runs + 1
  while left < c do
    i = i - 2
    left = left + runs[i + 1]
  end
  return runs[i] - now
end
)lua";

const std::string_view lua_sliding_log = R"lua(
F.l = function(s, q, w, b, c)
  local latest, runs, used, cut = now + w, {}, Z, false
  for i = 1, #s, 2 do
    if s[i + 1] <= Z or s[i] <= now then break end
    local ends = s[i]
    if ends > latest then ends = latest cut = true end
    used = used + s[i + 1]
    local n = #runs
    if n > 0 and runs[n - 1] == ends then
      runs[n] = runs[n] + s[i + 1]
    else
      runs[n + 1] = ends
      runs[n + 2] = s[i + 1]
    end
  end
  local left, retry = q - used, Z
  local ok = c <= left
  if not ok then
    retry = NEVER
    if c <= q then retry = wait_for(runs, left, c) end
  elseif c > Z then
    left = left - c
    if runs[1] and runs[1] == latest then
      runs[2] = runs[2] + c
    else
      table.insert(runs, 1, c)
      table.insert(runs, 1, latest)
      if #runs > 64 then merge_in_slots(runs, slot_of(w)) end
    end
  end
  return ok, left, runs[1] and runs[1] - now or Z, retry, runs, cut
end
)lua";

const std::string_view lua_concurrency = R"lua(
-- The runs that are not over, and their units.
local function places_of(s)
  local runs, used = {}, Z
  for i = 1, #s, 2 do
    if s[i + 1] <= Z or s[i] <= now then break end
    used = used + s[i + 1]
    runs[i] = s[i]
    runs[i + 1] = s[i + 1]
  end
  return runs, used
end
-- Adds places that end then; returns the runs.
local function add_run(runs, ends, units, longest)
  local i = 1
  while runs[i] and runs[i] > ends do i = i + 2 end
  if runs[i] and runs[i] == ends then
    runs[i + 1] = runs[i + 1] + units
  else
    table.insert(runs, i, units)
    table.insert(runs, i, ends)
    if #runs > 64 and not merge_in_slots(runs, slot_of(longest)) then merge_in_slots(runs) end
  end
  return runs
end
F.p = function(s, q, w, b, c)
  local runs, used = places_of(s)
  local left, retry = q - used, Z
  local ok = c <= left
  if not ok then
    retry = c <= q and wait_for(runs, left, c) or NEVER
  elseif c > Z then
    left = left - c
    add_run(runs, now + w, c, b)
  end
  return ok, left, runs[1] and runs[1] - now or Z, retry, runs, false
end
)lua";

// The units of its state are those that are taken; the mark is not used.
const std::string_view lua_fixed_bucket = R"lua(
F.b = function(s, q, w, b, c)
  local missing = s[2] or Z
  local left = b - missing
  local ok = c <= left
  local retry = NEVER
  if ok then missing = missing + c left = left - c retry = Z end
  if missing > Z then return ok, left, NEVER, retry, {Z, missing}, false end
  return ok, left, NEVER, retry, {}, false
end
)lua";

const std::string_view lua_always = R"lua(
F.u = function(s, q, w) return true, q, Z, Z, {}, false end
F.d = function() return false, Z, NEVER, NEVER, {}, false end
)lua";

const std::string_view lua_put = R"lua(
local function put_window(s, units)
  if s[2] and s[2] > Z and now < s[1] and units < s[2] then return {s[1], s[2] - units} end
  return {}
end
P.f = put_window
P.a = put_window
P.t = function(s, units, q, w, b)
  local missing, back = missing_of(s, q, w, b), mul(units, w)
  if back >= missing then return {} end
  return (bucket_of(missing - back, q, capacity(q, w, b, now)))
end
P.s = function(s, units, q, w)
  local m1, u1, m2, u2 = s[1] or Z, s[2] or Z, s[3] or Z, s[4] or Z
  if u1 <= Z or now >= m1 then return {} end
  if units < u1 then return {m1, u1 - units, m2, u2} end
  if m2 > now and units - u1 < u2 then
    local past = mod(now, w)
    return {now + (w - past), u2 - (units - u1), now - past, Z}
  end
  return {}
end
P.l = function(s, units)
  local next = {}
  for i = 1, #s, 2 do
    if #next > 0 then
      next[#next + 1] = s[i]
      next[#next + 1] = s[i + 1]
    else
      if s[i + 1] <= Z or s[i] <= now then break end
      if units >= s[i + 1] then
        units = units - s[i + 1]
      else
        next = {s[i], s[i + 1] - units}
      end
    end
  end
  return next
end
P.p = function(s, units)
  local next = places_of(s)
  while #next > 0 and units > Z do
    local n = #next
    if units >= next[n] then
      units = units - next[n]
      next[n] = nil
      next[n - 1] = nil
    else
      next[n] = next[n] - units
      units = Z
    end
  end
  return next
end
P.b = function(s, units, q, w, b)
  local missing = (s[2] or Z) - units
  if missing > Z then return {Z, missing} end
  return {}
end
)lua";

const std::string_view lua_carry_over = R"lua(
local function parts_of(alg, s, q, w, b)
  if alg == 'b' then return b, s[2] or Z, ONE end
  return capacity(q, w, b, now), missing_of(s, q, w, b), w
end
local function has_runs(a) return a == 'l' or a == 'p' end
-- Keeps the `most` runs that end last; the units of the others are added to the first of these.
local function keep_runs(s, most)
  local next = {}
  for i = 1, #s do
    if i <= 2 * most then next[i] = s[i]
    elseif i % 2 == 0 then next[2 * most] = next[2 * most] + s[i] end
  end
  return next
end
local function log_cells(l) return tonumber(S(least(l[2], N('32')))) end
-- `from` and `to` are limits: lists of algorithm, quota, window, burst. The runs of places, and of a
-- counter in debt that has more than its cells, stay apart.
local function carry_over(s, from, to, carry)
  local f, t = from[1], to[1]
  if f == 'b' and t == 'b' and carry ~= 'l' then return s end
  if (f == 't' or f == 'b') and (t == 't' or t == 'b') then
    local was_cap, was_missing, was_unit = parts_of(f, s, from[2], from[3], from[4])
    local cap, _, unit = parts_of(t, {}, to[2], to[3], to[4])
    local function down(parts)
      local fraction = mul(mod(parts, was_unit), unit)
      return mul(div(parts, was_unit), unit) + div(fraction, was_unit), mod(fraction, was_unit)
    end
    local function up(parts)
      local kept, rest = down(parts)
      if rest > Z then kept = kept + ONE end
      return kept
    end
    -- Debt is not forgiven.
    local owed, missing = Z, nil
    if was_missing > was_cap then owed = up(was_missing - was_cap) end
    if carry ~= 'l' then
      missing = least(up(was_missing), cap + owed)
    elseif owed > Z then
      missing = cap + owed
    else
      missing = cap - least(down(was_cap - was_missing), cap)
    end
    if t == 'b' then
      if missing > Z then return {Z, least(missing, FULL)} end
      return {}
    end
    return (bucket_of(bounded(missing, to[2], to[3], now), to[2], cap))
  end
  if f ~= t or not P[t] then return {} end
  if t ~= 'f' and t ~= 'p' and from[3] ~= to[3] then return {} end
  local _, _, _, _, kept = F[f](s, from[2], from[3], from[4], Z)
  if t == 'l' and #kept <= 2 * log_cells(from) then kept = keep_runs(kept, log_cells(to)) end
  local _, _, _, _, next = F[t](kept, to[2], to[3], to[4], Z)
  return next
end
)lua";

// limit/carry_list.cc in Lua, step by step. A source is a limit `l` (algorithm, quota, window,
// burst) with its state `s`.
const std::string_view lua_carry_list = R"lua(
local function same_kind(a, b) return a[1] == b[1] and (a[3] == b[3] or a[1] == 'p') end
-- Windows of the clock and of the calendar are of one algorithm.
local function algorithm_of(l) return l[1] == 'm' and 'a' or l[1] end
local function is_fresh(one)
  local s = one.s
  if not s[1] or s[2] <= Z then return true end
  return one.l[1] ~= 'b' and s[1] <= now
end
local function is_stricter(a, b)
  local mark, its = a[1] or Z, b[1] or Z
  if mark ~= its then return mark > its end
  return (a[2] or Z) > (b[2] or Z)
end
local function cells_of(l)
  if l[1] == 's' then return 2 end
  if has_runs(l[1]) then return log_cells(l) end
  if l[1] == 'u' or l[1] == 'd' then return 0 end
  return 1
end
-- The cells that a counter has for its limits in force. Where runs of logs in debt have no room, the
-- oldest are one (limit/opened.h).
local function close(limits, states)
  local count = 0
  for i, l in ipairs(limits) do
    count = count + cells_of(l)
    if l[1] == 't' and states[i] and states[i][3] then count = count + 1 end
  end
  for i, l in ipairs(limits) do
    local cells, s = cells_of(l), states[i]
    if has_runs(l[1]) and s and #s > 2 * cells then
      local kept = math.min(#s / 2 - cells, math.max(71 - count, 0))
      states[i] = keep_runs(s, cells + kept)
      if kept > 0 then count = count + 1 + kept end
    end
  end
  return count
end
-- The cells of a limit that is left out, and the cells of its head.
local function left_cells_of(one)
  local l, cells = one.l, cells_of(one.l)
  if has_runs(l[1]) then cells = #one.s / 2 end
  if l[1] == 't' and one.s[3] then cells = 2 end
  return cells, (l[1] == 'p' or l[1] == 't' and l[4] ~= l[2]) and 2 or 1
end
-- Those limits left out for which there is room behind `count` cells.
local function keep_left(all, count)
  local kept = {}
  for _, one in ipairs(all) do
    local s, cells, head = one.s, left_cells_of(one)
    if has_runs(one.l[1]) and count + head + cells > 64 then
      cells = math.max(64 - count - head, 0)
      s = cells > 0 and keep_runs(s, cells)
    end
    if cells > 0 and count + head + cells <= 64 then
      count = count + head + cells
      kept[#kept + 1] = {l = one.l, s = s}
    end
  end
  return kept
end
local function first(all, fits)
  for _, one in ipairs(all) do
    if fits(one) then return one end
  end
end
)lua"
                                        R"lua(
-- `was`: the limits that were in force; `left`: those that were left out and are not fresh. Returns
-- a state for each limit of `to`, and the limits that are left out from now on.
local function carry_list(was, left, to, carry)
  local same, back, lends, memory, next, tail = {}, {}, {}, {}, {}, {}
  local function pair(all, found, exact)
    for i, l in ipairs(to) do
      if not same[i] and not found[i] then
        found[i] = first(all, function(one)
          return not one.paired and same_kind(one.l, l) and (not exact or one.l[3] == l[3])
        end)
        if found[i] then found[i].paired = true end
      end
    end
  end
  pair(was, same, true)
  pair(was, same)
  pair(left, back, true)
  pair(left, back)
  local function changes(i)
    if not same[i] then return true end
    local a, b = same[i].l, to[i]
    return a[2] ~= b[2] or a[3] ~= b[3] or a[4] ~= b[4]
  end
  for _, one in ipairs(left) do
    if not one.paired then
      for i, l in ipairs(to) do
        if changes(i) and same_kind(one.l, l) then one.lent = true end
      end
    end
  end
  for i, l in ipairs(carry == 'a' and {} or to) do
    if not same[i] then
      lends[i] = first(was, function(one)
        return not one.paired and not one.lent and algorithm_of(one.l) == algorithm_of(l)
      end)
      if lends[i] then lends[i].lent = true end
    end
  end
  for i = 1, carry == 'a' and 0 or math.min(#to, #was) do
    local one = was[i]
    if not same[i] and not lends[i] and not one.paired and not one.lent then
      lends[i] = one
      one.lent = true
    end
  end
  for _, one in ipairs(left) do one.paired = one.paired or one.lent end
)lua"
                                        R"lua(
  for i, l in ipairs(to) do
    local sources = {same[i]}
    if back[i] then sources[#sources + 1] = back[i] end
    if changes(i) then
      for _, one in ipairs(left) do
        if one.lent and same_kind(one.l, l) then sources[#sources + 1] = one end
      end
    end
    local state
    local function go_on_with(one)
      if not state then
        state = carry_over(one.s, one.l, l, carry)
      elseif l[1] == 't' or l[1] == 'b' then
        local as = carry_over(one.s, one.l, l, carry)
        if is_stricter(as, state) then state = as end
      end
    end
    if cells_of(l) == 0 then
      state = {}
    elseif l[1] == 't' and carry ~= 'l' and changes(i) then
      local large, all = {l[1], l[2], l[3], l[4]}, nil
      for _, one in ipairs(sources) do
        if one.l[4] > large[4] then large[4] = one.l[4] end
      end
      for _, one in ipairs(sources) do
        local as = carry_over(one.s, one.l, large, carry)
        if not all or is_stricter(as, all) then all = as end
      end
      if all then
        state = carry_over(all, large, l, carry)
        if is_stricter(all, state) then
          memory[#memory + 1] = {l = large, s = all}
        end
      end
    else
      for _, one in ipairs(sources) do go_on_with(one) end
    end
    if lends[i] and cells_of(l) > 0 then go_on_with(lends[i]) end
    next[i] = state or {}
  end
  for _, one in ipairs(memory) do tail[#tail + 1] = one end
  for _, one in ipairs(left) do
    if not one.paired then tail[#tail + 1] = one end
  end
  for _, logs in ipairs({false, true}) do
    for _, one in ipairs(was) do
      if has_runs(one.l[1]) == logs and not one.paired and not is_fresh(one) and
         not (carry == 'l' and one.lent) and
         not first(left, function(o) return not o.paired and same_kind(o.l, one.l) end) then
        tail[#tail + 1] = one
      end
    end
  end
  return next, keep_left(tail, close(to, next))
end
)lua";

// charge(s, l, cost, most_debt) is that of limit/debt.h: it returns the same as F.x, and the units
// that it took. most_debt: nil if the limit has no overdraft. count_behind and charge_behind decide
// charges with the verbs `count` and `charge`, and return the units as well. overdrafts_of: those
// of each limit in a text.
// allows(c): do all limits of charge `c` allow it? follow(c, earlier, takes) decides a charge that
// follows an earlier one on the same counter.
const std::string_view lua_count = R"lua(
local function most_of(l)
  if l[1] == 't' or l[1] == 'b' then return l[4] end
  if l[1] == 'd' then return Z end
  return l[2]
end
local function counted(l) return l[1] ~= 'u' and l[1] ~= 'd' end
local function overdrafts_of(text)
  local all, i = {}, 0
  for one in gmatch(text, ',(%d*)') do
    i = i + 1
    if one ~= '' then all[i] = N(one) end
  end
  return all
end
local function charge(s, l, cost, most_debt)
  local a, q, w, b = l[1], l[2], l[3], l[4]
  local _, ok, left, reset, retry, next, took
  if not counted(l) then
    _, left, reset, retry, next = F[a](s, q, w, b, Z)
    return true, left, reset, retry, next, false, Z
  elseif a == 't' then
    local missing, cap = missing_of(s, q, w, b), capacity(q, w, b, now)
    took = charged(cost, missing, q, w, now)
    if most_debt then
      took = least(took, left_in(cap, missing, w) + most_debt)
      if took < Z then took = Z end
    end
    missing = missing + mul(took, w)
    left = left_in(cap, missing, w)
    next, reset = bucket_of(missing, q, cap)
  elseif find('chg', a, 1, true) then
    ok, left, reset, _, next = F[a](s, q, w, b, cost)
    took = ok and cost or Z
  else
    local most = (a == 'm' or a == 'p') and b or FULL
    _, left = F[a](s, FULL, w, most, Z)
    took = least(cost, left)
    if most_debt then took = least(took, left - (FULL - most_of(l)) + most_debt) end
    if took < Z then took = Z end
    _, left, reset, _, next = F[a](s, FULL, w, most, took)
    left = left - (FULL - most_of(l))
  end
  retry = Z
  if left < ONE then _, _, _, retry = F[a](next, q, w, b, ONE) end
  return true, left, reset, retry, next, false, took
end
-- The limits that are left out, after a put of `cost`, or after the limits in force for which
-- takes(i) have taken it, or costs[i] of it.
local function change_tail(tail, limits, cost, takes, costs, carry)
  local changed, _ = {}, nil
  for i, one in ipairs(tail) do
    local l, s, is_memory, taken = one.l, one.s, false, false
    for j, other in ipairs(limits) do
      if l[1] == 't' and same_kind(other, l) then
        is_memory = true
        taken = taken or takes and takes(j) and j
      end
    end
    if not takes and (is_memory or l[1] == 'b' and carry ~= 'a') then
      s = P[l[1]](s, cost, l[2], l[3], l[4])
    elseif taken then
      _, _, _, _, s = charge(s, l, costs and costs[taken] or cost)
    end
    changed[i] = {l = l, s = s}
  end
  return changed
end
-- For a charge before which waiters claim `ahead` units: the units left to it, and its wait.
local function left_behind(left, ahead)
  local floor_ = left
  if floor_ > Z then floor_ = Z end
  local rest = left - ahead
  if rest < floor_ then return floor_ end
  return rest
end
local function wait_behind(s, l, units)
  local most = END
  if units > most then units = most end
  local whole = l[2]
  if l[1] == 't' or l[1] == 'b' then whole = l[4] end
  if l[1] == 'd' then whole = Z end
  local _, _, reset, retry = F[l[1]](s, l[2], l[3], l[4], units)
  if retry ~= NEVER or whole == Z or units <= whole then return retry end
  if reset == NEVER then return NEVER end
  local more, wait = units - whole, nil
  if l[1] == 't' then
    wait = div(mul(more, l[3]), l[2]) + ONE
  else
    wait = div(more - ONE, l[2]) + ONE
    if l[1] == 's' then wait = wait + ONE end
    local length = l[3]
    if l[1] == 'm' then length = l[4].calendar[5] end
    wait = mul(wait, length)
  end
  wait = wait + reset
  if wait < most then return wait end
  return NEVER
end
local function look(s, l)
  local ok, left, reset, retry = F[l[1]](s, l[2], l[3], l[4], Z)
  if l[1] == 'd' then return ok, left, reset, retry end
  if l[1] == 'u' and l[3] == Z then reset = NEVER end
  if find('chg', l[1], 1, true) then
    reset = s[1] and s[1] > now and s[1] - now or Z
  end
  return true, left, reset, Z
end
)lua"
                                   R"lua(
local function allows(c)
  for i = 1, #c.said do
    if not c.said[i][1] then return false end
  end
  return true
end
-- Does limit `i` count what it refuses?
local function is_over(c, i) return c.over and sub(c.over, i, i) == '1' end
-- A take after units that others claim; `over`: what is refused is charged.
local function count_behind(s, l, cost, ahead, over, most_debt)
  local _, ok, left, reset, retry, next, cut
  if ahead > Z and cost > Z and counted(l) then
    ok, left, reset = look(s, l)
    ok, next = ahead + cost <= left, s
    if not ok then
      retry = NEVER
      if cost <= most_of(l) then retry = wait_behind(s, l, ahead + cost) end
    end
  end
  if ok ~= false then
    ok, left, reset, retry, next, cut = F[l[1]](s, l[2], l[3], l[4], cost)
  end
  if ok or cost <= Z or not over or not counted(l) then
    return ok, left, reset, retry, next, cut, ok and cost or Z
  end
  local took
  _, left, reset, _, next, _, took = charge(s, l, cost, most_debt)
  retry = NEVER
  if cost <= most_of(l) then retry = wait_behind(next, l, ahead + cost) end
  return false, left, reset, retry, next, cut, took
end
local function charge_behind(s, l, cost, ahead, most_debt)
  local ok, left, reset, retry, next, _, took = charge(s, l, cost, most_debt)
  if ahead > Z and counted(l) and left <= ahead then
    retry = most_of(l) == Z and NEVER or wait_behind(next, l, ahead + ONE)
  end
  return ok, left, reset, retry, next, took
end
-- The group of a charge that counts is refused: only limits that count are charged; if the charge
-- is spared, none is.
local function deny_count(c, spared)
  c.counts, c.tail_then = not spared and find(c.over, '1', 1, true) ~= nil, nil
  for i = 1, #c.limits do
    local l, s = c.limits[i], c.states[i] or {}
    if spared or not is_over(c, i) then
      local ok, left, reset, retry, next, cut = F[l[1]](s, l[2], l[3], l[4], Z)
      if c.said[i][1] or spared then
        if counted(l) then left = left_behind(left, c.ahead) end
        c.said[i] = {ok, left, reset, retry}
      end
      c.next[i] = next
      if cut or #next ~= #s then c.changed = true end
    end
  end
  if not spared and #c.tail > 0 then
    c.tail_then = change_tail(c.tail, c.limits, c.cost, function(i) return is_over(c, i) end, c.took or c.costs)
  end
end
-- The charge counts after an earlier one on the same counter; its next states include both.
local function follow(c, earlier, takes)
  local cells = close(earlier.limits, earlier.next)
  local states, tail = earlier.next, keep_left(earlier.tail_then or earlier.tail, cells)
  if earlier.name ~= c.name then
    local was = {}
    for i = 1, #earlier.limits do was[i] = {l = earlier.limits[i], s = states[i]} end
    states, tail = carry_list(was, tail, c.limits, c.carry)
  end
  earlier.passed_on = true
  for i = 1, #c.limits do
    local ok, left, reset, retry, next, _, took =
      count_behind(states[i] or {}, c.limits[i], takes and c.cost or Z, Z, true, c.most_debt and c.most_debt[i])
    if c.took then c.took[i] = took end
    c.said[i] = {ok, left, reset, retry}
    c.next[i] = next
  end
  c.tail, c.tail_then = tail, nil
  if takes and #tail > 0 then
    c.tail_then = change_tail(tail, c.limits, c.cost, function() return true end, c.took)
  end
  c.counts = c.counts or earlier.counts
  c.changed = c.changed or earlier.changed
end
)lua";

// limit/gcra.h in Lua. Only for lua_wide, because the numbers of these limits use all 63 bits.

const std::string_view lua_gcra = R"lua(
local function gcra(letter, per_us)
  local per, K, MIN = N(per_us), N('1000'), -END - ONE
  local crab, redis = letter == 'h', letter == 'g'
  local function fits(n) return n >= MIN and n <= END end
  local function instant()
    if redis then return mul(div(now, K), K) end
    return mul(now, per)
  end
  local function told(length)
    if length <= Z then return Z end
    local us = cdiv(length, per)
    if us >= END then return NEVER end
    return us
  end
  -- Returns the TAT of a fresh counter, and that of this counter.
  local function tats(s, e, at)
    local fresh = at
    if crab then fresh = at - e end
    if s[1] and s[1] > now and s[2] > fresh then return fresh, s[2] end
    return fresh, fresh
  end
  -- The TAT is later than that of a fresh counter, so the mark is in the future.
  local function state_of(e, tat)
    local mark
    if redis then mark = mul(cdiv(tat, K), K)
    elseif crab then mark = cdiv(tat + e, per)
    else mark = cdiv(tat, per) end
    return {least(mark, END), tat}
  end
  F[letter] = function(s, q, e, f, c)
    -- A negative burst of `h` is ~f: then reset_after is the time until the bucket is full.
    local besides = Z
    if crab then
      besides = f
      if f < Z then besides, f = e, -ONE - f end
    end
    local added, at = mul(e, c), instant()
    local fresh, from = tats(s, e, at)
    local to = from + added
    if to < fresh then to = fresh end
    local ok = to - f <= at and q >= Z
    if not fits(added) or ok and c ~= Z and not fits(to) then
      return false, Z, NEVER, Z, s, false
    end
    -- A refusal and a look return the same table `s`, so that it is not written again.
    local next, current, left, retry = s, from, Z, Z
    if ok then
      current = to
      if c ~= Z then next = to > fresh and state_of(e, to) or {} end
    elseif crab or added <= f and q >= Z then
      retry = told(to - f - at)
    else
      retry = NEVER
    end
    local room, reset = at + f - current, current - at + besides
    if room > Z then left = div(room, e) end
    return ok, left, told(reset), retry, next, false
  end
  P[letter] = function(s, units, q, e, f)
    local fresh, from = tats(s, e, instant())
    local to = from - mul(e, units)
    if to > fresh then return state_of(e, to) end
    return {}
  end
end
gcra('c', '1000')
gcra('h', '1000')
gcra('g', '1')
)lua";

const std::string_view lua_tat_text = R"lua(
-- A counter in redis-cell's form: the TAT in nanoseconds, with an expiry at that time, rounded up to
-- a whole millisecond, because otherwise a limit whose units return quickly would never refuse. A
-- number that is no longer ahead may be another program's: it counts as a fresh counter, and is
-- never deleted.
local function load_tat(c, v, key)
  local tat = #v <= 20 and string.match(v, '^%-?%d+$') and N(v)
  if not tat or tat > END or tat < -END - ONE then
    return {err = 'NONUMBER the value of ' .. sub(key, 1, 200) .. ' is not a number of 64 bits'}
  end
  if c.reset_first then
    c.changed = true
  else
    c.states = {tat > Z and {cdiv(tat, N('1000')), tat} or {}}
    c.read = c.states
  end
end
local function write_tat(key, s, old)
  local function ahead(state) return state and state[1] and state[2] - mul(now, N('1000')) or Z end
  if ahead(s) > Z then
    call('SET', key, S(s[2]), 'PX', S(cdiv(ahead(s), N('1000000'))))
  elseif ahead(old) > Z then
    call('DEL', key)
  end
end
)lua";

}  // namespace sluice::redis
