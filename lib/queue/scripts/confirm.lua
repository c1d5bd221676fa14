-- include: successor_claims.lua
-- Checks that a claim as successor still exists, and keeps it for its process: for a while longer, or for good. In the
-- second case it is confirmed and from now on follows the lease, like all others. Only then may its task start.
--
-- KEYS: the process, successors. ARGV: slot, id that it holds, the list's name, the task's jid, that of the task
-- that had the lock before, microseconds for which the claim is kept ('0' = it is confirmed).
-- Returns 1, or 0 if the claim is lost; a repetition gets the same. A late copy never reverts a confirmed claim.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if string.sub(claim, 1, 16) ~= ARGV[2] or #claim <= 16 then
    return 0
end
local entry = successor_entry(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if ARGV[6] == '0' then
    local removed = redis.pcall('ZREM', KEYS[2], entry)
    -- If the node takes no writes, nothing was confirmed. A foreign value under the key has no entries.
    if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE', 1, true) then
        return removed
    end
elseif type(redis.pcall('ZSCORE', KEYS[2], entry)) == 'string' then
    local time = redis.call('TIME')
    local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
    redis.pcall('ZADD', KEYS[2], string.format('%.6f', now + tonumber(ARGV[6]) / 1000000), entry)
end
return 1
