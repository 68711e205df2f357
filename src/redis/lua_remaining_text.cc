#include "redis/lua.h"

namespace sluice::redis {

// KEYS: the counter. ARGV: limit and seconds with a blank between; the cost, if it is not 1, so
// that the usual call has one argument: each costs Redis a fortieth of the call. Reply: `d`,
// allowed, remaining, ms to the end of the window (`n`: it has no end), ms to wait (`n`: no wait
// helps).
//
// The same behaviour as Divvy 1.7.1: the first hit writes the limit less one, with the window as
// expiry; each further hit takes one while one is left; a refusal changes nothing; the end of the
// window never moves.
const std::string_view lua_remaining_text = R"lua(
local key, call, format, cost = KEYS[1], redis.call, string.format, ARGV[2] or '1'
local value = call('GET', key)
if not value then
  local limit, seconds = string.match(ARGV[1], '^(%S+) (%S+)$')
  local left = limit - cost
  if left < 0 then return 'd 0 ' .. limit .. ' 0 n' end
  if cost == '0' then return 'd 1 ' .. limit .. ' 0 0' end
  call('SET', key, format('%.0f', left), 'EX', seconds)
  return 'd 1 ' .. format('%.0f', left) .. ' ' .. seconds .. '000 0'
end
local left, ms = tonumber(value), call('PTTL', key)
if not left then
  return {err = 'FOREIGN the value of ' .. key .. ' is not a number'}
end
-- The usual case: whole numbers that a double holds are written by %d in half the time of %.0f.
if left > 0 and left < 9007199254740992 and ms >= 0 and cost ~= '0' and left >= tonumber(cost) then
  return format('d 1 %d %d 0', call('DECRBY', key, cost), ms)
end
if ms < 0 then ms = 'n' end
if left >= tonumber(cost) and (left > 0 or cost == '0') then
  if cost ~= '0' then left = call('DECRBY', key, cost) end
  return 'd 1 ' .. format('%.0f', left) .. ' ' .. ms .. ' 0'
end
if left < 0 then left = 0 end
return 'd 0 ' .. format('%.0f', left) .. ' ' .. ms .. ' ' .. ms
)lua";

}  // namespace sluice::redis
