-- Gives the keys of a lock to a node that does not have them: all or none. KEYS: the marker, then the keys. ARGV:
-- marker text, the deadline in microseconds of this node's clock, then value, token and ttl in milliseconds. Returns,
-- behind "0" and the time, "1", or "0" if a key has another owner, or a fence shows that another owner was there
-- meanwhile. The floor shows nothing: it is about all keys.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: seats.lua
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if (held and held ~= ARGV[3]) or read_beside(resource_of(KEYS[i])) then
        return '0 ' .. stamp .. ' 0'
    end
end
local highest = highest_fence(0)
if not highest or highest > tonumber(ARGV[4]) then
    return '0 ' .. stamp .. ' 0'
end
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[5])
    note_seat(KEYS[i])
end
raise_fences(ARGV[4])
return '0 ' .. stamp .. ' 1'
