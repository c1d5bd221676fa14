-- Ends a task whose lock is held elsewhere as skipped. A task that was recovered from a dead process, or that has
-- waited before, has to be parked instead.
--
-- KEYS: the process, the unique key ('' = none), cancels, the task's iteration hash, from whom it was recovered, then
--       the orders of all lists in which it may wait.
-- ARGV: slot, id that it holds, new id, jid, '1' if it was cancelled, else '0'.
-- Returns 1 if ended, 2 if it has to be parked: then the slot keeps it under the new id (also for a repetition);
-- 0 if the claim is lost.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return #claim == 16 and 1 or 2
end
if id ~= ARGV[2] or id == '' then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
local waits = redis.call('EXISTS', KEYS[5]) == 1
for i = 6, #KEYS do
    waits = waits or type(redis.pcall('ZSCORE', KEYS[i], ARGV[4])) == 'string'
end
if waits then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(claim, 17))
    return 2
end
-- include: ended.lua
