-- The fixed window: one counter that goes with its window, as "START USED".

local fixed_window = {}

function fixed_window.load(limit, key, text, now)
    local at = now - now % limit.window
    local start, used, moved = at, 0, false
    if text then
        local s, u = string.match(text, '^(%d+) (%d+)$')
        s, u = tonumber(s), tonumber(u)
        -- A clock that stepped back by up to a window finds this one's counter; further back it takes along what was spent.
        if s == at + limit.window then start = s end
        if s >= at then used = u end
        moved = s > at + limit.window
    end
    return { start = start, used = used, changed = moved }
end

function fixed_window.admits(limit, state)
    return state.used + limit.cost <= limit.n
end

function fixed_window.charge(limit, state)
    state.used = state.used + limit.cost
    state.changed = true
end

function fixed_window.outlook(limit, state, now)
    local retry = now
    if not fixed_window.admits(limit, state) then retry = state.start + limit.window end
    return limit.n - state.used, retry
end

function fixed_window.save(limit, key, state, now)
    call('SET', key, format('%d %d', state.start, state.used), 'PX', lifetime(state.start + limit.window, now))
end
