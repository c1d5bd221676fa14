-- include: tick_note.lua
-- Returns from when on ticks of periodic tasks can be missed: the last tick that was pushed, or later, when this
-- schedule was first seen. So neither a new task nor a changed schedule catches up ticks that it never had.
--
-- KEYS: hf:2:periodic. ARGV: name and schedule of each.
-- Returns the node's time in seconds and microseconds, then a time for each name.
local time = redis.call('TIME')
local now = tonumber(time[1])
local answer = {now, tonumber(time[2])}
for i = 1, #ARGV, 2 do
    local last, since, schedule = tick_note_read(redis.call('HGET', KEYS[1], ARGV[i]))
    if schedule ~= ARGV[i + 1] then
        since = now
        redis.pcall('HSET', KEYS[1], ARGV[i], tick_note_text(last, since, ARGV[i + 1])) -- fails if memory is full
    end
    answer[#answer + 1] = math.max(last, since)
end
return answer
