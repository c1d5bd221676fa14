-- Compare and set of a marker (marker.h). KEYS: the marker. ARGV: the expected text ("" = nothing), and the new one
-- ("" = nothing). Returns {1} if the new one is there now, or {0, what was found} if something else was: then nothing
-- changed. Safe to repeat. A marker has no ttl.
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' then
    if not string.find(found.err, 'WRONGTYPE', 1, true) then
        return found
    end
    found = '?'
end
found = found or ''
if found ~= ARGV[1] and found ~= ARGV[2] then
    return {0, found}
end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[2])
end
return {1}
