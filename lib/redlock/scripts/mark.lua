-- Compare and set of a marker (marker.h). KEYS: the marker. ARGV: the text that must be there ("" = nothing), and the
-- one that is to be there ("" = nothing). Answers {1} when it is there now, {0, what was found} when something else
-- was: nothing was changed then. May be repeated. A marker has no ttl.
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
