-- Moves due entries of a sorted set to their queues. Whoever removes an entry moves it, so several processes may try.
-- An entry whose target holds a foreign value stays where it is. So does one that is not due: since it was looked up, its
-- task was claimed, and parked again with the same text.
--
-- KEYS: the sorted set, `queues`, `dead`, then one list an entry.
-- ARGV: the longest age in seconds and the greatest number of entries of `dead`, then for each entry its text, the
--       text to push, the queue's name ('' = it is no task: bury the text).
-- Answers the number of entries that were moved.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local moved, buried = 0, 0
for i = 4, #KEYS do
    local at = (i - 4) * 3 + 3
    local bury = ARGV[at + 2] == ''
    local target = bury and redis.pcall('ZCARD', KEYS[3]) or redis.pcall('LLEN', KEYS[i])
    local due = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at]))
    if type(target) == 'number' and due and due <= now then
        redis.call('ZREM', KEYS[1], ARGV[at])
        moved = moved + 1
        if bury then
            -- Scores differ, because dashboards address an entry by its score.
            redis.call('ZADD', KEYS[3], string.format('%.6f', now + buried / 1000000), ARGV[at + 1])
            buried = buried + 1
        else
            redis.call('LPUSH', KEYS[i], ARGV[at + 1])
            redis.pcall('SADD', KEYS[2], ARGV[at + 2])
        end
    end
end
if buried > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.6f', now - tonumber(ARGV[1])))
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[2]))
end
return moved
