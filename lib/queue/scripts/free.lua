-- include: waiting_list.lua
-- include: stamps.lua
-- Lists were freed: the oldest of each is woken. Or they will be in a while: then the oldest is due at that time, and
-- that is stamped, too: who was refused before heard of a later time, and asks anew instead of sleeping until then.
-- A repetition stamps again, which costs somebody one more look, and wakes nobody while the first is on its way.
-- A task that is parked keeps its place, also when its end is told: whoever tells stood still for longer than the lease,
-- and the task was recovered and waits again in other hands. Without its place nobody would wake it.
--
-- KEYS: `schedule`, paused, when lists were freed, then for each list its order and its places.
-- ARGV: prefix of the queues' keys, jid whose places are given up ('' = nobody), '1' when the lock goes to a successor,
--       how many to wake, microseconds until it is free, then for each list its group (stamps.lua).
-- Answers 1.
local jid, is_handed_on, count, delay = ARGV[2], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
for i = 4, #KEYS, 2 do
    local list = waiting_list(KEYS[i], KEYS[i + 1], KEYS[1], KEYS[2], now)
    if list.works() then
        redis.call('HDEL', KEYS[i + 1], '') -- a node that takes no writes says so here, before anything is done
    end
    list.give_up(jid)
    if not is_handed_on then
        stamps_set(KEYS[3], {ARGV[4 + i / 2], string.format('%.0f', now)})
    end
    if not is_handed_on and delay > 0 then
        local place = list.oldest(list.may_go)
        if place then
            list.move(place, now + delay)
        end
    elseif not is_handed_on then
        list.wake(count, ARGV[1])
    else
        list.wake(1, ARGV[1]) -- nobody, while the successor is on its way; it may have failed to get the lock since
    end
end
return 1
