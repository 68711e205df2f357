// The script of lua_settle.cc for the usual case: takes and peeks of counters that were written
// under the limits in force. In all other cases it changes nothing and replies `~c`, or
// `~w` where the numbers are too large for it.
#include "redis/lua.h"

namespace sluice::redis {

const std::string_view lua_settle_light = R"lua(
local A = ARGV
local mode, at, charges = A[1], 2, {}
local hold = mode == '1' or mode == '1R' or mode == 'S' or mode == 'l'
local all = not hold
for k = 1, #KEYS do
  local verb, cost, name, n = A[at], N(A[at + 1]), A[at + 4], tonumber(A[at + 6])
  local v, states = call('GET', KEYS[k]), nil
  if v then
    if sub(v, 1, #name + 1) ~= name .. ' ' then return '~c' end
    states = read_states(sub(v, #name + 2))
    if not states or #states ~= n then return '~c' end
  end
  -- All fields at once: a table that grows by one costs as much as a command of Redis.
  local c = {verb = verb, name = name, keep_fresh = tonumber(A[at + 3]), n = n, at = at + 7,
             old = v, states = states, next = {}, said = {}, refills = false, cut = false}
  at = at + 7
  for i = 1, n do
    local s = states and states[i] or {}
    if A[at] ~= 'b' then c.refills = true end
    local ok, left, reset, retry, next, cut =
      F[A[at]](s, N(A[at + 1]), N(A[at + 2]), N(A[at + 3]),
               verb == 'p' and Z or cost)
    if verb == 'p' then
      if A[at] ~= 'd' then ok = true retry = Z end
      if A[at] == 'u' and N(A[at + 2]) == Z then reset = NEVER end
    end
    if not ok then all = false end
    if cut or #next ~= #s then c.cut = true end  -- expired units must not come back
    c.next[i] = next
    c.said[i] = {ok, left, reset, retry}
    at = at + 4
  end
  charges[k] = c
end
)lua"
                                          R"lua(
local out = {all and '1' or '0'}
for k = 1, #charges do
  local c = charges[k]
  for i = 1, c.n do
    local d = c.said[i]
    if not all and d[1] then
      -- The group is refused and takes nothing: reply with the state.
      local at = c.at + 4 * (i - 1)
      local s = c.states and c.states[i] or {}
      local ok, left, reset, retry, next, cut =
        F[A[at]](s, N(A[at + 1]), N(A[at + 2]), N(A[at + 3]), Z)
      d = {ok, left, reset, retry}
      c.next[i] = next
      if cut or #next ~= #s then c.cut = true end
    end
    out[#out + 1] = d[1] and '1' or '0'
    out[#out + 1] = S(d[2])
    out[#out + 1] = S(d[3])
    out[#out + 1] = S(d[4])
  end
end
if esc then return esc end
)lua"
                                          R"lua(
for k = 1, #charges do
  local c = charges[k]
  local keep_fresh, fresh = c.keep_fresh, c.keep_fresh > 0
  for i = 1, fresh and c.n or 0 do
    if c.next[i][1] then fresh = false end
  end
  if fresh and not c.refills then keep_fresh = 0 end  -- it need not be listed
  if c.verb == 't' and (all or c.cut or fresh) then
    write_states(KEYS[k], c.name, c.next, c.n, keep_fresh, c.old)
  end
end
)lua";

// As lua_receipts, which the full script has.
const std::string_view lua_light_receipts = R"lua(
if all then
  local receipts = {}
  for k = 1, #charges do
    local c, r = charges[k], {}
    for i = 1, c.verb == 't' and c.n or 0 do
      local s = c.next[i]
      r[i] = s[1] and S(s[1]) .. ':' .. S(s[2]) or '-'
    end
    receipts[k] = table.concat(r, ',')
  end
  out[#out + 1] = '@' .. table.concat(receipts, ';')
end
return table.concat(out, ' ')
)lua";

}  // namespace sluice::redis
