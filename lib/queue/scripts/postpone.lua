-- include: entry_add.lua
-- Moves a claimed task into a sorted set: a failed task into `retry`, a delayed one into `schedule`, a hopeless one
-- into `dead`.
--
-- KEYS: the process, the sorted set, the task's unique key ('' = none), which a task that dies releases.
-- ARGV: slot, id that it holds, new id, delay in seconds, payload, jid, then for `dead` the longest age in
--       seconds and the greatest number of entries (0 = no trimming), and '1' for a task that was ended before it ran:
--       the slot holds only the id.
-- Returns 1 if moved (also by an earlier call with the same new id), 0 if the claim is lost.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return 1
end
if id ~= ARGV[2] or #claim < 16 or (#claim == 16) ~= (ARGV[9] == '1') then
    return 0
end
redis.call('ZCARD', KEYS[2]) -- a foreign value under this key is an error now, before the task moves
redis.call('HDEL', KEYS[1], ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
entry_add(KEYS[2], string.format('%.6f', now + tonumber(ARGV[4])), ARGV[5])
local age, most = tonumber(ARGV[7]), tonumber(ARGV[8])
if most > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now - age))
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -most)
    if KEYS[3] ~= '' and redis.pcall('GET', KEYS[3]) == ARGV[6] then
        redis.call('DEL', KEYS[3])
    end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
