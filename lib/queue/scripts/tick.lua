-- include: tick_note.lua
-- Pushes the task of one tick of a periodic task and notes the tick, unless a worker did so before: the first of
-- all workers pushes it, and a repetition after a lost reply changes nothing.
--
-- KEYS: hf:2:periodic, queues, the queue.
-- ARGV: name of the periodic task, name of the queue, the tick, how many seconds old it may be, the task.
-- Returns {1 pushed, 0 pushed before (this tick or a later one), -1 too early, -2 too old; the node's time in seconds
-- and microseconds; from when on ticks can be missed, as ticks.lua}. Ticks are whole seconds.
local time = redis.call('TIME')
local now, tick = tonumber(time[1]), tonumber(ARGV[3])
local last, since, schedule = tick_note_read(redis.call('HGET', KEYS[1], ARGV[1]))
local function answer(what)
    return {what, now, tonumber(time[2]), math.max(last, since)}
end
if last >= tick then
    return answer(0)
elseif tick > now then
    return answer(-1)
elseif now - tick > tonumber(ARGV[4]) then
    return answer(-2)
end
redis.call('LLEN', KEYS[3]) -- a foreign value under this key is an error now, before the tick is noted
last = tick
redis.call('HSET', KEYS[1], ARGV[1], tick_note_text(last, since, schedule or ''))
redis.call('LPUSH', KEYS[3], ARGV[5])
redis.pcall('SADD', KEYS[2], ARGV[2])
return answer(1)
