// Takes back the charges of one slot of a group over several slots, as far as their units can still
// be found.
//
//   KEYS   one for each charge
//   ARGV   for each charge: kind (own, remaining, window), name of its limits, cost, keep_fresh,
//          count of limits, receipt (lua_settle.cc), then letter, quota, window, burst of each
//          limit
//   reply  the units that could not be found, although their window has not ended as far as can be
//          seen, and stay taken
//
// A bucket gets back only the units that the state which the charge wrote would still lack now:
// units that returned since then may have been granted to others.
#include "redis/lua.h"

namespace sluice::redis {

// Before Redis 7.2, TIME and PTTL in a script each read the clock, and Redis may be held up
// between the two. PEXPIRETIME would be one step, but Redis before 7.0 does not have it, and users
// would need the right to it.
const std::string_view lua_window_end = R"lua(
local function ms_of(clock) return clock[1] * 1000 + floor(clock[2] / 1000) end
-- The ms at which the key's window ends. 0: it has ended; -1: it has no end, or that is not known.
local function end_of(key)
  for _ = 1, 100 do
    local before, ttl, after = ms_of(call('TIME')), call('PTTL', key), ms_of(call('TIME'))
    if ttl == -1 then return -1 end
    if ttl <= 0 then return 0 end
    if before == after then return before + ttl end
  end
  return -1
end
)lua";

const std::string_view lua_receipts = R"lua(
local function receipts_of(charges, all)
  local receipts = {}
  for k = 1, #charges do
    local c, r = charges[k], {}
    local takes = c.verb == 't' and all or c.counts or c.verb == 'c' and c.name == 'window'
    if not takes or c.dry then
      -- Nothing was taken.
    elseif c.name == 'window' then
      r[1] = '1'
    elseif c.name == 'remaining' then
      r[1] = format('%.0f', end_of(KEYS[k]))
    else
      for i = 1, #c.limits do
        local s, taken = c.next[i], all or c.verb ~= 'c' or sub(c.over, i, i) == '1'
        r[i] = taken and s[1] and S(s[1]) .. ':' .. S(s[2]) or '-'
      end
    end
    receipts[k] = table.concat(r, ',')
  end
  return table.concat(receipts, ';')
end
)lua";

const std::string_view lua_undo = R"lua(
local A, at, left = ARGV, 1, 0
local U = {}
-- U.x(state, mark, units, quota, window, burst, cost): the state without the charge that wrote this
-- mark and these units; nil: the charge's units cannot be found.
function U.f(s, m, p, q, w, b, c)
  if not s[1] or s[1] ~= m or s[2] < c then return s end
  if s[2] == c then return {} end
  return {m, s[2] - c}
end
U.a = U.f
function U.t(s, m, p, q, w, b, c)
  if not s[1] or m <= now then return s end
  local back = least(mul(c, w), mul(m - ONE - now, q) + p)
  local next = bucket_of(missing_of(s, q, w, b) - back, q, capacity(q, w, b, now))
  return next
end
function U.s(s, m, p, q, w, b, c)
  if not s[4] then return s end
  if s[1] == m + w and s[4] >= c then return {s[1], s[2], s[3], s[4] - c} end
  if s[1] ~= m or s[2] < c then return s end
  if s[2] > c then return {m, s[2] - c, s[3], s[4]} end
  if s[4] > Z and s[3] > now then return {s[3], s[4], s[3] - w, Z} end
  return {}
end
-- A run that had to be merged is in the next newer one of the same 31st of the window (merge_pair).
function U.l(s, m, p, q, w, b, c)
  if m <= now or not s[1] then return s end
  local length, at = div(w - ONE, N('31')) + ONE
  for i = 1, #s, 2 do
    if s[i] < m then break end
    at = i
  end
  if not at or s[at + 1] < c or div(s[at], length) ~= div(m, length) then return nil end
  local next = {}
  for i = 1, #s, 2 do
    local units = s[i + 1]
    if i == at then units = units - c end
    if units > Z then
      next[#next + 1] = s[i]
      next[#next + 1] = units
    end
  end
  return next
end
function U.b(s, m, p, q, w, b, c)
  if not s[2] or s[2] < c then return s end
  if s[2] == c then return {} end
  return {s[1], s[2] - c}
end
)lua"
                                  R"lua(
-- Takes the charge back from all limits of a counter. False: some units stay taken.
local function undo_own(key, v, name, cost, keep_fresh, n, receipt, from)
  if sub(v, 1, #name + 1) ~= name .. ' ' then return false end
  local states = read_states(sub(v, #name + 2))
  if not states or #states ~= n then return false end
  local i, all = 0, true
  for one in gmatch(receipt, '[^,]+') do
    i = i + 1
    local m, p = string.match(one, '^(%d+):(%d+)$')
    local l = from + 4 * (i - 1)
    if m and U[A[l]] then
      local next = U[A[l]](states[i], N(m), N(p), N(A[l + 1]), N(A[l + 2]), N(A[l + 3]), N(cost))
      if next then states[i] = next else all = false end
    end
  end
  write_states(key, name, states, n, keep_fresh, v)
  return all
end
-- A window is known by its end. False: whether it is still the window that was taken from is not
-- known: the key has no end any more, or one within the length of a window, as after a move of its
-- slot, which sets the TTL again, or a reset. Nothing is taken back then.
local function undo_remaining(key, v, cost, receipt, quota, window)
  local was, is = tonumber(receipt), end_of(key)
  if was == 0 or is == 0 or not string.match(v, '^%-?%d+$') then return true end
  if was ~= is then
    return was > 0 and is > 0 and math.abs(is - was) * 1000 >= tonumber(window)
  end
  if is < 0 then return false end
  local after = N(v) + N(cost)
  if after == N(quota) then call('DEL', key)
  elseif after < N(quota) then call('INCRBY', key, cost) end
  return true
end
for k = 1, #KEYS do
  local key, kind, cost, n = KEYS[k], A[at], A[at + 2], tonumber(A[at + 4])
  local v = call('GET', key)
  if v and kind == 'window' then
    if string.match(v, '^%d+$') and W.at_most(cost, v) then call('DECRBY', key, cost) end
  elseif v and kind == 'remaining' then
    local done = undo_remaining(key, v, cost, A[at + 5], A[at + 7], A[at + 8])
    if not done then left = left + tonumber(cost) end
  elseif v and not undo_own(key, v, A[at + 1], cost, tonumber(A[at + 3]), n, A[at + 5], at + 6) then
    left = left + tonumber(cost)
  end
  at = at + 6 + 4 * n
end
return format('%.0f', left)
)lua";

}  // namespace sluice::redis
