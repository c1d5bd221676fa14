-- include: waiting_list.lua
-- include: stamps.lua
-- Wakes the oldest task of each freed list. If the lists will be free only later, the oldest becomes due at that time.
-- The script stamps that as well, so a task that was refused before, with a later time, asks again instead of sleeping.
-- A repetition stamps again, which costs one more look, and wakes none while the first is on its way.
-- A parked task stays in its list, even when a process reports its end: that process hung for longer than the lease,
-- and the recovered task waits again for another process. Outside of the list no task would wake it.
--
-- KEYS: `schedule`, paused, when lists were freed, then for each list its order and its waiters.
-- ARGV: prefix of the queues' keys, jid that leaves these lists ('' = none), '1' if the lock goes to a successor,
--       how many to wake, microseconds until it is free, then for each list its group (stamps.lua).
-- Returns 1, or 2 if a task is due when the lists will be free.
local jid, is_handed_on, count, delay = ARGV[2], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local answer = 1
for i = 4, #KEYS, 2 do
    local list = waiting_list(KEYS[i], KEYS[i + 1], KEYS[1], KEYS[2], now)
    if list.works() then
        redis.call('HDEL', KEYS[i + 1], '') -- a node that takes no writes refuses here, before anything is done
    end
    list.give_up(jid)
    if not is_handed_on then
        stamps_set(KEYS[3], {ARGV[4 + i / 2], string.format('%.0f', now)})
    end
    if not is_handed_on and delay > 0 then
        local waiter = list.oldest(list.may_go)
        if waiter then
            list.move(waiter, now + delay)
            answer = 2
        end
    else
        list.wake(is_handed_on and 1 or count, ARGV[1], is_handed_on)
    end
end
return answer
