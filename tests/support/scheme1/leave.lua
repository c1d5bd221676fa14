-- The last call of a process that stops: whatever it still has goes back to the head of its queue, and nothing of
-- the process is left. What cannot go back, because its queue's key holds a foreign value, stays, and so does the
-- process in the list.
--
-- KEYS: processes, claims, then for each queue its bell and its list. ARGV: identity, prefix of the queues' keys.
-- Answers the number of tasks that could not be given back.
local stay = 0
local function is_list(key)
    return type(redis.pcall('LLEN', key)) == 'number'
end
for i = 3, #KEYS, 2 do
    if is_list(KEYS[i + 1]) then
        -- The newest first, so that the oldest ends at the head.
        local task = redis.call('LPOP', KEYS[i])
        while task do
            redis.call('RPUSH', KEYS[i + 1], task)
            task = redis.call('LPOP', KEYS[i])
        end
    else
        stay = stay + redis.call('LLEN', KEYS[i])
    end
end
local places = redis.call('HGETALL', KEYS[2])
for i = 1, #places, 2 do
    local place = places[i + 1]
    local line = string.find(place, '\n', 17, true)
    local queue = line and ARGV[2] .. string.sub(place, 17, line - 1)
    if line and not is_list(queue) then
        stay = stay + 1
    else
        redis.call('HDEL', KEYS[2], places[i])
        if line then
            redis.call('RPUSH', queue, string.sub(place, line + 1))
        end
    end
end
if stay == 0 then
    redis.call('SREM', KEYS[1], ARGV[1])
end
return stay
