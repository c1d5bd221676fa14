-- Moves due entries of a sorted set to their queues. Whoever removes an entry moves it, so several processes may try.
--
-- KEYS: the sorted set, `queues`, `dead`, then one list an entry.
-- ARGV: for each entry its text, the text to push, the queue's name ('' = it is no task: bury the text).
-- Answers the number of entries that were moved.
local moved = 0
for i = 4, #KEYS do
    local at = (i - 4) * 3 + 1
    if redis.call('ZREM', KEYS[1], ARGV[at]) == 1 then
        moved = moved + 1
        if ARGV[at + 2] == '' then
            local time = redis.call('TIME')
            redis.call('ZADD', KEYS[3], string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000),
                ARGV[at + 1])
        else
            redis.call('SADD', KEYS[2], ARGV[at + 2])
            redis.call('LPUSH', KEYS[i], ARGV[at + 1])
        end
    end
end
return moved
