-- Decides on many requests in one step. Each asks several limits: all are checked before any is charged. All numbers are whole and
-- below 2^53, where doubles are exact.
--
-- KEYS: the limits' states, all of one hash slot. ARGV: the time, or 0 for the server's; how many kinds of limits there are; of
-- each ALGORITHM N WINDOW CAPACITY COST STRICT; of each key which kind it is; and then, request by request, how many keys it
-- asks and which. Without any such request each key is asked once, by itself.
-- Answers: the time, and for each request which of its keys refuses it (0: none, it is charged), what is left for requests of cost 1
-- of the key that has least, and how many microseconds from now the same request would be admitted.

local algorithms = { fixed_window, sliding_log, sliding_counter, gcra }
local now = tonumber(ARGV[1])
if now == 0 then
    local time = redis.call('TIME')
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
local kinds = at - 1
at = at + #KEYS

-- All states that are one text each, read in few calls.
local texts = {}
for first = 1, #KEYS, 1000 do
    local last = math.min(first + 999, #KEYS)
    local some = redis.call('MGET', unpack(KEYS, first, last))
    for i = first, last do texts[i] = some[i - first + 1] end
end

local states = {}
local function state_of(key)
    local state = states[key]
    if not state then
        local limit = limits[tonumber(ARGV[kinds + key])]
        state = limit.algorithm.load(limit, KEYS[key], texts[key], now)
        state.limit = limit
        states[key] = state
    end
    return state
end

local answers = { now }
local function answer(asked)
    local refused, least, wait = 0, nil, 0
    for _, key in ipairs(asked) do
        local state = state_of(key)
        if not state.limit.algorithm.admits(state.limit, state) then
            local _, retry = state.limit.algorithm.outlook(state.limit, state, now)
            if refused == 0 or retry - now > wait then refused, wait = key, retry - now end
        end
    end
    if refused == 0 then
        for _, key in ipairs(asked) do
            local state = state_of(key)
            state.limit.algorithm.charge(state.limit, state)
        end
    end
    for _, key in ipairs(asked) do
        local state = state_of(key)
        local remaining, retry = state.limit.algorithm.outlook(state.limit, state, now)
        if not least or remaining < least then least = remaining end
        if refused == 0 and retry - now > wait then wait = retry - now end
    end
    answers[#answers + 1] = refused
    answers[#answers + 1] = math.max(0, least or 0)
    answers[#answers + 1] = wait
end

if at > #ARGV then
    for key = 1, #KEYS do answer({ key }) end
end
while at <= #ARGV do
    local asked = {}
    for i = 1, tonumber(ARGV[at]) do asked[i] = tonumber(ARGV[at + i]) end
    at = at + #asked + 1
    answer(asked)
end
for key, state in pairs(states) do
    if state.changed then state.limit.algorithm.save(state.limit, KEYS[key], state, now) end
end
return answers
