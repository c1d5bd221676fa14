-- The first seat of a resource, behind the one with its own key, that is held, and what it holds; nothing if none is.
-- See seats.lua. REDLOCK_LIMIT_MAX is the last seat.
local LIMIT_MAX = 64 -- also in C
local function seat_held(key)
    local length = tonumber(redis.pcall('GET', 'hf:seats:' .. key) or nil)
    if not length then
        return
    end
    local seats = {'EXISTS'}
    for seat = 2, LIMIT_MAX do
        seats[seat] = string.sub(key, 1, length) .. 'hf:seat:' .. seat .. ':' .. string.sub(key, length + 1)
    end
    for seat = 2, redis.call(unpack(seats)) > 0 and LIMIT_MAX or 0 do
        local held = redis.pcall('GET', seats[seat])
        if held then
            return seats[seat], held
        end
    end
end
