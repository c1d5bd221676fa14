-- How much there is to do: tasks in the given queues, and entries of the schedule whose time lies between two moments.
-- KEYS: schedule, then the queues. ARGV: seconds from the first moment to now, and from now to the second.
-- Answers the two numbers.
local waiting = 0
for i = 2, #KEYS do
    waiting = waiting + redis.call('LLEN', KEYS[i])
end
local now = tonumber(redis.call('TIME')[1])
return {waiting, redis.call('ZCOUNT', KEYS[1], now - tonumber(ARGV[1]), now + tonumber(ARGV[2]))}
