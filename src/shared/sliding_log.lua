-- The sliding log: a sorted set of what was admitted, scored by when. A member is "TOTAL COST": the sum of all costs up to and with
-- it, in digits enough to sort by, so that the sum of any stretch is one subtraction.

local sliding_log = {}

local function member(key, rank)
    local found = call('ZRANGE', key, rank, rank, 'WITHSCORES')
    if not found[1] then return nil end
    local total, cost = string.match(found[1], '^(%d+) (%d+)$')
    return { total = tonumber(total), cost = tonumber(cost), at = tonumber(found[2]) }
end

local function add(key, at, total, cost)
    call('ZADD', key, at, format('%016d %d', total, cost))
end

function sliding_log.load(limit, key, _, now)
    local state = { key = key, total = 0, used = 0, before = 0, at = now }
    local last = member(key, -1)
    if not last then return state end
    -- A clock that stepped back by up to a window counts as standing at the last admission.
    if last.at > now and last.at - now <= limit.window then state.at = last.at end
    local left = state.at - limit.window
    if last.at <= left then
        call('DEL', key)
        return state
    end
    call('ZREMRANGEBYSCORE', key, '-inf', left)
    local first = member(key, 0)
    state.total = last.total
    state.before = first.total - first.cost
    state.used = state.total - state.before
    state.last = last.at
    if last.at > state.at then
        -- The clock was set: what is spent counts from now.
        call('DEL', key)
        add(key, state.at, state.used, state.used)
        state.total, state.before, state.last = state.used, 0, state.at
        state.changed = true
    end
    return state
end

function sliding_log.admits(limit, state)
    return state.used + limit.cost <= limit.n
end

function sliding_log.charge(limit, state)
    state.total = state.total + limit.cost
    state.used = state.used + limit.cost
    state.last = state.at
    add(state.key, state.at, state.total, limit.cost)
    state.changed = true
end

function sliding_log.outlook(limit, state, now)
    local remaining, excess = limit.n - state.used, state.used + limit.cost - limit.n
    if excess <= 0 then return remaining, now end
    -- The first admission with which enough has left the window.
    local low, high = 0, call('ZCARD', state.key) - 1
    while low < high do
        local middle = floor((low + high) / 2)
        if member(state.key, middle).total - state.before >= excess then high = middle else low = middle + 1 end
    end
    return remaining, member(state.key, low).at + limit.window
end

function sliding_log.save(limit, key, state, now)
    call('PEXPIRE', key, lifetime(state.last + limit.window, now))
end
