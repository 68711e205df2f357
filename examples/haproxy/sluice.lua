-- An action of HAProxy (2.6 and later) that asks sluice whether a request may pass:
--
--     global
--         lua-load-per-thread sluice.lua
--     frontend ...
--         http-request lua.sluice BACKEND /auth/PROFILE closed|open
--     backend BACKEND
--         server NAME ADDRESS check
--
-- The profile has `proxy: haproxy` and `deny: 429`. Allowed: the request goes on, and txn.sluice_ratelimit and
-- txn.sluice_ratelimit_policy are what sluice says of its limits. Refused: sluice's 429 is the answer, with its fields and
-- its body. Without an answer, or with one from 500 on: `closed` answers 503, `open` lets the request pass. Any other answer
-- is a mistake in a configuration, or a request that cannot be read, which a client can make: 503 in either case.

local timeout_ms = 500 -- of one try; before HAProxy 2.8 there are four

-- Fields of the client that sluice is told besides; a profile's `headers` and `cookies` need theirs here.
local passed = { "accept" }

-- The profile's `secret`, if it has one: a variable of HAProxy's environment.
local secret = os.getenv("SLUICE_SECRET")

-- Fields of sluice's refusal that are HAProxy's own matter.
local own = { ["content-length"] = true, ["connection"] = true, ["transfer-encoding"] = true, ["date"] = true }

-- The names of a backend's servers, in order.
local known = {}
local function servers_of(backend)
  if not known[backend] then
    local names = {}
    for name in pairs(core.backends[backend].servers) do table.insert(names, name) end
    table.sort(names)
    known[backend] = names
  end
  return known[backend]
end

-- The address of the first server that is up, or nil. One that is down is not tried: that takes HAProxy seconds.
local function address_of(txn, backend)
  for _, name in ipairs(servers_of(backend)) do
    if txn.f:srv_is_up(backend .. "/" .. name) == 1 then return core.backends[backend].servers[name]:get_addr() end
  end
end

local function question(txn)
  local headers = {
    ["x-original-method"] = { txn.f:method() },
    ["x-original-uri"] = { txn.f:pathq() or "*" }, -- OPTIONS *
    ["x-original-host"] = { txn.f:req_hdr("host") },
    ["x-original-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" },
    ["x-real-ip"] = { txn.f:src() },
  }
  if secret then headers["x-sluice-secret"] = { secret } end
  local client = txn.http:req_get_headers()
  for _, name in ipairs(passed) do
    local values = client[name]
    if values then
      headers[name] = {}
      for i = 0, #values do table.insert(headers[name], values[i]) end
    end
  end
  return headers
end

-- The first value of a field, or nil.
local function value_of(answer, name)
  local values = answer.headers and answer.headers[name]
  return values and values[0]
end

local function refuse(txn, answer)
  local reply = txn:reply({ status = 429 })
  for name, values in pairs(answer.headers) do
    if not own[name] then
      for i = 0, #values do reply:add_header(name, values[i]) end
    end
  end
  if txn.f:method() ~= "HEAD" then reply:set_body(answer.body) end
  txn:done(reply)
end

local function undecided(txn, on_failure, why)
  txn:Warning("sluice: a request is undecided (" .. on_failure .. "): " .. why)
  if on_failure == "open" then return end
  local reply = txn:reply({ status = 503 })
  reply:add_header("retry-after", "1")
  reply:add_header("cache-control", "no-store")
  txn:done(reply)
end

local function ask(txn, backend, path, on_failure)
  local address = address_of(txn, backend)
  if not address then return undecided(txn, on_failure, "no server of backend " .. backend .. " is up") end
  local url = "http://" .. address .. path
  local answer = core.httpclient():get({ url = url, headers = question(txn), timeout = timeout_ms })
  if answer.status == 200 or answer.status == 204 then
    txn:set_var("txn.sluice_ratelimit", value_of(answer, "ratelimit"))
    txn:set_var("txn.sluice_ratelimit_policy", value_of(answer, "ratelimit-policy"))
  elseif answer.status == 429 then
    refuse(txn, answer)
  else
    local is_gone = not answer.status or answer.status >= 500
    undecided(txn, is_gone and on_failure or "closed", tostring(answer.status) .. " " .. tostring(answer.body))
  end
end

core.register_action("sluice", { "http-req" }, ask, 3)
