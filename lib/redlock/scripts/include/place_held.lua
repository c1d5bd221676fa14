-- The first place of a resource, behind the one with its own key, that is held, and what it holds; nothing if none is.
-- See places.lua. REDLOCK_LIMIT_MAX is the last place.
local function place_held(key)
    local length = tonumber(redis.pcall('GET', 'hf:places:' .. key) or nil)
    if not length then
        return
    end
    local places = {'MGET'}
    for place = 2, 64 do
        places[place] = string.sub(key, 1, length) .. 'hf:place:' .. place .. ':' .. string.sub(key, length + 1)
    end
    local values = redis.call(unpack(places))
    for place = 2, 64 do
        if values[place - 1] then
            return places[place], values[place - 1]
        end
    end
end
