// Loads the counters of a group, decides its charges, and writes all of them or none.
//
//   KEYS   one for each charge; behind them the key of an id, if there is one
//   ARGV   whether the group must be refused in any case, and whether it is sparing (0: neither;
//          1: the first; s: the second; S: both; l: both, and no charge that counts is taken); an R
//          after that: the reply must have receipts; an I: it has an id. With an id its content and
//          the ms for which it is remembered. Then for each charge:
//            verb      t: take; x: charge; c: count, then for each limit 1 if it counts, else 0;
//                      f: the same, after an earlier charge on the same counter; if a limit has an
//                      overdraft, x, c and f have then for each limit a comma and its units, or
//                      nothing if it has none; g: put; a: put
//                      all; p: peek; a capital letter: the counter becomes fresh first; q: probe, a
//                      take that is not written; qq: a probe after another one (Divvy's counters),
//                      and so on; r: take from a counter that keeps its limits, with each balance
//                      filled first; i: peek whatever limits it was written under: the only limit's
//                      reset_after is when the counter is as fresh, or never
//            cost      units; if limits differ in it, those for each limit, with commas between
//            ahead     units that waiters before it claim; 0 in the light script
//            keep_fresh  ms to keep the counter after it equals a fresh one
//            name      of the limits, with which a value begins: `s1;` and, for each limit, letter,
//                      quota, window, burst; `s1;k` if the counter keeps its limits; `remaining`
//                      or `tat` if other programs share the counter
//            carry     u, l or a (limit::CarryOver::used, left, apart), and the bytes of its key
//            before
//                      the counter's name; or the list of windows
//            count     the number of limits that follow
//          If the name is `window`, the arguments of W.charge stand in place of the first four, and
//          the last two are empty. Then for each limit:
//            letter, quota, window, burst; for gcra_* those of this request (the name has 1,1,1);
//            for a window of the calendar its code in place of the window, and in place of the
//            burst boundaries (lua_calendar_window; the name has 0)
//   value  name, blank, and a state for each limit, separated by semicolons: `-` if it is fresh,
//          else marks and units.
//          After the limits in force the name may have `|` and the limits that are left out; their
//          states follow in the same way (limit/left_out.h).
//   reply  allowed (0, 1), then for each charge, if it is x, the units that were dropped, and for
//          each limit: allowed, remaining, reset_after, retry_after (`n`: never). If
//          limits are kept: mask, then for each window allowed, limit and so on. For `window`: the
//          value before (`x`: there was none; with an `s` before it: it was spared).
//          With R ` @` follows and a receipt for each charge, separated by `;`. It is empty if
//          nothing was taken, else it has for each limit, separated by `,`, the mark and the units
//          that were written, and behind them those that were taken if a limit has an overdraft, or
//          `-`; for `remaining` the time in ms at which its window ends; for `window` 1.
//          With an id that is remembered: `~r` and the first reply without receipts, or `~x`: it
//          was used with another content. Then nothing was done.
//          `~c`: the counter was written under other limits; `~w`: the numbers are too large. Then
//          nothing was done, and the other script must be called.
#include "redis/lua.h"

namespace sluice::redis {

const std::string_view lua_costs = R"lua(
local function costs_of(text)
  local most, costs = Z, {}
  for one in gmatch(text, '[^,]+') do
    costs[#costs + 1] = N(one)
    if costs[#costs] > most then most = costs[#costs] end
  end
  return most, costs
end
)lua";

const std::string_view lua_states = R"lua(
local call, sub, find, match, gmatch = redis.call, string.sub, string.find, string.match, string.gmatch
local CENTURY = 3162240000000
-- The states in the text after a value's name; nil: it does not consist of states.
local function read_states(text)
  local m, u = match(text, '^(%d+) (%d+)$')
  if u then return {{N(m), N(u)}} end  -- the usual case
  if find(text, '[^%d ;-]') then return nil end
  local states = {}
  for one in gmatch(text, '[^;]+') do
    local s = {}
    if one ~= '-' then
      for x in gmatch(one, '%S+') do
        local n = N(x)
        if not n then return nil end
        s[#s + 1] = n
      end
      if #s == 0 or #s % 2 ~= 0 then return nil end
    end
    states[#states + 1] = s
  end
  return states
end
-- Writes the states, with an expiry `keep_fresh` ms after they equal fresh ones. `old`: the old
-- value; `tail`: the limits that are left out.
local function write_states(key, name, states, count, keep_fresh, old, tail)
  local value, ttl = nil, 0
  if tail and #tail > 0 then
    local all = {}
    for i = 1, count do all[i] = states[i] end
    name = name .. '|'
    for _, one in ipairs(tail) do
      local l = one.l
      name = name .. ';' .. l[1] .. S(l[2]) .. ',' .. S(l[3]) .. ',' .. S(l[4])
      count = count + 1
      all[count] = one.s
    end
    states = all
  end
  for i = 1, count do
    local s, text = states[i], '-'
    if s[1] then
      if s[3] then
        local t = {}
        for j = 1, #s do t[j] = S(s[j]) end
        text = table.concat(t, ' ')
      else
        text = S(s[1]) .. ' ' .. S(s[2])
      end
      -- Only a fixed bucket does not become fresh by time.
      local ms = CENTURY
      if s[1] > now then ms = tonumber(S(cdiv(s[1] - now, N('1000')))) + SPARE
      elseif s[1] > Z then ms = SPARE end
      if ms > ttl then ttl = ms end
    end
    value = value and value .. ';' .. text or text
  end
  ttl = ttl + keep_fresh
  if ttl > 0 then
    call('SET', key, name .. ' ' .. value, 'PX', format('%d', ttl))
  elseif old then
    call('DEL', key)
  end
end
)lua";

const std::string_view lua_counters = R"lua(
local A = ARGV
local function foreign(key)
  return {err = 'FOREIGN the value of ' .. sub(key, 1, 200) .. ' is not a counter of this server\'s'}
end
-- Reads a value: the name under which it was written, its states, and its limits at that time, those
-- in force and those left out. nil: it is not a counter.
local function read(v)
  local name, rest = match(v, '^(s1;%S+) (.*)$')
  local states, limits = name and read_states(rest), {}
  if not states then return nil end
  local own = match(name, '^([^|]*)|')
  for letter, q, w, b in gmatch(name, ';([fatslbpudchgm])(%d+),(%d+),(%d+)') do
    limits[#limits + 1] = {letter, N(q), N(w), N(b)}
    local s = states[#limits]
    local four = s and #s == 4
    if s and s[1] and not has_runs(letter) and letter ~= 't' and (letter == 's') ~= four then return nil end
    if letter == 't' and s and s[3] and not four then return nil end
    if s and #s > 64 then return nil end
  end
  if #states ~= #limits then return nil end
  local was, left = {}, {}
  local at = own and 0 or #limits
  if own then
    for _ in gmatch(own, ';[fatslbpudchgm]%d+,%d+,%d+') do at = at + 1 end
  end
  for i = 1, #limits do
    local one = {l = limits[i], s = states[i]}
    if i <= at then was[i] = one else left[#left + 1] = one end
  end
  return own or name, was, left
end
-- Until when a counter differs from a fresh one, with its limits that are left out.
local function life_of(was, waits)
  local life = Z
  for _, all in ipairs({was, waits}) do
    for _, one in ipairs(all) do
      local l = one.l
      if counted(l) and not is_fresh(one) then
        local _, left, reset = look(one.s, l)
        if l[1] == 'b' then reset = left < most_of(l) and NEVER or Z end
        if reset > life then life = reset end
      end
    end
  end
  return life
end
-- The ms for which the counter is kept after it equals a fresh one (store/pending_charge.h,
-- drops_fresh), and whether it equals one now.
local function keep_fresh_of(c)
  for i = 1, #c.limits do
    if c.next[i][1] then return c.keep_fresh, false end
  end
  local whole, refills = c.verb == 'g', false
  for _, l in ipairs(c.limits) do
    if c.cost < most_of(l) then whole = false end
    if l[1] ~= 'b' then refills = true end
  end
  if c.verb == 'a' or c.reset_first or whole or not refills then return 0, true end
  return c.keep_fresh, true
end

)lua";

const std::string_view lua_settle_full = R"lua(
-- Are the charge's next states the same tables that were read?
local function is_as_read(c)
  if not c.read or #c.tail > 0 then return false end
  for i = 1, #c.limits do
    if not rawequal(c.next[i], c.read[i]) then return false end
  end
  return true
end

-- A counter stored as what is left; lua_remaining_text says how.
local function take_remaining(c, hold)
  local l, cost = c.limits[1], c.cost
  local left, reset, ok, retry = c.left or l[2], Z, true, Z
  c.elsewhere = true
  for _ = 1, hold and 0 or c.before do
    if cost > Z and cost <= left then
      left = left - cost
      if not c.left then c.ms = tonumber(S(div(l[3], N('1000')))) end
      c.left = left
    end
  end
  c.before = 0
  if c.ms then
    if c.ms < 0 then reset = NEVER else reset = mul(N(format('%.0f', c.ms)), N('1000')) end
  end
  if c.verb == 't' or c.verb == 'c' or c.verb == 'x' then
    local took = cost
    ok = cost <= left and (left > Z or cost <= Z)
    c.counts = not ok and cost > Z and is_over(c, 1) or c.verb == 'x'
    if c.counts then
      took = least(cost, FULL - (l[2] - left))
      if took < Z then took = Z end
      ok, c.dropped = c.verb == 'x', cost - took
    end
    if (ok and not hold or c.counts) and took > Z then
      left = left - took
      if not c.left then reset = l[3] end
    end
    if not ok or c.counts and left < ONE then
      retry = reset
      if not c.left and not c.counts or c.verb == 'c' and cost > l[2] then retry = NEVER end
    end
  elseif c.verb ~= 'p' and c.left then
    left = left + cost
    if c.verb == 'a' or left >= l[2] then left = l[2] reset = Z end
  end
  c.after = left
  if left < Z and not c.counts then left = Z end
  c.said = {{ok, left, reset, retry}}
  return ok
end
local function write_remaining(c, key)
  local l = c.limits[1]
  if c.verb == 'g' or c.verb == 'a' then
    if c.left then
      if c.after >= l[2] then call('DEL', key) else call('INCRBY', key, S(c.after - c.left)) end
    end
  elseif c.left then
    if c.after < c.left then call('DECRBY', key, S(c.left - c.after)) end
  elseif c.after < l[2] then
    call('SET', key, S(c.after), 'PX', S(div(l[3], N('1000'))))
  elseif c.reset_first and c.old then
    call('DEL', key)
  end
end

local looks, hold, sparing = A[1] == 'l', find(A[1], '[1Sl]'), find(A[1], '[sSl]')
local at, charges, count = 2, {}, #KEYS
local all = not hold
local id = find(A[1], 'I') and KEYS[count]
if id then
  local v = call('GET', id)
  if v and sub(v, 1, #A[2] + 1) == A[2] .. ' ' then return '~r ' .. sub(v, #A[2] + 2) end
  if v then return '~x' end
  at, count = 4, count - 1
end
for k = 1, count do
if A[at + 4] == 'window' then
  local c = W.charge(A, at)
  local problem = W.load(c, KEYS[k])
  if problem then return problem end
  if not c.fits then all = false end
  c.limits, c.said = {}, {}
  at = at + 7
  charges[k] = c
else
  local verb, cost, costs, ahead, n = A[at], nil, nil, N(A[at + 2]), tonumber(A[at + 6])
  if find(A[at + 1], ',', 1, true) then
    cost, costs = costs_of(A[at + 1])
  else
    cost = N(A[at + 1])
  end
  local c = {verb = string.lower(sub(verb, 1, 1)), cost = cost, costs = costs, ahead = ahead,
             keep_fresh = tonumber(A[at + 3]), name = A[at + 4], carry = A[at + 5], limits = {}, states = {}, next = {}, said = {},
             before = 0, tail = {}}
  c.reset_first = c.verb ~= sub(verb, 1, 1)
  if c.verb == 'q' then
    c.verb, c.dry, c.before = 't', true, #verb - 1
  elseif verb == 'r' then
    c.verb, c.refill = 't', true
  elseif verb == 'i' then
    c.verb, c.as_written = 'p', true
  elseif c.verb == 'f' then
    c.verb, c.follows = 'c', true
  end
  if c.name ~= 's1;k' then
    c.head, c.carry = tonumber(sub(c.carry, 2)), sub(c.carry, 1, 1)
  end
  local letters = 1
  if c.verb == 'c' then
    letters = 1 + n
    c.over = sub(verb, 2, letters)
  elseif c.verb == 'x' then
    c.dropped = Z
  end
  if #verb > letters and (c.over or c.dropped) then
    c.most_debt, c.took = overdrafts_of(sub(verb, letters + 1)), {}
  end
  at = at + 7
  for i = 1, n do
    c.limits[i] = {A[at], N(A[at + 1]), N(A[at + 2]), A[at] == 'm' and calendar_of(A[at + 3]) or N(A[at + 3])}
    at = at + 4
  end
  local v = call('GET', KEYS[k])
  c.old = v
  if c.name == 's1;k' then
    if v then
      c.balances = read_kept(v)
      if not c.balances then return foreign(KEYS[k]) end
      if c.reset_first then c.balances = nil end
    end
    if not take_kept(c, false) then all = false end
  elseif c.name == 'remaining' then
    if v and not match(v, '^%-?%d+$') then return foreign(KEYS[k]) end
    if c.reset_first then v = nil end
    c.left = v and N(v)
    c.ms = v and call('PTTL', KEYS[k])
    if not take_remaining(c, false) then all = false end
  else
    if v and c.name == 'tat' then
      local problem = load_tat(c, v, KEYS[k])
      if problem then return problem end
    elseif v then
      local name, was, left = read(v)
      if not name then return foreign(KEYS[k]) end
      local waits = {}
      for _, one in ipairs(left) do
        if not is_fresh(one) then waits[#waits + 1] = one end
      end
      if c.as_written then
        c.life = life_of(was, waits)
      elseif c.reset_first then
        c.changed = true
      elseif name == c.name then
        for i = 1, n do c.states[i] = was[i].s end
        c.read, c.tail = c.states, waits
      else
        c.changed, c.carried = true, true
        -- A counter that equals a fresh one counts as missing.
        local live = c.keep_fresh > 0 or #waits > 0
        for _, one in ipairs(was) do
          if one.s[1] and (one.s[1] > now or one.l[1] == 'b') then live = true end
        end
        if live then c.states, c.tail = carry_list(was, waits, c.limits, c.carry) end
      end
    end
)lua"
                                         R"lua(
    local behind = false
    if c.verb == 't' and (costs or cost > Z) and ahead > Z then
      for i = 1, n do
        local l, s = c.limits[i], c.states[i] or {}
        if costs then cost = costs[i] end
        local ok, left, reset, retry = look(s, l)
        if counted(l) and cost > Z then ok = ahead + cost <= left end
        if not ok then
          behind = true
          retry = NEVER
          if cost <= most_of(l) then retry = wait_behind(s, l, ahead + cost) end
        end
        c.said[i] = {ok, left, reset, retry}
        c.next[i] = s
      end
      if behind then all = false end
    end
    local granted = not behind
    if not behind then
      for i = 1, n do
        local l, s = c.limits[i], c.states[i] or {}
        local ok, left, reset, retry, next, cut
        if costs then cost = costs[i] end
        if c.as_written then
          ok, left, reset, retry, next = true, ONE, c.life or Z, Z, s
        elseif c.verb == 'p' then
          ok, left, reset, retry = look(s, l)
          next = s
        elseif c.verb == 't' then
          ok, left, reset, retry, next, cut = F[l[1]](s, l[2], l[3], l[4], cost)
          cut = cut or #next ~= #s
        elseif c.verb == 'c' then
          local took
          ok, left, reset, retry, next, cut, took =
            count_behind(s, l, cost, ahead, is_over(c, i), c.most_debt and c.most_debt[i])
          if c.took then c.took[i] = took end
        elseif c.verb == 'x' then
          local took
          ok, left, reset, retry, next, took =
            charge_behind(s, l, cost, ahead, c.most_debt and c.most_debt[i])
          if c.took then c.took[i] = took end
          if counted(l) and cost - took > c.dropped then c.dropped = cost - took end
        else
          next = {}
          if c.verb == 'g' and P[l[1]] then next = P[l[1]](s, cost, l[2], l[3], l[4]) end
          ok, left, reset, retry, next = F[l[1]](next, l[2], l[3], l[4], Z)
          if l[1] ~= 'd' then ok = true retry = Z end
        end
        if not ok then all = false granted = false end
        if cut then c.changed = true end
        c.said[i] = {ok, left, reset, retry}
        c.next[i] = next
      end
    end
    c.counts = c.verb == 'c' or c.verb == 'x'
    if #c.tail > 0 and (granted and c.verb == 't' or c.verb == 'g' or c.counts) then
      c.tail_then = change_tail(c.tail, c.limits, c.cost, c.verb ~= 'g' and function(i)
        return granted or is_over(c, i)
      end, c.took or costs, c.carry)
    end
    if ahead > Z and c.verb ~= 'g' and c.verb ~= 'a' then
      for i = 1, n do
        if counted(c.limits[i]) then c.said[i][2] = left_behind(c.said[i][2], ahead) end
      end
    end
  end
  charges[k] = c
end
end
)lua"
                                         R"lua(
local out = {all and '1' or '0'}
for k = 1, #charges do
  local c = charges[k]
  if c.name == 's1;k' then
    if not all then take_kept(c, true) end
    out[#out + 1] = format('%d', c.mask)
  end
  if c.name == 'remaining' and not all and not c.counts then take_remaining(c, true) end
  if c.name == 'window' then
    out[#out + 1] = c.value or 'x'
    c.out = #out
  end
  local spared = c.verb == 'c' and sparing and not all and (looks or allows(c))
  if c.verb == 'c' and not all and c.limits[1] then deny_count(c, spared) end
  if c.follows then
    local e = k - 1
    while KEYS[e] ~= KEYS[k] do e = e - 1 end
    follow(c, charges[e], not spared)
  end
  if c.verb == 'x' then out[#out + 1] = S(c.dropped or Z) end
  for i = 1, #c.said do
    local d = c.said[i]
    if not all and d[1] and c.limits[i] and not c.elsewhere and c.verb ~= 'c' and c.verb ~= 'x' then
      local l, s = c.limits[i], c.states[i] or {}
      local ok, left, reset, retry, next, cut = F[l[1]](s, l[2], l[3], l[4], Z)
      if counted(l) then left = left_behind(left, c.ahead) end
      d = {ok, left, reset, retry, d[5]}
      c.next[i] = next
      if cut or #next ~= #s then c.changed = true end
    end
    out[#out + 1] = d[1] and '1' or '0'
    if d[5] then out[#out + 1] = S(d[5]) end
    out[#out + 1] = S(d[2])
    out[#out + 1] = S(d[3])
    out[#out + 1] = S(d[4])
  end
end
if esc then return esc end
for k = 1, #charges do
  local c = charges[k]
  if c.old and (c.verb == 'g' or c.verb == 'a' or c.reset_first or c.carried) then note_given(KEYS[k], c.head) end
end
for k = 1, #charges do
  local c = charges[k]
  if c.name == 'window' then
    local problem = W.write(c, KEYS[k], all, sparing, looks)
    if problem then return problem end
    out[c.out] = c.value or 'x'
  elseif c.verb == 'p' or c.dry or c.passed_on then
    -- Nothing changes, so nothing is written.
  elseif c.name == 's1;k' and c.verb == 'a' then
    if c.old then call('DEL', KEYS[k]) end
  elseif c.name == 's1;k' then
    local value, ttl = write_kept(c)
    call('SET', KEYS[k], value, 'PX', format('%.0f', ttl + c.keep_fresh))
  elseif c.name == 'remaining' then
    if all or c.counts then write_remaining(c, KEYS[k])
    elseif c.reset_first and c.old then call('DEL', KEYS[k]) end
  else
    if all and c.verb == 'a' then c.tail = {} end
    local keep_fresh, fresh = keep_fresh_of(c)
    if c.name == 'tat' then
      if (all or c.changed) and not is_as_read(c) then write_tat(KEYS[k], c.next[1], c.read and c.read[1]) end
    elseif (all or c.changed or c.counts) and not is_as_read(c) or fresh and c.keep_fresh > 0 then
      local cells = close(c.limits, c.next)
      write_states(KEYS[k], c.name, c.next, #c.limits, keep_fresh, c.old,
                   keep_left((all or c.counts) and c.tail_then or c.tail, cells))
      if c.old and (c.verb == 'g' or c.verb == 'a' or c.reset_first or c.carried) then
        note_given(KEYS[k], c.head, {units = all and c.verb == 'g' and c.cost, puts = all and c.verb == 'g',
                                     resets = c.verb == 'a' or c.reset_first, lists = c.carried})
      end
    end
  end
end
if id then call('SET', id, A[2] .. ' ' .. table.concat(out, ' '), 'PX', A[3]) end
if find(A[1], 'R') then out[#out + 1] = '@' .. receipts_of(charges, all) end
return table.concat(out, ' ')
)lua";

const std::string_view lua_kept_limits = R"lua(
local DEBT = div(END, ONE + ONE) + ONE
-- Balances by window: time, limit, units, parts.
local function read_kept(v)
  local mask, rest = string.match(v, '^s1;k (%d+)(.*)$')
  if not mask then return nil end
  local all, numbers = {}, {}
  for x in string.gmatch(rest, '%S+') do
    numbers[#numbers + 1] = N(x)
    if not numbers[#numbers] then return nil end
  end
  mask = tonumber(mask)
  local j = 0
  for i = 1, 8 do
    if floor(mask / 2 ^ (i - 1)) % 2 == 1 then
      if not numbers[j + 4] then return nil end
      all[i] = {numbers[j + 1], numbers[j + 2], numbers[j + 3], numbers[j + 4]}
      j = j + 4
    end
  end
  if mask >= 256 or #numbers ~= j then return nil end
  return all
end
-- Advances a balance to `now`.
local function advance(b, w)
  if now > b[1] and b[3] < b[2] then
    local lacking, full, units, parts = b[2] - b[3], false, Z, Z
    -- The time suffices to fill it, so the product, which may be too large, is not needed.
    local to_full = cdiv(mul(lacking, w) - b[4], b[2])
    if now - b[1] >= to_full then
      full = true
    else
      local gained = mul(now - b[1], b[2]) + b[4]
      units = div(gained, w)
      parts = gained - mul(units, w)
    end
    if full then b[3] = b[2] b[4] = Z else b[3] = b[3] + units b[4] = parts end
  end
  b[1] = now
end
local function take_units(b, cost)
  local units = keep(b[3] - cost)
  if units < -DEBT then b[3] = -DEBT b[4] = Z
  elseif units >= b[2] then b[3] = b[2] b[4] = Z
  else b[3] = units end
end
local function until_(b, units, w)
  if b[3] >= units then return Z end
  local us = cdiv(mul(units - b[3], w) - b[4], b[2])
  if us > END - now then return NEVER end
  return us
end
-- Decides a charge on a counter that keeps its limits: the balances after it, and the answers.
)lua"
                                         R"lua(
local function take_kept(c, hold)
  local windows, balances = {}, {}
  for x in string.gmatch(c.carry, '%d+') do windows[#windows + 1] = N(x) end
  for i, b in pairs(c.balances or {}) do
    balances[i] = {b[1], b[2], b[3], b[4]}
    advance(balances[i], windows[i])
    if c.refill then balances[i][3] = balances[i][2] balances[i][4] = Z end
  end
  local asked, mask, ok, said = {}, 0, true, {}
  c.elsewhere = true
  if c.verb == 'p' or c.verb == 'a' then
    for i = 1, #windows do
      local b = balances[i]
      if b then
        mask = mask + 2 ^ (i - 1)
        said[#said + 1] = {true, b[3], until_(b, b[2], windows[i]), Z, b[2]}
      end
    end
    c.mask, c.said = mask, said
    return true
  end
  for _, l in ipairs(c.limits) do
    for i = 1, #windows do
      if windows[i] == l[3] then
        balances[i] = balances[i] or {now, l[2], l[2], Z}
        balances[i][2] = l[2]
        if not asked[i] then mask = mask + 2 ^ (i - 1) end
        asked[i] = true
      end
    end
  end
  for i in pairs(asked) do
    if balances[i][3] < c.cost then ok = false end
  end
  for i = 1, #windows do
    local b = balances[i]
    if b then
      local after, covers = {b[1], b[2], b[3], b[4]}, b[3] >= c.cost
      take_units(after, c.cost)
      if ok and not hold then take_units(b, c.cost) else take_units(b, Z) end
      if asked[i] then
        local retry = Z
        if not covers then
          retry = NEVER
          if c.cost <= b[2] then retry = until_(b, c.cost, windows[i]) end
        end
        said[#said + 1] = {covers, after[3], until_(b, b[2], windows[i]), retry, b[2]}
      end
    end
  end
  c.mask, c.said, c.kept, c.windows = mask, said, balances, windows
  return ok
end
local function write_kept(c)
  local mask, t, ttl = 0, {}, 1000
  for i = 1, #c.windows do
    local b = c.kept[i]
    if b then
      mask = mask + 2 ^ (i - 1)
      for j = 1, 4 do t[#t + 1] = S(b[j]) end
      local wait = until_(b, b[2], c.windows[i])
      local ms = CENTURY
      if wait ~= NEVER then ms = tonumber(S(cdiv(wait, N('1000')))) + SPARE end
      if ms > ttl then ttl = ms end
    end
  end
  return 's1;k ' .. format('%d', mask) .. (#t > 0 and ' ' or '') .. table.concat(t, ' '), ttl
end
)lua";

// The script above for the usual case: takes and peeks of counters that were written under the
// limits in force. In all other cases it changes nothing and replies `~c`, or `~w` where the
// numbers are too large for it.

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
      local s, l = c.next[i], c.at + 4 * (i - 1)
      r[i] = s[1] and S(A[l] == 'p' and now + N(A[l + 2]) or s[1]) .. ':' .. S(s[2]) or '-'
    end
    receipts[k] = table.concat(r, ',')
  end
  out[#out + 1] = '@' .. table.concat(receipts, ';')
end
return table.concat(out, ' ')
)lua";

// Takes back the charges of one slot of a group over several slots, as far as their units can still
// be found.
//
//   KEYS   one for each charge
//   ARGV   for each charge: kind (own and the bytes of its key before the counter's name,
//   remaining,
//          window), name of its limits, cost (as in a call),
//          keep_fresh, count of limits, receipt (as above), then letter, quota, window, burst of
//          each limit
//   reply  the units that could not be found, although their window has not ended as far as can be
//          seen, and stay taken
//
// A bucket gets back only the units that the state which the charge wrote would still lack now:
// units that returned since then may have been granted to others.

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
        local took = c.took and c.took[i]
        local l = c.limits[i]
        local mark = l[1] == 'p' and now + l[3] or s[1]
        r[i] = taken and s[1] and (not took or took > Z) and S(mark) .. ':' .. S(s[2]) or '-'
        if took and r[i] ~= '-' then r[i] = r[i] .. ':' .. S(took) end
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
U.m = U.f
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
-- A run that had to be merged is in a later one of the same slot (limit/concurrency.h), and so is
-- the rest where others that were merged with it have gone.
function U.p(s, m, p, q, w, b, c)
  if m <= now or not s[1] then return s end
  local length, next, rest = slot_of(b), {}, c
  for i = #s - 1, 1, -2 do
    local units = s[i + 1]
    if s[i] >= m and div(s[i], length) == div(m, length) then
      local back = least(units, rest)
      units, rest = units - back, rest - back
    end
    if units > Z then
      table.insert(next, 1, units)
      table.insert(next, 1, s[i])
    end
  end
  if rest > Z then return nil end
  return next
end
function U.b(s, m, p, q, w, b, c)
  if not s[2] or s[2] < c then return s end
  if s[2] == c then return {} end
  return {s[1], s[2] - c}
end
)lua"
                                  R"lua(
-- Takes the charge back from all limits of a counter, which may stand among others by now. False:
-- some units stay taken.
local function undo_own(key, v, name, cost, costs, keep_fresh, n, receipt, from)
  local its, rest = match(v, '^(s1;%S+) (.*)$')
  local states, limits = its and read_states(rest), {}
  if not states then return false end
  for one in gmatch(its, ';([fatslbpudchgm]%d+,%d+,%d+)') do limits[#limits + 1] = one end
  if #limits ~= #states then return false end
  local i, all = 0, true
  for one in gmatch(receipt, '[^,]+') do
    i = i + 1
    local m, p, took = string.match(one, '^(%d+):(%d+):?(%d*)$')
    local l = from + 4 * (i - 1)
    if m and U[A[l]] then
      local at = i
      if its ~= name then
        local wanted = A[l] .. A[l + 1] .. ',' .. A[l + 2] .. ',' .. A[l + 3]
        at = nil
        for j = 1, #limits do
          if limits[j] == wanted then at = at or j end
        end
      end
      local next = at and U[A[l]](states[at], N(m), N(p), N(A[l + 1]), N(A[l + 2]), N(A[l + 3]),
                                     took ~= '' and N(took) or costs and costs[i] or N(cost))
      if next then states[at] = next else all = false end
    end
  end
  write_states(key, its, states, #states, keep_fresh, v)
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
local next_at = at
for k = 1, #KEYS do
  note_given(KEYS[k], tonumber(sub(A[next_at], 4)))
  next_at = next_at + 6 + 4 * tonumber(A[next_at + 4])
end
for k = 1, #KEYS do
  local key, kind, cost, costs, n = KEYS[k], A[at], A[at + 2], nil, tonumber(A[at + 4])
  if find(cost, ',', 1, true) then
    cost, costs = costs_of(cost)
    cost = S(cost)
  end
  local v = call('GET', key)
  if v and kind == 'window' then
    if string.match(v, '^%d+$') and W.at_most(cost, v) then call('DECRBY', key, cost) end
  elseif v and kind == 'remaining' then
    local done = undo_remaining(key, v, cost, A[at + 5], A[at + 7], A[at + 8])
    if not done then left = left + tonumber(cost) end
  elseif v then
    if not undo_own(key, v, A[at + 1], cost, costs, tonumber(A[at + 3]), n, A[at + 5], at + 6) then
      left = left + tonumber(cost)
    end
    note_given(key, tonumber(sub(kind, 4)), {units = N(cost)})
  end
  at = at + 6 + 4 * n
end
return format('%.0f', left)
)lua";

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
