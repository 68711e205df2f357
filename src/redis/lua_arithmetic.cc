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

}  // namespace sluice::redis
