-- Compare and set of a marker (marker.h). KEYS: the marker. ARGV: the expected text ("" = nothing), the new one ("" =
-- nothing), and the highest token that other nodes know ("" = the fences stay as they are). Returns {1} if the new one
-- is there now, or {0, what was found} if something else was: then nothing changed. Safe to repeat. A marker has no
-- ttl. A node that gets a vote may have forgotten the last tokens. So from then on its tokens begin above those that
-- others know, and above its clock: where a majority forgot, that is all that is left.
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
    return {1}
end
if ARGV[3] ~= '' then
    local time = redis.call('TIME')
    local highest = math.max(tonumber(ARGV[3]), time[1] * 1000000 + time[2])
    local floor = tonumber(redis.pcall('GET', 'hf:fences:floor') or 0)
    if floor and floor < highest then
        redis.call('SET', 'hf:fences:floor', string.format('%.0f', highest))
    end
end
redis.call('SET', KEYS[1], ARGV[2])
return {1}
