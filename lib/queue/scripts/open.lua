-- The last step before a task runs, where one is needed: checks whether the task is cancelled, and ends a task that
-- may run at most once before it runs.
--
-- KEYS: the process, the task's iteration hash, cancels. ARGV: slot, id that it holds, new id, jid, '1' to end
-- it, else '0'.
-- Returns 1 to run it (also for a repetition), 2 if it is cancelled, 0 if the claim is lost.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return 1
end
if id ~= ARGV[2] or #claim <= 16 then
    return 0
end
if redis.pcall('HEXISTS', KEYS[2], 'cancelled') == 1 or type(redis.pcall('ZSCORE', KEYS[3], ARGV[4])) == 'string' then
    return 2
end
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[5] == '1' then
    -- Shows that the task runs while the slot holds this id, for producers that push the same unique task.
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], 'once:' .. ARGV[1], ARGV[3] .. ARGV[4])
else
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(claim, 17))
end
return 1
