-- Ends a task and removes what belongs to it: its unique key and its cancel mark.
-- KEYS: the process, the unique key ('' = none), cancels, the task's iteration hash. ARGV: slot, id that its place
--       holds, new id, jid, '1' if it was cancelled, else '0'.
-- Returns 1 if ended (also by an earlier call with the same new id), 0 if the claim is lost.
local id = string.sub(redis.call('HGET', KEYS[1], ARGV[1]) or '', 1, 16)
if id == ARGV[3] then
    return 1
end
if id ~= ARGV[2] or id == '' then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if KEYS[2] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[4] then
    redis.call('DEL', KEYS[2])
end
if ARGV[5] == '1' then
    redis.pcall('ZREM', KEYS[3], ARGV[4])
    if redis.pcall('HEXISTS', KEYS[4], 'cancelled') == 1 then
        redis.call('UNLINK', KEYS[4])
    end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
