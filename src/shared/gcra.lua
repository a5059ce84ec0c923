-- The token bucket as GCRA: one integer, the theoretical arrival time in microseconds; where the refill of a token is no whole
-- number of them, its numerator over n behind it, as "TIME NUMERATOR". A token is worth a window in units of microseconds times n.

local gcra = {}

function gcra.load(limit, key, text, now)
    local debt = 0
    if text then
        local at, part = tonumber(text), 0
        if not at then
            local t, p = string.match(text, '^(%d+) (%d+)$')
            at, part = tonumber(t), math.min(tonumber(p), limit.n - 1)
        end
        debt = (at - now) * limit.n + part
        if debt < 0 then debt = 0 end
        -- Further ahead than a full bucket's worth it comes from a clock that stepped back: it counts as empty, and is written so,
        -- so that it locks nobody out for longer than a refill.
        if debt > limit.capacity then return { debt = limit.capacity, changed = true } end
    end
    return { debt = debt }
end

function gcra.admits(limit, state)
    return state.debt + limit.cost * limit.window <= limit.capacity
end

function gcra.charge(limit, state)
    state.debt = state.debt + limit.cost * limit.window
    state.changed = true
end

function gcra.outlook(limit, state, now)
    local free = limit.capacity - state.debt
    local missing = limit.cost * limit.window - free
    local retry = now
    if missing > 0 then retry = now + ceil_div(missing, limit.n) end
    return floor_div(free, limit.window), retry
end

function gcra.save(limit, key, state, now)
    local whole = floor_div(state.debt, limit.n)
    local part = state.debt - whole * limit.n
    if part > 0 then
        call('SET', key, format('%d %d', now + whole, part), 'PX', lifetime(now + whole + 1, now))
    else
        call('SET', key, format('%d', now + whole), 'PX', lifetime(now + whole, now))
    end
end
