-- Decides on many requests in one step. Each asks several limits: all are checked before any is charged. All numbers are whole and
-- below 2^53, where doubles are exact.
--
-- KEYS: the limits' states, all of one hash slot. ARGV: the time, or 0 for the server's; how many kinds of limits there are; of
-- each ALGORITHM N WINDOW CAPACITY COST STRICT; of each key which kind it is, if
-- there are several; and then, request by request, how many keys it
-- asks and which. Without any such request each key is asked once, by itself.
-- Answers: the time, and for each request which of its keys refuses it (0: none, it is charged), what is left for requests of cost 1
-- of the key that has least, and how many microseconds from now the same request would be admitted.

local algorithms = { fixed_window, sliding_log, sliding_counter, gcra }
local now = tonumber(ARGV[1])
if now == 0 then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local limits, at = {}, 3
for i = 1, tonumber(ARGV[2]) do
    limits[i] = {
        algorithm = algorithms[tonumber(ARGV[at])],
        n = tonumber(ARGV[at + 1]),
        window = tonumber(ARGV[at + 2]),
        capacity = tonumber(ARGV[at + 3]),
        cost = tonumber(ARGV[at + 4]),
        strict = tonumber(ARGV[at + 5]),
    }
    at = at + 6
end
local kinds, several = at - 1, #limits > 1
if several then at = at + #KEYS end

-- All states that are one text each, read in few calls.
local texts = {}
for first = 1, #KEYS, 1000 do
    local last = math.min(first + 999, #KEYS)
    local some = call('MGET', unpack(KEYS, first, last))
    for i = first, last do texts[i] = some[i - first + 1] end
end

local states = {}
local function state_of(key)
    local state = states[key]
    if not state then
        local limit = limits[several and tonumber(ARGV[kinds + key]) or 1]
        state = limit.algorithm.load(limit, KEYS[key], texts[key], now)
        state.limit = limit
        states[key] = state
    end
    return state
end

local answers, length = { now }, 1
local function answer(refused, least, wait)
    if least < 0 then least = 0 end
    answers[length + 1], answers[length + 2], answers[length + 3] = refused, least, wait
    length = length + 3
end

-- Asks one limit: the usual request.
local function ask(key)
    local state, refused = state_of(key), 0
    local limit = state.limit
    local algorithm = limit.algorithm
    if algorithm.admits(limit, state) then algorithm.charge(limit, state) else refused = key end
    local remaining, retry = algorithm.outlook(limit, state, now)
    answer(refused, remaining, retry - now)
end

-- Asks several together.
local function ask_all(keys)
    local refused, least, wait = 0, nil, 0
    for _, key in ipairs(keys) do
        local state = state_of(key)
        if not state.limit.algorithm.admits(state.limit, state) then
            local _, retry = state.limit.algorithm.outlook(state.limit, state, now)
            if refused == 0 or retry - now > wait then refused, wait = key, retry - now end
        end
    end
    for _, key in ipairs(keys) do
        local state = state_of(key)
        if refused == 0 then state.limit.algorithm.charge(state.limit, state) end
        local remaining, retry = state.limit.algorithm.outlook(state.limit, state, now)
        if not least or remaining < least then least = remaining end
        if refused == 0 and retry - now > wait then wait = retry - now end
    end
    answer(refused, least or 0, wait)
end

if at > #ARGV then
    for key = 1, #KEYS do ask(key) end
end
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    if count == 1 then
        ask(tonumber(ARGV[at + 1]))
    else
        local keys = {}
        for i = 1, count do keys[i] = tonumber(ARGV[at + i]) end
        ask_all(keys)
    end
    at = at + count + 1
end
for key, state in pairs(states) do
    if state.changed then state.limit.algorithm.save(state.limit, KEYS[key], state, now) end
end
return answers
