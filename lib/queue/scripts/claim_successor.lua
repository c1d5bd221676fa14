-- include: waiting_list.lua
-- include: successor_claims.lua
-- Claims the oldest task of a waiting list for the process that holds the lock, so that the lock can be handed on. The
-- slot is empty, or holds a finished task whose lock is on its way to the holder. In the second case the script
-- also settles that task and confirms the holder, which was claimed as a successor itself: from now on its claim
-- follows the lease, like all others.
--
-- KEYS: the process, paused, cancels, `schedule`, the list's order, its waiters, successors.
-- ARGV: slot, id that it holds ('' = none), new id; slot of the holder, the id that it holds, its jid;
--       jid of the finished task ('' = the slot is empty, and the holder has the lock: it leaves the
--       list); the set that the holder locks; the prefix of the queues' keys; the list's name; microseconds for which
--       the claim is kept unless it is confirmed (confirm.lua); how many queues; their names; then classes.
-- Returns what the slot now holds (as claim.lua does: the new id, followed by queue, newline and task; anything
-- else means that the claim is lost), '1' if there are tasks to cancel, else '0', the node's time in microseconds,
-- '1' if the holder's claim still exists, else '0'.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
local holder, ended, list_name = ARGV[6], ARGV[7], ARGV[10]
-- When a late call arrives, another process may have the holder's task.
local is_here = string.sub(redis.call('HGET', KEYS[1], ARGV[4]) or '', 1, 16) == ARGV[5]
local function answer(holds)
    return {holds, redis.call('EXISTS', KEYS[3]) == 1 and '1' or '0', now, is_here and '1' or '0'}
end
if ended ~= '' and is_here then
    redis.pcall('ZREM', KEYS[7], successor_entry(KEYS[1], ARGV[4], ARGV[5], list_name, holder, ended))
end
if id ~= ARGV[2] or (#claim > 16) ~= (ended ~= '') then
    return answer(claim)
end
if claim == '' and redis.call('HEXISTS', KEYS[1], 'queues') == 0 then
    return redis.error_reply('UNLISTED ' .. KEYS[1] .. ' names no queues')
end
local function among(name, first, last)
    for i = first, last do
        if ARGV[i] == name then
            return true
        end
    end
end

redis.call('HDEL', KEYS[1], ARGV[1])
local list = waiting_list(KEYS[5], KEYS[6], KEYS[4], KEYS[2], now)
if ended ~= '' then
    list.give_up(ended)
elseif is_here then
    list.give_up(holder)
end
-- A holder that does not have the lock yet stays in the list, in case it fails to get it. It blocks nobody there.
local first_class = 13 + tonumber(ARGV[12])
local successor, out = list.oldest(nil, nil, is_here and holder)
local holds = ARGV[3]
if successor and successor.set == '' then
    successor.set = list.own_set(list_name)
end
if successor and out == 0 and is_here and successor.set == ARGV[8] and among(successor.queue, 13, first_class - 1)
    and among(successor.class, first_class, #ARGV) and list.may_go(successor) then
    list.take(successor)
    holds = ARGV[3] .. successor.queue .. '\n' .. successor.task
    local kept_until = string.format('%.6f', (now + tonumber(ARGV[11])) / 1000000)
    local entry = successor_entry(KEYS[1], ARGV[1], ARGV[3], list_name, successor.jid, holder)
    redis.pcall('ZADD', KEYS[7], kept_until, entry)
    redis.pcall('PEXPIRE', KEYS[7], 3600000)
elseif ended ~= '' then
    list.wake(1, ARGV[9], is_here)
end
redis.call('HSET', KEYS[1], ARGV[1], holds)
return answer(holds)
