-- include: waiting_list.lua
-- Moves due entries of a sorted set to their queues. The process that removes an entry moves it, so several may try.
-- An entry whose target holds a foreign value stays. So does one that is not due: after the lookup its task was claimed
-- and parked again with the same text. A task that waits for a lock is recorded as OUT in its waiting list.
--
-- KEYS: the sorted set, `queues`, `dead`, then one list an entry.
-- ARGV: the longest age in seconds and the greatest number of entries of `dead`, then for each entry its text, the
--       text to push, the queue's name ('' = not a task: bury the text); then, if some of them wait for locks, the
--       prefixes of the orders and the waiters of waiting lists, and for each of those its number among the entries,
--       its jid and the waiting list that it names.
-- Returns the number of entries that were moved.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local moved, buried = 0, 0
local waits, waits_at = {}, (#KEYS - 3) * 3 + 3
for i = waits_at + 2, #ARGV, 3 do
    waits[tonumber(ARGV[i])] = i
end
-- Removes an entry from the set, and records that in its waiting list.
local function take(number, text)
    local at = waits[number]
    if at then
        local order, waiters = ARGV[waits_at] .. ARGV[at + 2], ARGV[waits_at + 1] .. ARGV[at + 2]
        local list = waiting_list(order, waiters, KEYS[1], '', tonumber(time[1]) * 1000000 + tonumber(time[2]))
        local waiter = list.works() and list.has(ARGV[at + 1]) and list.waiter(ARGV[at + 1])
        if waiter and waiter.task == text then
            list.take(waiter)
            list.let_next_look(ARGV[at + 1])
            return
        end
    end
    redis.call('ZREM', KEYS[1], text)
end
for i = 4, #KEYS do
    local at = (i - 4) * 3 + 3
    local bury = ARGV[at + 2] == ''
    local target = bury and redis.pcall('ZCARD', KEYS[3]) or redis.pcall('LLEN', KEYS[i])
    local due = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at]))
    if type(target) == 'number' and due and due <= now then
        take(i - 3, ARGV[at])
        moved = moved + 1
        if bury then
            -- Gives each entry a score of its own, because dashboards address an entry by its score.
            entry_add(KEYS[3], string.format('%.6f', now + buried / 1000000), ARGV[at + 1])
            buried = buried + 1
        else
            redis.call('LPUSH', KEYS[i], ARGV[at + 1])
            redis.pcall('SADD', KEYS[2], ARGV[at + 2])
        end
    end
end
if buried > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.6f', now - tonumber(ARGV[1])))
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[2]))
end
return moved
