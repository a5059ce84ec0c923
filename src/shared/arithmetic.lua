-- Division of whole numbers below 2^53, rounded as said: the quotient of doubles may be off by one, its remainder tells.

local call, floor, format = redis.call, math.floor, string.format

local function floor_div(a, b)
    local q = floor(a / b)
    local rest = a - q * b
    if rest < 0 then return q - 1 end
    if rest >= b then return q + 1 end
    return q
end

local function ceil_div(a, b)
    return -floor_div(-a, b)
end

-- A time that is given goes by at another pace than the server's: what lives by the server's lives so many milliseconds longer.
local longer = 0
if tonumber(ARGV[1]) ~= 0 then longer = 3600000 end

-- Whole milliseconds from now to an instant, rounded up, at least one.
local function lifetime(ends, now)
    local whole = ceil_div(ends - now, 1000)
    if whole < 1 then whole = 1 end
    return format('%d', whole + longer)
end
