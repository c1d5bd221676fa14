-- How much there is to do: tasks in the given queues, and entries of `schedule` and `retry`.
-- KEYS: schedule, retry, then the queues. Answers the three numbers.
local waiting = 0
for i = 3, #KEYS do
    waiting = waiting + redis.call('LLEN', KEYS[i])
end
return {waiting, redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2])}
