-- The last call of a process that stops: puts whatever it still has back at the head of its queue, and removes the
-- process. A task whose queue's key holds a foreign value cannot go back: it stays, and so does the process in the
-- list.
--
-- KEYS: processes, the process, then for each queue its bell and its list. ARGV: identity, prefix of the queues' keys.
-- Returns the number of tasks that it could not give back.
local stay = 0
local function is_list(key)
    return type(redis.pcall('LLEN', key)) == 'number'
end
for i = 3, #KEYS, 2 do
    if is_list(KEYS[i + 1]) then
        -- The newest first, so that the oldest arrives at the head.
        local task = redis.call('LPOP', KEYS[i])
        while task do
            redis.call('RPUSH', KEYS[i + 1], task)
            task = redis.call('LPOP', KEYS[i])
        end
    else
        stay = stay + redis.call('LLEN', KEYS[i])
    end
end
local claims = redis.call('HGETALL', KEYS[2])
for i = 1, #claims, 2 do
    local claim = claims[i + 1]
    local line = tonumber(claims[i]) and string.find(claim, '\n', 17, true)
    local queue = line and ARGV[2] .. string.sub(claim, 17, line - 1)
    if line and not is_list(queue) then
        stay = stay + 1
    elseif line then
        redis.call('HDEL', KEYS[2], claims[i])
        redis.call('RPUSH', queue, string.sub(claim, line + 1))
    end
end
if stay == 0 then
    redis.call('DEL', KEYS[2])
    redis.call('ZREM', KEYS[1], ARGV[1])
end
return stay
