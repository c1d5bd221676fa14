-- What is known about periodic tasks. One that was never heard of is noted with the time of now, negative because no
-- tick was pushed: ticks before that time are nobody's, those after it can be missed.
--
-- KEYS: hf:2:periodic. ARGV: names.
-- Answers the node's time in seconds and microseconds, then for each name what is noted.
local time = redis.call('TIME')
local now = tonumber(time[1])
local noted = redis.call('HMGET', KEYS[1], unpack(ARGV))
local answer = {now, tonumber(time[2])}
for i = 1, #ARGV do
    local last = noted[i] and tonumber(noted[i])
    if not last then
        last = -now
        redis.pcall('HSET', KEYS[1], ARGV[i], string.format('%d', last)) -- not when there is no memory
    end
    answer[i + 2] = last
end
return answer
