-- Compare and set of a marker (marker.h). KEYS: the marker. ARGV: the expected text ("" = nothing), and the new one
-- ("" = nothing). Returns {1} if the new one is there now, or {0, what was found} if something else was: then nothing
-- changed. Safe to repeat. A marker has no ttl.
-- A node that votes again, because the new text names its run and the old one did not, may have forgotten the last
-- tokens. So from then on none counts that is below its clock.
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
local run = string.match(ARGV[2], '^3.* run=(%x+)$')
local was_doubted = run and found ~= '' and not string.find(found, run, 1, true)
if was_doubted and string.find(redis.call('INFO', 'server'), run, 1, true) then
    local time = redis.call('TIME')
    local now, floor = time[1] * 1000000 + time[2], tonumber(redis.pcall('GET', 'hf:fences:floor') or 0)
    if floor and floor < now then
        redis.call('SET', 'hf:fences:floor', string.format('%.0f', now))
    end
end
redis.call('SET', KEYS[1], ARGV[2])
return {1}
