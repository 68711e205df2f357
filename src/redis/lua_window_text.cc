#include "redis/lua.h"

namespace sluice::redis {

// W: functions for counters that other programs share: a key for each window, with a decimal
// number. Numbers are texts here, because doubles cannot hold them: INCRBY adds, and two numbers
// are compared by their digits. Needs `call`, `sub` and `find`.
//
//   W.charge(A, at)  the charge in the arguments from `at` on: verb (redis/window_text.h,
//                    letter_of), units, the most units that the counter may hold so that the charge
//                    fits (`y`: any number, `n`: it never fits), the life of a new key in seconds
//   W.load(c, key)   reads the counter into c.value (false: there is none) and c.fits. Returns an
//                    error if the value is not a number.
//   W.write(...)     changes the counter; then c.value is the value before the charge, with an `s`
//                    before it if the charge was spared. Returns an error, if any.
const std::string_view lua_window_text = R"lua(
local W = {MAX = '9223372036854775807', MIN = '-9223372036854775808'}
function W.at_most(a, b)
  local m, n = sub(a, 1, 1) == '-', sub(b, 1, 1) == '-'
  if m ~= n then return m end
  if m then a, b = b, a end
  if #a ~= #b then return #a < #b end
  return a <= b
end
function W.charge(A, at)
  local verb = string.lower(A[at])
  return {name = 'window', verb = verb, reset_first = verb ~= A[at], units = A[at + 1],
          room = A[at + 2], life = A[at + 3]}
end
function W.load(c, key)
  local v = call('GET', key)
  if v and v ~= '0' and not (find(v, '^%-?[1-9]%d*$') and W.at_most(v, W.MAX) and W.at_most(W.MIN, v)) then
    return {err = 'FOREIGN the value of ' .. sub(key, 1, 200) .. ' is not a number'}
  end
  c.value = v and not c.reset_first and v
  c.forgets = v and c.reset_first
  c.fits = c.room == 'y' or c.room ~= 'n' and W.at_most(c.value or '0', c.room)
end
function W.write(c, key, all, sparing, looks)
  if c.forgets then call('DEL', key) end
  if c.verb == 'f' or c.verb == 'q' then c.value = call('GET', key) end
  if c.units == '0' and c.verb ~= 'a' then return end
  if c.verb == 'c' or c.verb == 'f' then
    if looks or sparing and not all and c.fits then
      c.value = 's' .. (c.value or 'x')
      return
    end
  elseif c.verb == 'p' or c.verb == 'q' or not all then
    return
  elseif c.verb == 'a' then
    if c.value then call('DEL', key) end
    return
  elseif c.verb == 'g' then
    if not c.value or W.at_most(c.value, '0') then return end
    call('DECRBY', key, W.at_most(c.value, c.units) and c.value or c.units)
    return
  end
  if not c.value then
    call('SET', key, c.units, 'EX', c.life)
    return
  end
  local sum = redis.pcall('INCRBY', key, c.units)
  if type(sum) == 'table' then
    if not find(sum.err, 'would overflow', 1, true) then return sum end
    call('SETRANGE', key, 0, W.MAX)
  end
  if call('TTL', key) == -1 then call('EXPIRE', key, c.life) end
end
)lua";

// KEYS: one for each charge. ARGV: whether the group must be refused in any case, and whether it is
// sparing (0: neither; 1: the first; s: the second; S: both; l: both, and nothing is charged), then
// the arguments of W.charge for each charge.
// Reply: allowed (0, 1), then c.value for each charge (`x`: there was none).
const std::string_view lua_settle_window_text = R"lua(
local looks, hold, sparing = ARGV[1] == 'l', find(ARGV[1], '[1Sl]'), find(ARGV[1], '[sSl]')
local all, charges = not hold, {}
for k = 1, #KEYS do
  local c = W.charge(ARGV, 4 * k - 2)
  local problem = W.load(c, KEYS[k])
  if problem then return problem end
  if not c.fits then all = false end
  charges[k] = c
end
local out = {all and '1' or '0'}
for k = 1, #KEYS do
  local problem = W.write(charges[k], KEYS[k], all, sparing, looks)
  if problem then return problem end
  out[k + 1] = charges[k].value or 'x'
end
return table.concat(out, ' ')
)lua";

}  // namespace sluice::redis
