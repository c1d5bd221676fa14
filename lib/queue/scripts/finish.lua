-- Ends a task and removes what belongs to it: its unique key and its cancel mark.
-- KEYS: the process, the unique key ('' = none), cancels, the task's iteration hash. ARGV: slot, id that it
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
-- include: ended.lua
