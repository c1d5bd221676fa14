-- Returns what is known about periodic tasks. An unknown one is noted with the current time, negative because no
-- tick was pushed: ticks before that time do not count, those after it can be missed.
--
-- KEYS: hf:2:periodic. ARGV: names.
-- Returns the node's time in seconds and microseconds, then for each name what is noted.
local time = redis.call('TIME')
local now = tonumber(time[1])
local noted = redis.call('HMGET', KEYS[1], unpack(ARGV))
local answer = {now, tonumber(time[2])}
for i = 1, #ARGV do
    local last = noted[i] and tonumber(noted[i])
    if not last then
        last = -now
        redis.pcall('HSET', KEYS[1], ARGV[i], string.format('%d', last)) -- fails if the node is out of memory
    end
    answer[i + 2] = last
end
return answer
