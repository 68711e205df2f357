#include "redis/lua.h"

namespace sluice::redis {

// charge(s, l, cost) is that of limit/debt.h: it returns the same as F.x, and the units that it
// took. count_behind and charge_behind decide charges with the verbs `count` and `charge`.
// allows(c): do all limits of charge `c` allow it? follow(c, earlier, takes) decides a charge that
// follows an earlier one on the same counter.
const std::string_view lua_count = R"lua(
local function most_of(l)
  if l[1] == 't' or l[1] == 'b' then return l[4] end
  if l[1] == 'd' then return Z end
  return l[2]
end
local function counted(l) return l[1] ~= 'u' and l[1] ~= 'd' end
local function charge(s, l, cost)
  local a, q, w, b = l[1], l[2], l[3], l[4]
  local _, ok, left, reset, retry, next, took
  if not counted(l) then
    _, left, reset, retry, next = F[a](s, q, w, b, Z)
    return true, left, reset, retry, next, false, Z
  elseif a == 't' then
    local missing, cap = missing_of(s, q, w, b), capacity(q, w, b, now)
    took = charged(cost, missing, q, w, now)
    missing = missing + mul(took, w)
    left = left_in(cap, missing, w)
    next, reset = bucket_of(missing, q, cap)
  elseif find('chg', a, 1, true) then
    ok, left, reset, _, next = F[a](s, q, w, b, cost)
    took = ok and cost or Z
  else
    _, left = F[a](s, FULL, w, FULL, Z)
    took = least(cost, left)
    if took < Z then took = Z end
    _, left, reset, _, next = F[a](s, FULL, w, FULL, took)
    left = left - (FULL - most_of(l))
  end
  retry = Z
  if left < ONE then _, _, _, retry = F[a](next, q, w, b, ONE) end
  return true, left, reset, retry, next, false, took
end
-- The limits that are left out, after a put of `cost`, or after the limits in force for which
-- takes(i) have taken it.
local function change_tail(tail, limits, cost, takes)
  local changed, _ = {}, nil
  for i, one in ipairs(tail) do
    local l, s, is_memory, taken = one.l, one.s, false, false
    for j, other in ipairs(limits) do
      if l[1] == 't' and same_kind(other, l) then
        is_memory = true
        taken = taken or takes and takes(j)
      end
    end
    if not takes and (is_memory or l[1] == 'b') then
      s = P[l[1]](s, cost, l[2], l[3], l[4])
    elseif taken then
      _, _, _, _, s = charge(s, l, cost)
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
    wait = mul(wait, l[3])
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
local function count_behind(s, l, cost, ahead, over)
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
    return ok, left, reset, retry, next, cut
  end
  _, left, reset, _, next = charge(s, l, cost)
  retry = NEVER
  if cost <= most_of(l) then retry = wait_behind(next, l, ahead + cost) end
  return false, left, reset, retry, next, cut
end
local function charge_behind(s, l, cost, ahead)
  local ok, left, reset, retry, next, _, took = charge(s, l, cost)
  if ahead > Z and counted(l) and left <= ahead then
    retry = most_of(l) == Z and NEVER or wait_behind(next, l, ahead + ONE)
  end
  return ok, left, reset, retry, next, took
end
-- The group of a charge that counts is refused: only limits that count are charged; if the charge
-- is spared, none is.
local function deny_count(c, spared)
  c.counts, c.tail_then = not spared, nil
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
    c.tail_then = change_tail(c.tail, c.limits, c.cost, function(i) return is_over(c, i) end)
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
    local ok, left, reset, retry, next =
      count_behind(states[i] or {}, c.limits[i], takes and c.cost or Z, Z, true)
    c.said[i] = {ok, left, reset, retry}
    c.next[i] = next
  end
  c.tail, c.tail_then = tail, nil
  if takes and #tail > 0 then
    c.tail_then = change_tail(tail, c.limits, c.cost, function() return true end)
  end
  c.counts = c.counts or earlier.counts
  c.changed = c.changed or earlier.changed
end
)lua";

}  // namespace sluice::redis
