// The functions of src/limit in Lua; their guarantees are documented there.
#include "redis/lua.h"

namespace sluice::redis {

// The end of a window that opens now. lua_window is the rest of both functions.
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

// A bucket in debt has four numbers: the third is the time of the state (limit/debt.h), the fourth
// is not used.
const std::string_view lua_token_bucket = R"lua(
-- The missing parts, and whether the state must be written again.
local function missing_of(s, q, w, b)
  if not s[2] or s[2] <= Z or now >= s[1] then return Z, s[3] end
  if s[3] then
    local at = s[3]
    if at < now then at = now end
    return bounded(mul(s[1] - ONE - at, q) + s[2], q, w, at), true
  end
  local parts, cap = mul(s[1] - ONE - now, q) + s[2], capacity(q, w, b, now)
  if parts > cap then return cap, true end
  return parts, false
end
local function bucket_of(missing, q, cap)
  if missing <= Z then return {}, Z end
  local us = div(missing - ONE, q)
  local mark, units = now + us + ONE, missing - mul(us, q)
  if cap and missing > cap then return {mark, units, now, Z}, us + ONE end
  return {mark, units}, us + ONE
end
-- Whole units that are left; below 0 in debt.
local function left_in(cap, missing, w)
  if missing > cap then return -cdiv(missing - cap, w) end
  return div(cap - missing, w)
end
F.t = function(s, q, w, b, c)
  local missing, cut = missing_of(s, q, w, b)
  local cap = capacity(q, w, b, now)
  local left = missing > cap and left_in(cap, missing, w) or div(cap - missing, w)
  if c <= left then
    local next, reset = bucket_of(missing + mul(c, w), q)
    return true, left - c, reset, Z, next, cut
  end
  local next, reset = bucket_of(missing, q, cap)
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

// The units of its state are those that are taken; the mark is not used.
const std::string_view lua_fixed_bucket = R"lua(
F.b = function(s, q, w, b, c)
  local missing = s[2] or Z
  local left = b - missing
  local ok = c <= left
  local retry = NEVER
  if ok then missing = missing + c left = left - c retry = Z end
  if missing > Z then return ok, left, NEVER, retry, {Z, missing}, false end
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
  return (bucket_of(missing - back, q, capacity(q, w, b, now)))
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
  local missing = (s[2] or Z) - units
  if missing > Z then return {Z, missing} end
  return {}
end
)lua";

const std::string_view lua_carry_over = R"lua(
local function parts_of(alg, s, q, w, b)
  if alg == 'b' then return b, s[2] or Z, ONE end
  return capacity(q, w, b, now), missing_of(s, q, w, b), w
end
-- Keeps the newest `most` runs; the units of older ones are added to the last of these.
local function keep_runs(s, most)
  local next = {}
  for i = 1, #s do
    if i <= 2 * most then next[i] = s[i]
    elseif i % 2 == 0 then next[2 * most] = next[2 * most] + s[i] end
  end
  return next
end
local function log_cells(l) return tonumber(S(least(l[2], N('32')))) end
-- `from` and `to` are limits: lists of algorithm, quota, window, burst. The runs of a counter in debt
-- that has more than its cells stay apart.
local function carry_over(s, from, to, carry)
  local f, t = from[1], to[1]
  if f == 'b' and t == 'b' and carry ~= 'l' then return s end
  if (f == 't' or f == 'b') and (t == 't' or t == 'b') then
    local was_cap, was_missing, was_unit = parts_of(f, s, from[2], from[3], from[4])
    local cap, _, unit = parts_of(t, {}, to[2], to[3], to[4])
    local function down(parts)
      local fraction = mul(mod(parts, was_unit), unit)
      return mul(div(parts, was_unit), unit) + div(fraction, was_unit), mod(fraction, was_unit)
    end
    local function up(parts)
      local kept, rest = down(parts)
      if rest > Z then kept = kept + ONE end
      return kept
    end
    -- Debt is not forgiven.
    local owed, missing = Z, nil
    if was_missing > was_cap then owed = up(was_missing - was_cap) end
    if carry ~= 'l' then
      missing = least(up(was_missing), cap + owed)
    elseif owed > Z then
      missing = cap + owed
    else
      missing = cap - least(down(was_cap - was_missing), cap)
    end
    if t == 'b' then
      if missing > Z then return {Z, least(missing, FULL)} end
      return {}
    end
    return (bucket_of(bounded(missing, to[2], to[3], now), to[2], cap))
  end
  if f ~= t or not P[t] then return {} end
  if t ~= 'f' and from[3] ~= to[3] then return {} end
  local _, _, _, _, kept = F[f](s, from[2], from[3], from[4], Z)
  if t == 'l' and #kept <= 2 * log_cells(from) then kept = keep_runs(kept, log_cells(to)) end
  local _, _, _, _, next = F[t](kept, to[2], to[3], to[4], Z)
  return next
end
)lua";

// limit/carry_list.cc in Lua, step by step. A source is a limit `l` (algorithm, quota, window,
// burst) with its state `s`.
const std::string_view lua_carry_list = R"lua(
local function same_kind(a, b) return a[1] == b[1] and a[3] == b[3] end
local function is_fresh(one)
  local s = one.s
  if not s[1] or s[2] <= Z then return true end
  return one.l[1] ~= 'b' and s[1] <= now
end
local function is_stricter(a, b)
  local mark, its = a[1] or Z, b[1] or Z
  if mark ~= its then return mark > its end
  return (a[2] or Z) > (b[2] or Z)
end
local function cells_of(l)
  if l[1] == 's' then return 2 end
  if l[1] == 'l' then return log_cells(l) end
  if l[1] == 'u' or l[1] == 'd' then return 0 end
  return 1
end
-- The cells that a counter has for its limits in force. Where runs of logs in debt have no room, the
-- oldest are one (limit/opened.h).
local function close(limits, states)
  local count = 0
  for i, l in ipairs(limits) do
    count = count + cells_of(l)
    if l[1] == 't' and states[i] and states[i][3] then count = count + 1 end
  end
  for i, l in ipairs(limits) do
    local cells, s = cells_of(l), states[i]
    if l[1] == 'l' and s and #s > 2 * cells then
      local kept = math.min(#s / 2 - cells, math.max(71 - count, 0))
      states[i] = keep_runs(s, cells + kept)
      if kept > 0 then count = count + 1 + kept end
    end
  end
  return count
end
-- The cells of a limit that is left out, and the cells of its head.
local function left_cells_of(one)
  local l, cells = one.l, cells_of(one.l)
  if l[1] == 'l' then cells = #one.s / 2 end
  if l[1] == 't' and one.s[3] then cells = 2 end
  return cells, l[1] == 't' and l[4] ~= l[2] and 2 or 1
end
-- Those limits left out for which there is room behind `count` cells.
local function keep_left(all, count)
  local kept = {}
  for _, one in ipairs(all) do
    local s, cells, head = one.s, left_cells_of(one)
    if one.l[1] == 'l' and count + head + cells > 64 then
      cells = math.max(64 - count - head, 0)
      s = cells > 0 and keep_runs(s, cells)
    end
    if cells > 0 and count + head + cells <= 64 then
      count = count + head + cells
      kept[#kept + 1] = {l = one.l, s = s}
    end
  end
  return kept
end
local function first(all, fits)
  for _, one in ipairs(all) do
    if fits(one) then return one end
  end
end
)lua"
                                        R"lua(
-- `was`: the limits that were in force; `left`: those that were left out and are not fresh. Returns
-- a state for each limit of `to`, and the limits that are left out from now on.
local function carry_list(was, left, to, carry)
  local same, back, lends, memory, next, tail = {}, {}, {}, {}, {}, {}
  for i, l in ipairs(to) do
    same[i] = first(was, function(one) return not one.paired and same_kind(one.l, l) end)
    if same[i] then same[i].paired = true end
  end
  for i, l in ipairs(to) do
    if not same[i] then
      back[i] = first(left, function(one) return not one.paired and same_kind(one.l, l) end)
      if back[i] then back[i].paired = true end
    end
  end
  local function changes(i)
    if not same[i] then return true end
    local a, b = same[i].l, to[i]
    return a[2] ~= b[2] or a[4] ~= b[4]
  end
  for _, one in ipairs(left) do
    if not one.paired then
      for i, l in ipairs(to) do
        if changes(i) and same_kind(one.l, l) then one.lent = true end
      end
    end
  end
  for i, l in ipairs(to) do
    if not same[i] then
      lends[i] = first(was, function(one)
        return not one.paired and not one.lent and one.l[1] == l[1]
      end)
      if lends[i] then lends[i].lent = true end
    end
  end
  for i = 1, math.min(#to, #was) do
    local one = was[i]
    if not same[i] and not lends[i] and not one.paired and not one.lent then
      lends[i] = one
      one.lent = true
    end
  end
  for _, one in ipairs(left) do one.paired = one.paired or one.lent end
)lua"
                                        R"lua(
  for i, l in ipairs(to) do
    local sources = {same[i]}
    if back[i] then sources[#sources + 1] = back[i] end
    if changes(i) then
      for _, one in ipairs(left) do
        if one.lent and same_kind(one.l, l) then sources[#sources + 1] = one end
      end
    end
    local state
    local function go_on_with(one)
      if not state then
        state = carry_over(one.s, one.l, l, carry)
      elseif l[1] == 't' or l[1] == 'b' then
        local as = carry_over(one.s, one.l, l, carry)
        if is_stricter(as, state) then state = as end
      end
    end
    if cells_of(l) == 0 then
      state = {}
    elseif l[1] == 't' and carry ~= 'l' and changes(i) then
      local large, all = {l[1], l[2], l[3], l[4]}, nil
      for _, one in ipairs(sources) do
        if one.l[4] > large[4] then large[4] = one.l[4] end
      end
      for _, one in ipairs(sources) do
        local as = carry_over(one.s, one.l, large, carry)
        if not all or is_stricter(as, all) then all = as end
      end
      if all then
        state = carry_over(all, large, l, carry)
        if is_stricter(all, state) then
          memory[#memory + 1] = {l = large, s = all}
        end
      end
    else
      for _, one in ipairs(sources) do go_on_with(one) end
    end
    if lends[i] and cells_of(l) > 0 then go_on_with(lends[i]) end
    next[i] = state or {}
  end
  for _, one in ipairs(memory) do tail[#tail + 1] = one end
  for _, one in ipairs(left) do
    if not one.paired then tail[#tail + 1] = one end
  end
  for _, logs in ipairs({false, true}) do
    for _, one in ipairs(was) do
      if (one.l[1] == 'l') == logs and not one.paired and not is_fresh(one) and
         not (carry == 'l' and one.lent) and
         not first(left, function(o) return not o.paired and same_kind(o.l, one.l) end) then
        tail[#tail + 1] = one
      end
    end
  end
  return next, keep_left(tail, close(to, next))
end
)lua";

}  // namespace sluice::redis
