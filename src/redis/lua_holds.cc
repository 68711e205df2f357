// Holds (request/hold.h): what each is, and the counters from which it took units, in one script.
// The same as store/holds.cc and limit/held.h, which say what each step does and why.
//
//   KEYS   the ends of the holds; the record of the hold; the ends of those of its user (the first
//          again: it has none); for a reserve and for a charge the counters, one for each charge.
//          In Redis Cluster all of them are in the slot of the counters (hold_slots.h)
//   ARGV   1 what          v: reserve, k: charge for a hold that is not known, x: extend, n: renew,
//                          c: commit, r: release, d: release and forget, s: end those
//                          that are due, l: list, q: is there a hold?
//          2 name          user, `:`, id
//          3 remember      us; s: also how many records are looked at
//          4, 5            the most holds, and those of one user
//          6 calendars     of each window of the calendar its code, `:`, its boundaries and `;`
//          7 ttl           us; 0: the one it has
//          8 units         of each subject, with commas between
//          of v and k:
//          9 content, 10 the longest ttl, 11 k: its end keeps the units, i: a late commit is
//          refused, 12 the holder's text, 13 the number of groups. For each group: e: enforced, s:
//          of a rule in shadow (E, S: it must be refused), and the number of charges. For each
//          charge: units, ahead, keep_fresh, name of its limits, carry, all as lua_settle.cc has
//          them; its subjects, rule, actor; overdrafts, as there behind the verb
//   record a text of cmsgpack: s the state (h: held, c: committed, r: released, k: kept); e its
//   end,
//          or when it is forgotten; t, m the ttl and the longest; k, i; c content; h holder; b when
//          it began; n, u the units that are reserved and used of each subject; a the answer of the
//          commit; o for each counter: k key, g the bytes before its name, v actor, y rule, j
//          subjects, w in shadow, l limits of the reserve, z carry, f keep_fresh, d overdrafts, q
//          units that stay used, p parts. A part: time, units, what had been given back (units,
//          puts, resets, lists), its limits if others, marks
//   given  beside a counter that has holds: units, puts, resets, changes of its list
//   (limit::Given),
//          and the number of parts. Where it is lost nothing goes back.
//   reply  lines. Outcome (d, r, u, i, s, e, n, f: HoldOutcome by its letter), how many ended and
//          were kept, us to the end, returned, charged, late, repeated, number of groups; reserved;
//          used; the limit that is shown, with limit, remaining, reset, retry, or `-`; a line for
//          each group, as lua_settle.cc; its rule.
//          `~w`: the numbers are too large for this script; `~b` and codes: it needs the boundaries
//          of these calendars. Then nothing was done.
#include "redis/lua.h"

namespace sluice::redis {

const std::string_view lua_given = R"lua(
local WEEK = 604800
local function given_name(key, head) return sub(key, 1, head) .. 'given:' .. sub(key, head + 1) end
local function write_given(name, u, p, r, x, n)
  -- Another list is as if all units had gone back.
  if u > N('4503599627370496') then u, x = Z, x + ONE end
  local left = call('TTL', name)
  if left < WEEK then left = WEEK end
  call('SET', name, S(u) .. ' ' .. S(p) .. ' ' .. S(r) .. ' ' .. S(x) .. ' ' .. n, 'EX', left)
end
local function read_given(name)
  local v = call('GET', name)
  local u, p, r, x, n = match(v or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if u then return N(u), N(p), N(r), N(x), n end
end
-- Nothing to note: while a slot of a cluster moves to another node a key may be missing here, which
-- is an error before anything is written.
local function note_given(key, head, what)
  if not head then return end
  local name = given_name(key, head)
  if not what then
    if sub(key, head, head) == '}' then call('EXISTS', name) end
    return
  end
  local u, p, r, x, n = read_given(name)
  if not u then return end
  if what.units then u = u + what.units end
  if what.puts then p = p + ONE end
  if what.resets then r = r + ONE end
  if what.lists then x = x + ONE end
  write_given(name, u, p, r, x, n)
end
)lua";

// Where the hold of an id is, in Redis Cluster (hold_slots.h).
//   KEYS   the key of the id; s: the set of the slots that have holds
//   ARGV   what, slot, life in ms, token of who puts it there
//          g: tells the slot of the id; c: stores the slot, unless the key has another one; f:
//          stores it in any case; x: deletes the key, if its token is still this one; s: adds the
//          slot to the set. The token 0 belongs to a reserve that waits, whose record is written
//          only at the grant: c does not replace it
//   reply  the slot; empty: the key does not exist, or was deleted
const std::string_view lua_hold_at = R"lua(
local call, what, key, at, most = redis.call, ARGV[1], KEYS[1], ARGV[2], ARGV[3]
if what == 's' then
  call('SADD', key, at)
  return at
end
local slot, life, token = string.match(call('GET', key) or '', '^(%d+) (%d+) (%S+)$')
if what == 'x' then
  if token == ARGV[4] then call('DEL', key) end
  return ''
end
if what == 'f' or what == 'c' and (not slot or slot == at) then
  if slot and tonumber(life) > tonumber(most) then most = life end
  if slot ~= at or token ~= '0' then token = ARGV[4] end
  call('SET', key, at .. ' ' .. most .. ' ' .. token, 'PX', most)
  return at
end
if slot and call('PTTL', key) < tonumber(life) then call('PEXPIRE', key, life) end
return slot or ''
)lua";

const std::string_view lua_holds = R"lua(
local op, remember = A[1], N(A[3])
local ends = KEYS[1]
local head = sub(ends, 1, #ends - 5)
local kept_ends, place_ends = head .. 'kept_holds', head .. 'held_places'
local quiet = op == 's'
-- A script may have 200 local names, so some have one together.
local H = {freed = {}}
local C, order, boundaries, wants, problem = {}, {}, {}, {}, nil
for code, text in gmatch(A[6] or '', '(%d+):([%d,]+);') do boundaries[code] = calendar_of(text) end
local parsed = {}
local function limits_of(name)
  if parsed[name] then return parsed[name] end
  local all = {}
  for letter, q, w, b in gmatch(name, ';([fatslbpudchgm])(%d+),(%d+),(%d+)') do
    local l = {letter, N(q), N(w), N(b)}
    if letter == 'm' and not quiet then
      if boundaries[w] then l[4] = boundaries[w] else wants[#wants + 1] = w end
    end
    all[#all + 1] = l
  end
  parsed[name] = all
  return all
end
-- A counter as it is now, with what this script has done to it.
local function counter(key)
  local c = C[key]
  if c then return c end
  c = {key = key, states = {}, tail = {}}
  local v = redis.pcall('GET', key)
  local name, was, left
  if type(v) == 'table' then
    problem, c.lost = v, true
  elseif v then
    name, was, left = read(v)
    if not name then problem, c.lost = foreign(key), true end
  end
  if name then
    c.old, c.name, c.limits = v, name, limits_of(name)
    if #was ~= #c.limits then problem, c.lost = foreign(key), true end
    for i, one in ipairs(was) do c.states[i] = one.s end
    for _, one in ipairs(left) do
      if not is_fresh(one) then c.tail[#c.tail + 1] = one end
    end
  end
  C[key], order[#order + 1] = c, c
  return c
end
local function given(c, its_head)
  if not c.g then
    c.g = {}
    c.g_name = given_name(c.key, its_head)
    if not c.lost then c.g.u, c.g.p, c.g.r, c.g.x, c.g.n = read_given(c.g_name) end
    c.g.n = tonumber(c.g.n)
  end
  return c.g
end
)lua"
                                   R"lua(
-- ---- Charges ----

-- The counter's states under the limits of a charge, those left out, and whether it had others.
local function under(c, w)
  if not c.name then return {}, {}, false end
  if c.name == w.name then return c.states, c.tail, false end
  local was, left, live = {}, {}, w.keep_fresh > 0 or #c.tail > 0
  for i, l in ipairs(c.limits) do
    local s = c.states[i] or {}
    was[i] = {l = {l[1], l[2], l[3], l[1] == 'm' and Z or l[4]}, s = s}
    if s[1] and (s[1] > now or l[1] == 'b') then live = true end
  end
  for i, one in ipairs(c.tail) do left[i] = {l = one.l, s = one.s} end
  if not live then return {}, {}, true end
  local states, tail = carry_list(was, left, w.limits, w.carry)
  return states, tail, true
end
-- The limits with which places are held for so long.
local function leased(limits, lease)
  local all = {}
  for i, l in ipairs(limits) do
    all[i] = l[1] == 'p' and {'p', l[2], least(lease, l[4]), l[4]} or l
  end
  return all
end
-- Decides a charge: t: a take, x: a charge, p: a look. It changes nothing. lease: of a take: how
-- long places are held.
local function decide(w, verb, cost, lease)
  local d = {c = counter(w.key), w = w, cost = cost, said = {}, next = {}, took = {}, ok = true, dropped = Z}
  d.states, d.tail, d.carried = under(d.c, w)
  d.limits = lease and leased(w.limits, lease) or w.limits
  for i, l in ipairs(d.limits) do
    local s, ok, left, reset, retry, next, took = d.states[i] or {}, true, nil, nil, nil, nil, nil
    if verb == 'p' then
      ok, left, reset, retry = look(s, l)
      next = s
    elseif verb == 't' then
      ok, left, reset, retry, next = count_behind(s, l, cost, w.ahead, false)
    else
      ok, left, reset, retry, next, took = charge_behind(s, l, cost, w.ahead, w.most_debt[i])
      d.took[i] = took
      if counted(l) and cost - took > d.dropped then d.dropped = cost - took end
    end
    if w.ahead > Z and counted(l) then left = left_behind(left, w.ahead) end
    d.ok = d.ok and ok
    d.said[i], d.next[i] = {ok, left, reset, retry}, next
  end
  return d
end
-- Its group is refused: what it allowed takes nothing.
local function deny(d)
  for i, l in ipairs(d.w.limits) do
    if d.said[i][1] then
      local ok, left, reset, retry = F[l[1]](d.states[i] or {}, l[2], l[3], l[4], Z)
      if counted(l) then left = left_behind(left, d.w.ahead) end
      d.said[i] = {ok, left, reset, retry}
    end
  end
end
local function accept(d, verb)
  local c, w, tail = d.c, d.w, d.tail
  if #tail > 0 then
    tail = change_tail(tail, w.limits, d.cost, function() return true end, verb == 'x' and d.took or nil, w.carry)
  end
  c.name, c.limits, c.states, c.tail, c.keep_fresh, c.dirty = w.name, w.limits, d.next, tail, w.keep_fresh, true
  local g = given(c, w.head)
  if d.carried and g.u then g.x, g.dirty = g.x + ONE, true end
end
-- The run of places that end then, or the one that it was merged into: its first index, or nil.
local function run_of(s, ends)
  local run
  for i = 1, #s, 2 do
    if s[i + 1] <= Z or s[i] < ends then break end
    run = i
  end
  return run
end
-- The mark of places that end then.
local function mark_at(s, ends)
  local runs = places_of(s)
  local run = run_of(runs, ends)
  return S(ends), run and S(runs[run + 1]) or '0'
end
-- Adds what a take has taken to the counter `o` of a record.
local function add_part(o, d)
  local c, units = d.c, d.cost
  local g, marks = given(c, o.g), {}
  if not g.u then g.u, g.p, g.r, g.x, g.n = Z, Z, now, Z, 0 end
  g.n, g.dirty = g.n + 1, true
  for i, l in ipairs(c.limits) do
    local s = c.states[i] or {}
    local at, its = s[1], s[2]
    if l[1] == 's' then at = s[3] end
    marks[2 * i - 1], marks[2 * i] = at and S(at) or '0', at and S(its) or '0'
    if l[1] == 'p' then marks[2 * i - 1], marks[2 * i] = mark_at(s, now + d.limits[i][3]) end
  end
  o.p[#o.p + 1] = {S(now), S(units), S(g.u), S(g.p), S(g.r), S(g.x), c.name ~= o.l and c.name or '', marks}
end
local function settle_group(group, verb, takes, lease)
  local all, ds = not group.hold, {}
  for i, w in ipairs(group.charges) do
    ds[i] = decide(w, verb, w.cost, lease)
    all = all and ds[i].ok
  end
  if verb == 'p' then all = true end
  group.allowed, group.ds = all, ds
  for _, d in ipairs(ds) do
    if not all then deny(d) elseif takes then accept(d, verb) end
  end
end
)lua"
                                   R"lua(
-- ---- What goes back (limit/held.h) ----

local function share_of(o, units)
  local sum = Z
  for _, j in ipairs(o.j) do sum = sum + units[j] end
  return sum
end
local function held_by(o)
  local sum = N(o.q)
  for _, p in ipairs(o.p) do sum = sum + N(p[2]) end
  return sum
end
-- The limit of a commit that is shown: is `a` rather than `b`?
local function is_tighter_of_charge(a, b)
  if a[4] ~= b[4] then return a[4] > b[4] end
  return a[2] < b[2]
end
local function is_tighter(a, b)
  if a.ok ~= b.ok then return not a.ok end
  if not a.ok then return a[4] > b[4] end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] > b[3]
end
local shown
local function show(l, rule, said, tighter)
  local one = {l, said[2], said[3], said[4], ok = said[1], rule = rule}
  if counted(l) and (not shown or tighter(one, shown)) then shown = one end
end
local settle
do
-- `was`: the limit of the take; `p`: the part, at, its: its mark; `g`: what was given back, now;
-- `to`: places end then instead. Returns the state, and how many units went back or were moved.
local function give_back(s, l, was, p, at, its, units, g, to)
  if not s[1] or s[2] <= Z and l[1] ~= 's' or g.r ~= N(p[5]) then return s, Z end
  local a, q, w, since = l[1], l[2], l[3], g.u - N(p[3])
  if a == 't' then
    if g.x ~= N(p[6]) then return s, Z end
    local taken, then_, rate = N(p[1]), Z, q
    if was[2] > rate then rate = was[2] end
    if its > Z and taken < at then then_ = mul(at - ONE - taken, was[2]) + its end
    local most = capacity(was[2], was[3], was[4], taken)
    if then_ > most then then_ = most end
    local elapsed = now - taken
    if elapsed < Z then elapsed = Z end
    if rate > Z and elapsed > div(then_, rate) then return s, Z end
    local bound, missing = then_ - mul(elapsed, rate), missing_of(s, q, w, l[4])
    if since > div(bound, w) then return s, Z end
    local back = least(least(mul(units, w), bound - mul(since, w)), missing)
    if back <= Z then return s, Z end
    return (bucket_of(missing - back, q, capacity(q, w, l[4], now))), cdiv(back, w)
  end
  local most = units
  if g.p ~= N(p[4]) then
    most = g.x ~= N(p[6]) and Z or its - since
    if most > units then most = units end
  end
  if most <= Z then return s, Z end
  if a == 's' then
    if s[2] <= Z or now >= s[1] then return s, Z end
    if s[3] == at then
      local back = least(s[2], most)
      return P.s(s, back, q, w), back
    end
    if now >= s[3] or s[3] - at ~= w or s[4] <= Z then return s, Z end
    local back = least(s[4], most)
    return {s[1], s[2], s[3], s[4] - back}, back
  elseif a == 'p' then
    -- Out of later runs where that one has fewer: others that were merged behind gave theirs back.
    local runs, moved = places_of(s), Z
    local run = now < at and run_of(runs, at)
    if not run then return s, Z end
    while run and moved < most do
      local some = least(runs[run + 1], most - moved)
      moved, runs[run + 1] = moved + some, runs[run + 1] - some
      if runs[run + 1] <= Z then
        table.remove(runs, run)
        table.remove(runs, run)
      end
      run = run_of(runs, at)
    end
    if to then runs = add_run(runs, to, moved, l[4]) end
    return runs, moved
  elseif a == 'l' then
    local run = now < at and run_of(s, at)
    if not run then return s, Z end
    local next, back = {}, least(s[run + 1], most)
    for i = 1, #s, 2 do
      local left = s[i + 1]
      if i == run then left = left - back end
      if left > Z then next[#next + 1] = s[i] next[#next + 1] = left end
    end
    return next, back
  elseif a == 'b' then
    local back = least(s[2], most)
    return P.b(s, back, q, w, l[4]), back
  elseif a ~= 'f' and a ~= 'a' and a ~= 'm' or s[1] ~= at or now >= at then
    return s, Z
  end
  local back = least(s[2], most)
  if back == s[2] then return {}, back end
  return {s[1], s[2] - back}, back
end
local function each_kind(limits, kind, found, visit)
  for j, l in ipairs(limits) do
    if not found[j] and same_kind(l, kind) then
      found[j] = true
      return visit(j)
    end
  end
end
local function kinds_of(name)
  local all = {}
  for letter, q, w, b in gmatch(name, ';([fatslbpudchgm])(%d+),(%d+),(%d+)') do all[#all + 1] = {letter, N(q), N(w), N(b)} end
  return all
end
-- Settles the counter of a hold with what was used of it. Places go back whole; with `to` they end
-- then instead, and nothing else changes.
settle = function(o, used, to)
  local c, out, cost = counter(o.k), {returned = Z, dropped = Z, moved = Z}, used - held_by(o)
  if cost < Z then cost = Z end
  if c.lost then return out end
  local g, limits = given(c, o.g), c.name and c.limits or limits_of(o.l)
  local states, tail, left = {}, {}, used - N(o.q)
  for i = 1, #limits do states[i] = c.states[i] or {} end
  for i, one in ipairs(c.tail) do tail[i] = {l = one.l, s = one.s} end
  for _, p in ipairs(o.p) do
    local units, filled, found, returned = N(p[2]), Z, {}, Z
    if left > Z then filled = least(left, units) end
    left = left - filled
    for i, was in ipairs(g.u and kinds_of(p[7] ~= '' and p[7] or o.l) or {}) do
      local at, its, most = N(p[8][2 * i - 1]), N(p[8][2 * i]), units - filled
      if was[1] == 'p' then most = units elseif to then most = Z end
      local function back_of(l, s)
        local next, back = give_back(s, l, was, p, at, its, most, g, to)
        if to then
          p[8][2 * i - 1], p[8][2 * i] = '0', '0'
          if back > Z then p[8][2 * i - 1], p[8][2 * i] = mark_at(next, to) end
          out.moved = out.moved + back
        elseif back > returned then
          returned = back
        end
        return next
      end
      if most > Z then
        each_kind(limits, was, found, function(j) states[j] = back_of(limits[j], states[j]) end)
        for _, one in ipairs(tail) do
          if same_kind(one.l, was) then one.s = back_of(one.l, one.s) end
        end
      end
    end
    if g.u then out.returned, g.u = out.returned + returned, g.u + returned end
  end
  if out.returned > Z then H.freed[#H.freed + 1] = sub(o.k, o.g + 1) end
  if g.u and not to then g.n, g.dirty = g.n - #o.p, true end
  local most_debt, took = overdrafts_of(o.d), {}
  for i, l in ipairs(limits) do
    if cost > Z or not quiet then
      -- No excess is charged to places.
      local its = l[1] == 'p' and Z or cost
      local _, rest, reset, retry, next, _, units = charge(states[i], l, its, most_debt[i])
      took[i] = units
      if its > Z then
        states[i] = next
        if counted(l) and cost - units > out.dropped then out.dropped = cost - units end
      end
      if not o.w then show(l, o.y, {true, rest, reset, retry}, is_tighter_of_charge) end
    end
  end
  if cost > Z or out.returned > Z or out.moved > Z then
    if cost > Z and #tail > 0 then
      tail = change_tail(tail, limits, cost, function(i) return limits[i][1] ~= 'p' end, took)
    end
    c.name, c.limits, c.states, c.tail, c.keep_fresh, c.dirty = c.name or o.l, limits, states, tail, o.f, true
  end
  return out
end
end
)lua"
                                   R"lua(
-- ---- Records ----

local expired, kept, expired_places = 0, 0, 0
local returned, charged, late, repeated, outcome = Z, Z, 0, 0, 'd'
local saved = {}
local function numbers_of(text)
  local all = {}
  for one in gmatch(text, '%d+') do all[#all + 1] = N(one) end
  return all
end
local function texts_of(numbers)
  local all = {}
  for i, n in ipairs(numbers) do all[i] = S(n) end
  return all
end
local function user_ends(name)
  local user = match(name, '^(.*):')
  return user and user ~= '' and head .. 'holds:' .. user
end
local function load_record(name)
  local v = call('GET', head .. 'hold:' .. name)
  if not v then return nil end
  local r = cmsgpack.unpack(v)
  r.e = N(r.e)
  return r
end
-- Settles all counters of the hold with what was used of each subject. Subjects that share a
-- counter are told of together.
local function settle_all(r, used)
  -- Of places that were acquired all else was taken for good.
  if r.p then used = numbers_of(table.concat(r.n, ',')) end
  local reserved, all = {}, {}
  for j, n in ipairs(r.n) do reserved[j] = r.s == 'r' and Z or N(n) end
  for i, o in ipairs(r.o) do all[i] = settle(o, share_of(o, used)) end
  returned, charged = Z, Z
  local seen = {}
  for first = 1, #used do
    if not seen[first] then
      local set, grew, any = {[first] = true}, true, false
      while grew do
        grew = false
        for _, o in ipairs(r.o) do
          local touches = false
          for _, j in ipairs(o.j) do touches = touches or not o.w and set[j] end
          for _, j in ipairs(touches and o.j or {}) do
            if not set[j] then set[j], grew = true, true end
          end
        end
      end
      local its_reserved, its_used, back, dropped = Z, Z, Z, Z
      for j in pairs(set) do
        seen[j] = true
        its_reserved, its_used = its_reserved + reserved[j], its_used + used[j]
      end
      for i, o in ipairs(r.o) do
        local touches = false
        for _, j in ipairs(o.j) do touches = touches or not o.w and set[j] end
        if touches then
          any = true
          if all[i].returned > back then back = all[i].returned end
          if all[i].dropped > dropped then dropped = all[i].dropped end
        end
      end
      local rest = its_reserved - its_used
      if r.p then returned = returned + back elseif rest > Z then returned = returned + least(rest, back) end
      rest = Z - rest - dropped
      if any and rest > Z then charged = charged + rest end
    end
  end
  for _, o in ipairs(r.o) do o.p, o.q = {}, '0' end
end
local function nothing_of(r)
  local all = {}
  for j = 1, #r.n do all[j] = Z end
  return all
end
-- Its end has come.
local function finish(r)
  if r.k then
    r.s, kept = 'k', kept + 1
  else
    settle_all(r, nothing_of(r))
    r.s, expired, shown = 'r', expired + 1, nil
    if r.p then expired_places = expired_places + 1 end
    returned = Z
  end
  r.e = now + remember
end
-- It is forgotten: what it kept stays used.
local function forget(r)
  for _, o in ipairs(r.o or {}) do
    if #o.p > 0 then
      local g = given(counter(o.k), o.g)
      if g.u then g.n, g.dirty = g.n - #o.p, true end
    end
  end
  r.gone = true
end
-- The record as it is due: nil: there is none.
local function current(name)
  local r = load_record(name)
  if not r then return nil, '' end
  -- While a slot of a cluster moves to another node some of its keys are not here: those that are
  -- written are touched before anything is.
  if sub(head, -1) == '}' then
    call('ZCARD', r.p and place_ends or ends)
    if r.k then call('ZCARD', kept_ends) end
    if user_ends(name) then call('ZCARD', user_ends(name)) end
    for _, o in ipairs(r.o or {}) do note_given(o.k, o.g) end
  end
  local was = r.s
  if r.s == 'h' and r.e <= now then finish(r) end
  if r.s ~= 'h' and r.e <= now then
    forget(r)
    saved[#saved + 1] = {name, r, was}
    return nil, was
  end
  return r, was
end
local function save(name, r, was) saved[#saved + 1] = {name, r, was} end
local function write_record(name, r, was)
  local key, of_user, at = head .. 'hold:' .. name, user_ends(name), S(r.e)
  local left = r.e - now
  if left < ONE then left = ONE end
  local its_ends = r.p and place_ends or ends
  if was == 'h' and (r.s ~= 'h' or r.gone) then
    call('ZREM', its_ends, name)
    if of_user then call('ZREM', of_user, name) end
  end
  if was == 'k' and (r.s ~= 'k' or r.gone) then call('ZREM', kept_ends, name) end
  if r.gone then
    call('DEL', key)
    return
  end
  if r.s == 'h' then
    call('ZADD', its_ends, at, name)
    if of_user then call('ZADD', of_user, at, name) end
    -- It outlives the hold.
    local seconds = tonumber(S(cdiv(left, N('1000000')))) + WEEK
    for _, o in ipairs(r.o) do
      local its = given_name(o.k, o.g)
      if r.touch and call('TTL', its) < seconds then call('EXPIRE', its, seconds) end
    end
  elseif r.s == 'k' then
    call('ZADD', kept_ends, at, name)
  end
  r.e, r.touch = at, nil
  local ms = tonumber(S(cdiv(left, N('1000')))) + SPARE
  -- What no server ends any more is forgotten in the end.
  if r.s == 'h' or r.s == 'k' then ms = ms + WEEK * 1000 end
  call('SET', key, cmsgpack.pack(r), 'PX', format('%d', ms))
end
local function write_all()
  for _, c in ipairs(order) do
    local g = c.g
    if g and g.u and g.dirty then
      if g.n <= 0 then call('DEL', c.g_name) else write_given(c.g_name, g.u, g.p, g.r, g.x, format('%d', g.n)) end
    end
    if c.dirty then
      local cells = close(c.limits, c.states)
      write_states(c.key, c.name, c.states, #c.limits, c.keep_fresh, c.old, keep_left(c.tail, cells))
    end
  end
  for _, one in ipairs(saved) do write_record(one[1], one[2], one[3]) end
end
-- The counters that were given units back: of each the length of its name, `:`, its name.
H.told = function()
  local all = {}
  for i, its in ipairs(H.freed) do all[i] = #its .. ':' .. its end
  return table.concat(all)
end
)lua"
                                   R"lua(
-- ---- For no hold of its own ----

if op == 's' then
  local count, looked, more = tonumber(A[4]), 0, 0
  for _, set in ipairs({ends, place_ends, kept_ends}) do
    local due = call('ZRANGEBYSCORE', set, '-inf', S(now), 'LIMIT', 0, count)
    for _, name in ipairs(due) do
      -- Those of records that are large, or that hold many times, come with the next call.
      if looked >= 4 * count then more = 1 break end
      local r, was = current(name)
      if r then save(name, r, was) end
      for _, o in ipairs(r and r.o or {}) do looked = looked + 1 + #o.p end
      if was ~= (set == kept_ends and 'k' or 'h') then
        call('ZREM', set, name)
        local of_user = user_ends(name)
        if of_user and set ~= kept_ends then call('ZREM', of_user, name) end
      end
      looked = looked + 1
    end
    if #due == count then more = 1 end
  end
  if esc then return esc end
  write_all()
  local next = -1
  for _, set in ipairs({ends, place_ends, kept_ends}) do
    local first = call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
    local left = first and math.max(tonumber(first) - tonumber(S(now)), 0)
    if left and (next < 0 or left < next) then next = left end
  end
  return table.concat({expired, kept, expired_places, call('ZCARD', ends), call('ZCARD', place_ends), more,
                       format('%d', next), #H.freed}, ' ') .. '\n' .. H.told()
end
if op == 'l' then
  local all, from = {}, tonumber(A[4])
  local names = call('ZRANGE', A[2] == 'p' and place_ends or ends, from, from + tonumber(A[5]) - 1)
  for i, name in ipairs(names) do
    local r, one = load_record(name), {name}
    if r and r.s == 'h' then
      local o, units = r.o[1], Z
      for _, n in ipairs(r.n) do units = units + N(n) end
      one = {name, r.h, S(units), r.b, S(r.e), o and o.y or '', o and o.v or '', o and sub(o.k, o.g + 1) or ''}
    end
    all[i] = one
  end
  return all
end
)lua"
                                   R"lua(
-- ---- One hold ----

local name, units = A[2], numbers_of(A[8])
local r, was = current(name)
local groups, lines, verb, reserved, used, rule = {}, {}, 't', {}, {}, ''
local function read_groups()
  local at, k = 14, 3
  for i = 1, tonumber(A[13]) do
    local mode, charges = A[at], {}
    for j = 1, tonumber(A[at + 1]) do
      local from = at + 2 + 9 * (j - 1)
      k = k + 1
      charges[j] = {key = KEYS[k], cost = N(A[from]), ahead = N(A[from + 1]), keep_fresh = tonumber(A[from + 2]),
                    name = A[from + 3], carry = sub(A[from + 4], 1, 1), head = tonumber(sub(A[from + 4], 2)),
                    subjects = {}, rule = A[from + 6], actor = A[from + 7], overdrafts = A[from + 8]}
      for one in gmatch(A[from + 5], '%d+') do table.insert(charges[j].subjects, tonumber(one)) end
      charges[j].limits, charges[j].most_debt = limits_of(charges[j].name), overdrafts_of(charges[j].overdrafts)
    end
    groups[i] = {shadow = string.lower(mode) == 's', hold = string.lower(mode) ~= mode, charges = charges}
    at = at + 2 + 9 * #charges
  end
end
local function gone()
  outcome, used = r.s == 'c' and 's' or 'e', r.u or {}
end
local function answer_again()
  local a = r.a
  reserved, used = r.n, r.u
  returned, charged, late = N(a[1]), N(a[2]), a[3]
  shown = a[4] and {{'f', N(a[4]), Z, Z}, N(a[5]), Z, Z, rule = a[6]} or nil
end
-- Keeps what the commit came to, so that it is answered again.
local function keep_answer()
  r.a = {S(returned), S(charged), late}
  if shown then r.a[4], r.a[5], r.a[6] = S(most_of(shown[1])), S(shown[2]), shown.rule end
  r.s, r.u, r.o, r.e = 'c', texts_of(units), nil, now + remember
end
local function set_end()
  local ttl = N(A[7])
  if ttl > Z then r.t = S(least(ttl, N(r.m))) end
  r.e, r.touch = now + N(r.t), true
end
local function has_places(r)
  for _, o in ipairs(r.o) do
    if find(o.l, ';p', 1, true) then return true end
  end
  return false
end
-- All places of the hold end with it. False: what was given back to a counter is lost, so that
-- nobody can know which of its places are those of the hold: it has ended.
local function move_places()
  shown = nil
  local known = true
  for _, o in ipairs(r.o) do
    if o.w or given(counter(o.k), o.g).u then settle(o, held_by(o), r.e) else known = false end
  end
  return known
end
H.reserve = function()
  read_groups()
  if r then
    if r.s ~= 'h' then return gone() end
    if r.c ~= A[9] or (r.p or false) ~= (find(A[11], 'p', 1, true) ~= nil) then outcome = 'i' return end
    -- The counters tell how they stand.
    verb, repeated, reserved = 'p', 1, r.n
    for _, group in ipairs(groups) do settle_group(group, 'p', false) end
    return
  end
  local of_user = user_ends(name)
  if call('ZCARD', ends) + call('ZCARD', place_ends) >= tonumber(A[4]) or of_user and call('ZCARD', of_user) >= tonumber(A[5]) then
    outcome = 'f'
    return
  end
  local record = {s = 'h', t = A[7], m = A[10], k = find(A[11], 'k', 1, true) ~= nil, i = find(A[11], 'i', 1, true) ~= nil,
                  p = find(A[11], 'p', 1, true) ~= nil or nil, c = A[9], h = A[12], b = S(now), n = texts_of(units), o = {}}
  -- Without the enforced ones those in shadow hold nothing.
  for _, shadow in ipairs({false, true}) do
    for _, group in ipairs(groups) do
      if group.shadow == shadow then
        settle_group(group, 't', outcome == 'd', N(A[7]))
        if not group.allowed and not shadow then outcome = 'r' end
        for _, d in ipairs(group.allowed and outcome == 'd' and group.ds or {}) do
          local w = d.w
          local o = {k = w.key, g = w.head, v = w.actor, y = w.rule, j = w.subjects, w = shadow, l = w.name, z = w.carry,
                     f = w.keep_fresh, d = w.overdrafts, q = '0', p = {}}
          add_part(o, d)
          record.o[#record.o + 1] = o
        end
      end
    end
  end
  if outcome ~= 'd' then
    order, saved = {}, {}  -- nothing changes
    return
  end
  r, reserved = record, record.n
  r.e, r.touch = now + N(r.t), true
  save(name, r, was)
end
)lua"
                                   R"lua(
H.extend = function()
  local ds, all = {}, true
  local function ask(o)
    local c = counter(o.k)
    local w = {key = o.k, ahead = Z, keep_fresh = o.f, name = c.name or o.l, limits = c.name and c.limits or limits_of(o.l),
               carry = o.z, head = o.g, most_debt = {}}
    return decide(w, 't', share_of(o, units), N(r.t))
  end
  local most, places = math.max(math.floor(256 / math.max(#r.o, 1)), 4), has_places(r)
  for i, o in ipairs(r.o) do
    -- The oldest parts of too many count as used, which places cannot.
    if places and #o.p >= most then
      outcome = 'f'
      return false
    end
    if not o.w then
      ds[i] = ask(o)
      all = all and ds[i].ok
    end
  end
  for i, o in ipairs(r.o) do
    local d = ds[i]
    if d then
      if not all then deny(d) end
      for j, l in ipairs(d.limits) do show(l, o.y, d.said[j], is_tighter) end
    end
  end
  if not all then
    outcome, reserved = 'r', r.n
    return false
  end
  for i, o in ipairs(r.o) do
    local d = ds[i] or ask(o)
    if d.ok then
      accept(d, 't')
      add_part(o, d)
      if #o.p > most then
        local oldest = table.remove(o.p, 1)
        o.q = S(N(o.q) + N(oldest[2]))
        d.c.g.n = d.c.g.n - 1
      end
    end
  end
  for j, n in ipairs(units) do r.n[j] = S(least(N(r.n[j]) + n, FULL)) end
  return true
end
H.commit = function()
  if r.s == 'c' then
    if table.concat(r.u, ',') ~= A[8] then return gone() end
    answer_again()
    repeated = 1
    return
  end
  if r.s == 'r' and r.i then outcome = 'e' return end
  late = r.s ~= 'h' and 1 or 0
  settle_all(r, units)
  keep_answer()
  answer_again()
  save(name, r, was)
end
H.release = function()
  if r.s == 'c' then return gone() end
  reserved = r.n
  if r.s == 'r' then repeated = 2 return end
  settle_all(r, nothing_of(r))
  r.s, r.e = 'r', now + remember
  save(name, r, was)
end
H.charge_unknown = function()
  read_groups()
  verb, late, reserved, used = 'x', 1, {}, texts_of(units)
  for _, group in ipairs(groups) do
    settle_group(group, 'x', true)
    for _, d in ipairs(group.shadow and {} or group.ds) do
      for i, l in ipairs(d.w.limits) do show(l, d.w.rule, d.said[i], is_tighter_of_charge) end
    end
  end
  for j = 1, #units do
    local its
    for _, group in ipairs(groups) do
      for _, d in ipairs(group.shadow and {} or group.ds) do
        for _, subject in ipairs(d.w.subjects) do
          if subject == j then
            local left = units[j] - d.dropped
            if left < Z then left = Z end
            if not its or left < its then its = left end
          end
        end
      end
    end
    if its then charged = charged + its end
  end
  r = {m = '0', t = '0', c = '0', h = '', b = S(now), n = {}}
  for j = 1, #units do r.n[j] = '0' end
  keep_answer()
  save(name, r, was)
end

if op == 'v' then
  H.reserve()
elseif not r and op == 'k' then
  H.charge_unknown()
elseif not r then
  outcome = 'u'
elseif op == 'q' then
  outcome = 'i'
  if r.s ~= 'h' then gone() end
elseif (op == 'x' or op == 'c' or op == 'k') and #units ~= #r.n then
  outcome, reserved = 'n', r.n
elseif op == 'c' or op == 'k' then
  H.commit()
elseif op == 'r' or op == 'd' then
  H.release()
  if op == 'd' and outcome == 'd' and #saved > 0 then r.gone = true end
elseif r.s ~= 'h' then
  gone()
else
  set_end()
  if op == 'n' or H.extend() then
    reserved = r.n
    if not has_places(r) or move_places() then
      save(name, r, was)
    else
      order, shown, reserved, outcome = {}, nil, {}, 'e'
    end
  end
end
if #wants > 0 then return '~b ' .. table.concat(wants, ' ') end
if esc then return esc end
if problem then return problem end
local out = {}
for i, group in ipairs(groups) do
  local line = {group.allowed and '1' or '0'}
  for _, d in ipairs(group.ds or {}) do
    if verb == 'x' then line[#line + 1] = S(d.dropped) end
    for _, said in ipairs(d.said) do
      line[#line + 1] = said[1] and '1' or '0'
      for j = 2, 4 do line[#line + 1] = S(said[j]) end
    end
  end
  out[i] = table.concat(line, ' ')
end
-- What has ended is written whatever became of the request.
if r and was == 'h' and r.s ~= 'h' and #saved == 0 then save(name, r, was) end
local left = r and outcome == 'd' and r.s == 'h' and r.e - now or Z
local shows = '-'
if shown then
  local l = shown[1]
  shows = l[1] .. S(l[2]) .. ',' .. S(l[3]) .. ',' .. (l[1] == 'm' and '0' or S(l[4])) .. ' ' .. S(most_of(l)) ..
          ' ' .. S(shown[2]) .. ' ' .. S(shown[3]) .. ' ' .. S(shown[4])
end
write_all()
return table.concat({outcome, expired, kept, expired_places, S(left), S(returned), S(charged), late, repeated, r and r.p and 1 or 0, #groups, #H.freed}, ' ') .. '\n' ..
       table.concat(reserved, ' ') .. '\n' .. table.concat(used, ' ') .. '\n' .. shows .. '\n' ..
       table.concat(out, '\n') .. (#out > 0 and '\n' or '') .. H.told() .. (shown and shown.rule or '')
)lua";

}  // namespace sluice::redis
