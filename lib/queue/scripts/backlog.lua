-- How much there is to do: tasks in the given queues, without those that are paused, and entries of the schedule whose
-- time lies between two moments.
-- KEYS: schedule, paused, then the queues. ARGV: seconds from the first moment to now, and from now to the second, then
-- the names of the queues.
-- Answers the two numbers.
local waiting = 0
for i = 3, #KEYS do
    local length = redis.pcall('SISMEMBER', KEYS[2], ARGV[i]) ~= 1 and redis.pcall('LLEN', KEYS[i])
    waiting = waiting + (type(length) == 'number' and length or 0)
end
local now = tonumber(redis.call('TIME')[1])
return {waiting, redis.call('ZCOUNT', KEYS[1], now - tonumber(ARGV[1]), now + tonumber(ARGV[2]))}
