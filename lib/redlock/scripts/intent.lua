-- Keeps new readers from each key that has readers now, for a writer that waits. KEYS: the marker, then the keys. ARGV:
-- marker text, deadline in microseconds of this node's clock, the writer's value. It ends one turn (REDLOCK_TURN_NS)
-- after the last reader does if none extends: by then the writer asks again. A writer that gives up withdraws it
-- (shared_release.lua). It is for fairness alone. Returns, behind "0" and the time, "1".
-- include: marker.lua
-- include: deadline.lua
for i = 2, #KEYS do
    local left = redis.pcall('GET', KEYS[i]) == 'hf:shared' and redis.call('PTTL', KEYS[i])
    if left then
        redis.call('SET', 'hf:writer:' .. KEYS[i], ARGV[3], 'PX', left + 200)
    end
end
return '0 ' .. stamp .. ' 1'
