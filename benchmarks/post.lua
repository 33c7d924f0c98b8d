-- Single reports for wrk: every request brings another id, so that every one is written.
-- RETICENT_ROUND is the round under way; the plan is examples/plan.toml.

local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
local number = os.getenv("RETICENT_ROUND")
local threads = 0
local head, tail, count

function setup(thread)
  thread:set("place", threads)
  threads = threads + 1
end

local function text(value, length)
  local found = {}
  for place = length, 1, -1 do
    local sextet = value % 64
    found[place] = letters:sub(sextet + 1, sextet + 1)
    value = (value - sextet) / 64
  end
  return table.concat(found)
end

function init()
  math.randomseed(os.time() + place)
  local start = {}
  for _ = 1, 14 do
    local sextet = math.random(64)
    start[#start + 1] = letters:sub(sextet, sextet)
  end
  head = '{"plan":"app-usage","version":1,"round":' .. number .. ',"id":"' .. text(place, 1) .. table.concat(start)
  tail = 'A","cohort":7,"bits":"oA","segment":{"os":"linux"}}'
  wrk.method, wrk.path = "POST", "/v1/reports"
  wrk.headers["Content-Type"] = "application/json"
  count = 0
end

function request()
  count = count + 1
  return wrk.format(nil, nil, nil, head .. text(count, 6) .. tail)
end
