#include "redis/lua.h"

namespace sluice::redis {

// KEYS: the counter. ARGV: cost, limit, seconds. Reply: `d`, allowed, remaining, ms to the end of
// the window (`n`: it has no end), ms to wait (`n`: no wait helps).
//
// The same behaviour as Divvy 1.7.1: the first hit writes the limit less one, with the window as
// expiry; each further hit takes one while one is left; a refusal changes nothing; the end of the
// window never moves.
const std::string_view lua_remaining_text = R"lua(
local key, call, cost = KEYS[1], redis.call, ARGV[1]
local value = call('GET', key)
if not value then
  local left = ARGV[2] - cost
  if left < 0 then return 'd 0 ' .. ARGV[2] .. ' 0 n' end
  if cost == '0' then return 'd 1 ' .. ARGV[2] .. ' 0 0' end
  call('SET', key, string.format('%.0f', left), 'EX', ARGV[3])
  return 'd 1 ' .. string.format('%.0f', left) .. ' ' .. ARGV[3] .. '000 0'
end
local left, ms = tonumber(value), call('PTTL', key)
if not left then
  return {err = 'FOREIGN the value of ' .. key .. ' is not a number'}
end
if ms < 0 then ms = 'n' end
if left >= tonumber(cost) and (left > 0 or cost == '0') then
  if cost ~= '0' then left = call('DECRBY', key, cost) end
  return 'd 1 ' .. string.format('%.0f', left) .. ' ' .. ms .. ' 0'
end
if left < 0 then left = 0 end
return 'd 0 ' .. string.format('%.0f', left) .. ' ' .. ms .. ' ' .. ms
)lua";

}  // namespace sluice::redis
