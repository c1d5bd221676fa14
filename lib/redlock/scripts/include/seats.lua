-- The seats of a resource behind the first have keys of their own. While one of them may be held, hf:seats: and the
-- key of the resource holds the length of the prefix of the keys. It lasts for two of the longest ttls that a lock can
-- have, and grants and extensions of seats set it again: so it outlives each key of a seat.
local SEATS_MS = 1200000 -- also in C
-- The key of the resource of which `key` is a seat, and that length; nothing if it is no seat.
local function resource_of(key)
    local prefix, resource = string.match(key, '^(.-)hf:seat:%d+:(.*)$')
    if resource then
        return prefix .. resource, #prefix
    end
end
local function note_seat(key)
    local resource, length = resource_of(key)
    if resource then
        redis.call('SET', 'hf:seats:' .. resource, length, 'PX', SEATS_MS)
    end
end
-- The resource of a seat, if that has readers.
local function read_beside(resource)
    return resource and redis.pcall('GET', resource) == 'hf:shared' and resource
end
