// src/limit in Lua, function by function; what each of them promises is said there.
#include "redis/lua.h"

namespace sluice::redis {

// When a window that opens now ends; what follows is lua_window.
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

const std::string_view lua_token_bucket = R"lua(
local function missing_of(s, q, w, b)
  if not s[2] or s[2] <= Z or now >= s[1] then return Z, false end
  local parts, cap = mul(s[1] - ONE - now, q) + s[2], capacity(q, w, b, now)
  if parts > cap then return cap, true end
  return parts, false
end
local function bucket_of(missing, q)
  if missing <= Z then return {}, Z end
  local us = div(missing - ONE, q)
  return {now + us + ONE, missing - mul(us, q)}, us + ONE
end
F.t = function(s, q, w, b, c)
  local missing, cut = missing_of(s, q, w, b)
  local left = div(capacity(q, w, b, now) - missing, w)
  if c <= left or c <= Z then
    local next, reset = bucket_of(missing + mul(c, w), q)
    return true, left - c, reset, Z, next, cut
  end
  local next, reset = bucket_of(missing, q)
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

const std::string_view lua_sliding_log = R"lua(
local function merge_pair(runs, w)
  local length, best, loss = div(w - ONE, N('31')) + ONE
  for i = #runs - 1, 3, -2 do  -- the older one
    if div(runs[i], length) == div(runs[i - 2], length) then
      local its = mul(runs[i - 2] - runs[i], runs[i + 1])
      if not best or its < loss then best = i loss = its end
    end
  end
  runs[best - 1] = runs[best - 1] + runs[best + 1]
  table.remove(runs, best)
  table.remove(runs, best)
end
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
    if c <= q then
      local free, i = left, #runs + 1
      while free < c do
        i = i - 2
        free = free + runs[i + 1]
      end
      retry = runs[i] - now
    end
  elseif c > Z then
    left = left - c
    if runs[1] and runs[1] == latest then
      runs[2] = runs[2] + c
    else
      table.insert(runs, 1, c)
      table.insert(runs, 1, latest)
      if #runs > 64 then merge_pair(runs, w) end
    end
  end
  return ok, left, runs[1] and runs[1] - now or Z, retry, runs, cut
end
)lua";

// Its mark is never looked at: all that is there is what is missing.
const std::string_view lua_fixed_bucket = R"lua(
F.b = function(s, q, w, b, c)
  local missing, cut = s[2] or Z, false
  if missing > b then missing = b cut = true end
  local left = b - missing
  local ok = c <= left
  local retry = NEVER
  if ok then missing = missing + c left = left - c retry = Z end
  if missing > Z then return ok, left, NEVER, retry, {Z, missing}, cut end
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
  return (bucket_of(missing - back, q))
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
P.b = function(s, units, q, w, b)
  local missing = least(s[2] or Z, b) - units
  if missing > Z then return {Z, missing} end
  return {}
end
)lua";

const std::string_view lua_carry_over = R"lua(
local function parts_of(alg, s, q, w, b)
  if alg == 'b' then return b, least(s[2] or Z, b), ONE end
  return capacity(q, w, b, now), missing_of(s, q, w, b), w
end
-- `from` and `to` are lists of algorithm, quota, window, burst.
local function carry_over(s, from, to, carry)
  local f, t = from[1], to[1]
  if (f == 't' or f == 'b') and (t == 't' or t == 'b') then
    local was_cap, was_missing, was_unit = parts_of(f, s, from[2], from[3], from[4])
    local cap, _, unit = parts_of(t, {}, to[2], to[3], to[4])
    local kept = was_missing
    if carry == 'l' then kept = was_cap - was_missing end
    local fraction = mul(mod(kept, was_unit), unit)
    local down = mul(div(kept, was_unit), unit) + div(fraction, was_unit)
    local missing
    if carry == 'l' then
      missing = cap - least(down, cap)
    else
      if mod(fraction, was_unit) > Z then down = down + ONE end
      missing = least(down, cap)
    end
    if t == 'b' then
      if missing > Z then return {Z, missing} end
      return {}
    end
    return (bucket_of(missing, to[2]))
  end
  if f ~= t or not P[t] then return {} end
  if t ~= 'f' and from[3] ~= to[3] then return {} end
  if t == 'l' and least(from[2], N('32')) ~= least(to[2], N('32')) then return {} end
  local _, _, _, _, kept = F[f](s, from[2], from[3], from[4], Z)
  local _, _, _, _, next = F[t](kept, to[2], to[3], to[4], Z)
  return next
end
)lua";

}  // namespace sluice::redis
