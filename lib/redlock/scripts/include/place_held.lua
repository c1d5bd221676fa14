-- The first place of a resource, behind the one with its own key, that is held, and what it holds; nothing if none is.
-- See places.lua. REDLOCK_LIMIT_MAX is the last place.
local function place_held(key)
    local length = tonumber(redis.pcall('GET', 'hf:places:' .. key) or nil)
    if not length then
        return
    end
    local places = {'EXISTS'}
    for place = 2, 64 do
        places[place] = string.sub(key, 1, length) .. 'hf:place:' .. place .. ':' .. string.sub(key, length + 1)
    end
    for place = 2, redis.call(unpack(places)) > 0 and 64 or 0 do
        local held = redis.pcall('GET', places[place])
        if held then
            return places[place], held
        end
    end
end
