-- How much there is to do: tasks in the given queues, and entries of the schedule that are due within the horizon.
-- KEYS: schedule, then the queues. ARGV: the horizon in seconds. Answers the two numbers.
local waiting = 0
for i = 2, #KEYS do
    waiting = waiting + redis.call('LLEN', KEYS[i])
end
local time = redis.call('TIME')
return {waiting, redis.call('ZCOUNT', KEYS[1], '-inf', tonumber(time[1]) + tonumber(ARGV[1]))}
