#include "redis/lua.h"

namespace sluice::redis {

// count(state, limit, cost) decides a charge with the verb `count`, and returns the same as F.x.
// allows(c): do all limits of charge `c` allow it? follow(c, earlier, takes) decides a charge that
// follows an earlier one on the same counter.
const std::string_view lua_count = R"lua(
-- As F.a, but the cost is taken even if it does not fit.
local FULL = N('9007199254740991')
local function count(s, l, cost)
  local q, w = l[2], l[3]
  if l[1] ~= 'a' then return F[l[1]](s, q, w, l[4], cost) end
  local _, left, _, _, as_is, cut = F.a(s, q, w, l[4], Z)
  local used, ends = q - left, as_is[1] or now + (w - mod(now, w))
  local units, full = used + cost, cost > FULL - used
  if full then units = FULL end
  local ok, retry = units <= q and not full, Z
  if not ok then
    retry = ends - now
    if cost > q then retry = NEVER end
  end
  if units > Z then return ok, q - units, ends - now, retry, {ends, units}, cut end
  return ok, q, Z, retry, {}, false
end
local function allows(c)
  for i = 1, #c.said do
    if not c.said[i][1] then return false end
  end
  return true
end
-- The charge counts after an earlier one on the same counter; its next states include both.
local function follow(c, earlier, takes)
  local states, tail = earlier.next, earlier.tail_then or earlier.tail
  if earlier.name ~= c.name then
    local was = {}
    for i = 1, #earlier.limits do was[i] = {l = earlier.limits[i], s = states[i]} end
    states, tail = carry_list(was, tail, c.limits, c.carry)
  end
  earlier.passed_on = true
  for i = 1, #c.limits do
    local ok, left, reset, retry, next = count(states[i] or {}, c.limits[i], takes and c.cost or Z)
    c.said[i] = {ok, left, reset, retry}
    c.next[i] = next
  end
  c.tail, c.tail_then = tail, nil
  if takes and #tail > 0 then c.tail_then = change_tail(tail, c.limits, c.cost, false) end
  c.counts = c.counts or earlier.counts
  c.changed = c.changed or earlier.changed
end
)lua";

}  // namespace sluice::redis
