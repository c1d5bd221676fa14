-- Gives the keys of a lock to a node that does not have them: all or none. KEYS: the marker, then the keys. ARGV:
-- marker text, the deadline in microseconds of this node's clock, then value, token and ttl in milliseconds; "shared"
-- behind them if the value is that of a reader. Returns, behind "0" and the time, "1", or "0" if a key has another
-- owner, or a fence shows that another owner was there meanwhile. The floor shows nothing: it is about all keys.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
-- include: seats.lua
-- include: seat_held.lua
local is_shared, highest = ARGV[6] == 'shared', highest_fence(0)
local owner = is_shared and 'hf:shared' or ARGV[3]
if not highest or highest > tonumber(ARGV[4]) then
    return '0 ' .. stamp .. ' 0'
end
for i = 2, #KEYS do
    local held, beside = redis.pcall('GET', KEYS[i])
    if is_shared then
        beside = seat_held(KEYS[i])
    else
        beside = read_beside(resource_of(KEYS[i]))
    end
    if (held and held ~= owner) or beside then
        return '0 ' .. stamp .. ' 0'
    end
end
raise_fences(ARGV[4])
for i = 2, #KEYS do
    if is_shared then
        add_reader(KEYS[i], ARGV[3], ARGV[5])
    else
        redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[5])
        note_seat(KEYS[i])
    end
end
return '0 ' .. stamp .. ' 1'
