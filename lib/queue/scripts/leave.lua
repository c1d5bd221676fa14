-- The last call of a process that stops: whatever it still has goes back to the head of its queue, and nothing of
-- the process is left.
--
-- KEYS: processes, claims, then for each queue its bell and its list. ARGV: identity, prefix of the queues' keys.
-- Answers the number of tasks that were given back.
local back = 0
for i = 3, #KEYS, 2 do
    local task = redis.call('RPOP', KEYS[i])
    while task do
        redis.call('RPUSH', KEYS[i + 1], task)
        back = back + 1
        task = redis.call('RPOP', KEYS[i])
    end
end
local places = redis.call('HVALS', KEYS[2])
redis.call('DEL', KEYS[2])
for i = 1, #places do
    local line = string.find(places[i], '\n', 17, true)
    if line then
        redis.call('RPUSH', ARGV[2] .. string.sub(places[i], 17, line - 1), string.sub(places[i], line + 1))
        back = back + 1
    end
end
redis.call('SREM', KEYS[1], ARGV[1])
return back
