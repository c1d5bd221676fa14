-- Gives the keys of a lock back to a node that forgot them: all or none. KEYS: the marker, then the keys. ARGV: marker
-- text ("" = do not compare, "-" = none), the deadline in microseconds of this node's clock, until which the node would
-- have kept the keys, then value, token, ttl and ttl of fences in milliseconds. Returns, behind "0" and the time, "1",
-- or "0" if a key has another owner, or a fence shows that another owner was there meanwhile.
-- include: marker.lua
-- include: deadline.lua
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    local found = redis.pcall('GET', 'hf:fence:' .. KEYS[i])
    local last = found and (tonumber(found) or math.huge) or 0
    if (held and held ~= ARGV[3]) or not (last <= tonumber(ARGV[4])) then
        return '0 ' .. stamp .. ' 0'
    end
end
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[5])
    redis.call('SET', 'hf:fence:' .. KEYS[i], ARGV[4], 'PX', ARGV[6])
end
return '0 ' .. stamp .. ' 1'
