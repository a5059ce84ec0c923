-- The sliding counter: two counters and when the last admission was, as "START PREVIOUS CURRENT LAST".

local sliding_counter = {}

-- What the previous window still counts for, times the window.
local function carried(limit, state)
    return state.previous * math.max(0, math.min(limit.window, limit.window - (state.last - state.start)))
end

local function fits(limit, carried, room)
    if limit.strict == 1 then return carried < room * limit.window end
    return carried <= room * limit.window
end

local function room(limit, current)
    return limit.n - current - limit.cost + limit.strict
end

function sliding_counter.load(limit, key, text, now)
    local state = { start = now - now % limit.window, previous = 0, current = 0, last = now }
    if not text then return state end
    local s, p, c, l = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
    s, p, c, l = tonumber(s), tonumber(p), tonumber(c), tonumber(l)
    if l - now > limit.window then
        -- The clock was set: what the estimate held then is spent in the window it was set to.
        local then_ = { start = s, previous = p, current = c, last = l }
        state.current = ceil_div(carried(limit, then_), limit.window) + c
        state.changed = true
        return state
    end
    state.last = math.max(now, l)
    state.start = state.last - state.last % limit.window
    if state.start == s then
        state.previous, state.current = p, c
    elseif state.start - s == limit.window then
        state.previous = c
    end
    return state
end

function sliding_counter.admits(limit, state)
    return fits(limit, carried(limit, state), room(limit, state.current))
end

function sliding_counter.charge(limit, state)
    state.current = state.current + limit.cost
    state.changed = true
end

-- The fewest microseconds into a window after which the previous one's part leaves room; nil if not within the window.
local function first_elapsed(limit, previous, room)
    if room < limit.strict then return nil end
    if previous == 0 then return 0 end
    local covered
    if limit.strict == 1 then
        covered = ceil_div(room * limit.window, previous) - 1
    else
        covered = floor_div(room * limit.window, previous)
    end
    local elapsed = math.max(0, limit.window - covered)
    if elapsed < limit.window then return elapsed end
    return nil
end

function sliding_counter.outlook(limit, state, now)
    local free = limit.n * limit.window - carried(limit, state)
    local whole
    if limit.strict == 1 then whole = ceil_div(free, limit.window) else whole = floor_div(free, limit.window) end
    local retry = now
    if not sliding_counter.admits(limit, state) then
        local elapsed = first_elapsed(limit, state.previous, room(limit, state.current))
        if elapsed then
            retry = state.start + elapsed
        else
            elapsed = first_elapsed(limit, state.current, room(limit, 0))
            retry = state.start + limit.window + (elapsed or limit.window)
        end
    end
    return whole - state.current, retry
end

function sliding_counter.save(limit, key, state, now)
    local text = format('%d %d %d %d', state.start, state.previous, state.current, state.last)
    call('SET', key, text, 'PX', lifetime(state.start + 2 * limit.window, now))
end
