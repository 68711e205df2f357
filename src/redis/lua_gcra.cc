// limit/gcra.h in Lua. Only for lua_wide, because the numbers of these limits use all 63 bits.
#include "redis/lua.h"

namespace sluice::redis {

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
