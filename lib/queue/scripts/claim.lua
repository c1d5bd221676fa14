-- include: waiting_list.lua
-- include: stamps.lua
-- Settles what slots have done and claims new tasks for them, for all slots of one turn of a worker's loop. Settling a
-- task frees its locks: the script stamps that and wakes the oldest task that waits for each.
--
-- KEYS: the process, paused, cancels, then the lists to claim from, in order: its bells, then its queues; then, if
--       tasks end that held locks, `schedule`, and when lists were freed.
-- ARGV: bytes of payload that one call may claim, how many lists to claim from, how many slots; then the name of the
--       queue behind each list; then for each slot: number, id that its place holds ('' = none), new id, '1' to claim
--       or '0' to only settle; then, if tasks end that held locks, the prefixes of the keys of queues, orders and
--       places, and for each lock: the index of its slot (from 1; negative if the lock goes to a successor and no task
--       is woken), the name of its list, its group (stamps.lua), the jid that gives up its place in the list ('' =
--       none).
-- Returns for each slot what its place now holds: the new id, followed by queue, newline and payload of the claimed
-- task; anything else means that the claim is lost. Then, for each list, '1' if its queue is paused, '0' if not ('' =
-- no slot wanted to claim); '1' if a task was claimed and there are tasks to cancel, else '0'; the node's time in
-- microseconds; and for each slot '1' if a task waits for the locks of its task, '0' if none does ('' = its task held
-- no lock).
--
-- A place always holds the id of the last call that changed it. A repetition after a lost reply is recognised by
-- the new id and gets the same answer; a late call finds another id and changes nothing. A place is opened only for
-- a listed process, so a late call of a process that left or was recovered claims nothing.
local process = KEYS[1]
local budget, lists, slots = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local first = 4 + lists
local numbers = {'queues'}
for s = 1, slots do
    numbers[s + 1] = ARGV[first + (s - 1) * 4]
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local places = redis.call('HMGET', process, unpack(numbers))

local answers, moved, has_moved, wanted, opens = {}, {}, {}, 0, false
for s = 1, slots do
    local at = first + (s - 1) * 4
    local place = places[s + 1]
    local id = place and string.sub(place, 1, 16) or ''
    answers[s] = place or ''
    if id == ARGV[at + 1] and id ~= ARGV[at + 2] then
        moved[#moved + 1] = s
        has_moved[s] = true
        opens = opens or not place
        if ARGV[at + 3] == '1' then
            wanted = wanted + 1
        end
    end
end
if opens and not places[1] then
    return redis.error_reply('UNLISTED ' .. process .. ' names no queues')
end
-- A script that has already written may keep writing on a node that is out of memory. It suffices that this removes
-- nothing.
redis.call('HDEL', process, '')

-- Wakes tasks before it claims, because a woken task may be the next one claimed. Usually none waits, and one request
-- finds that out for many lists.
local waits, ends = '', first + 4 * slots
if ends < #ARGV then
    local slot_waits, freed_at = {}, string.format('%.0f', now)
    for s = 1, slots do
        slot_waits[s] = '0'
    end
    for from = ends + 3, #ARGV, 1024 do
        local orders, stamps, last = {}, {}, math.min(from + 1023, #ARGV)
        for i = from, last, 4 do
            orders[#orders + 1] = ARGV[ends + 1] .. ARGV[i + 1]
            if has_moved[tonumber(ARGV[i])] then
                stamps[#stamps + 1] = ARGV[i + 2]
                stamps[#stamps + 1] = freed_at
            end
        end
        if #stamps > 0 then
            stamps_set(KEYS[5 + lists], stamps)
        end
        local exist = redis.call('EXISTS', unpack(orders)) > 0
        for i = exist and from or last + 1, last, 4 do
            local s, order = math.abs(tonumber(ARGV[i])), ARGV[ends + 1] .. ARGV[i + 1]
            local exists = redis.call('EXISTS', order)
            if exists == 1 and has_moved[s] then
                local list = waiting_list(order, ARGV[ends + 2] .. ARGV[i + 1], KEYS[4 + lists], KEYS[2], now)
                list.give_up(ARGV[i + 3])
                -- After a hand-over nothing is woken while the successor is on its way. It may have failed to get the
                -- lock since.
                list.wake(1, ARGV[ends])
                exists = redis.call('EXISTS', order)
            end
            if exists == 1 then
                slot_waits[s] = '1'
            end
        end
    end
    waits = table.concat(slot_waits)
end

local paused, seen = nil, ''
if wanted > 0 then
    paused = redis.pcall('SMISMEMBER', KEYS[2], unpack(ARGV, 4, 3 + lists))
    paused = not paused.err and paused or nil
    seen = paused and table.concat(paused) or ''
end
local tasks, names = {}, {}
for l = 1, lists do
    if wanted == 0 then
        break
    end
    local list = KEYS[3 + l]
    if paused and paused[l] == 1 then
        -- Puts tasks of blocking claims back, the newest first. The queues follow the bells in the same order.
        local queue = l <= lists / 2 and KEYS[3 + l + lists / 2]
        if queue and type(redis.pcall('LLEN', queue)) == 'number' then
            local task = redis.pcall('LPOP', list)
            while task and not task.err do
                redis.call('RPUSH', queue, task)
                task = redis.pcall('LPOP', list)
            end
        end
    else
        -- A foreign value under the key is an error here, but must not hold up the tasks of the other queues.
        local popped = redis.pcall('RPOP', list, wanted)
        if popped and not popped.err then
            local taken = 0
            for i = 1, #popped do
                if #tasks > 0 and #popped[i] > budget then
                    break
                end
                budget = budget - #popped[i]
                tasks[#tasks + 1] = popped[i]
                names[#tasks] = ARGV[3 + l]
                taken = i
            end
            for i = #popped, taken + 1, -1 do
                redis.call('RPUSH', list, popped[i])
            end
            wanted = taken < #popped and 0 or wanted - taken
        end
    end
end

local fields, next_task = {}, 1
for m = 1, #moved do
    local s = moved[m]
    local at = first + (s - 1) * 4
    if ARGV[at + 3] == '1' and tasks[next_task] then
        answers[s] = ARGV[at + 2] .. names[next_task] .. '\n' .. tasks[next_task]
        next_task = next_task + 1
    else
        answers[s] = ARGV[at + 2]
    end
    fields[2 * m - 1] = numbers[s + 1]
    fields[2 * m] = answers[s]
end
if #fields > 0 then
    redis.call('HSET', process, unpack(fields))
end
answers[#answers + 1] = seen
answers[#answers + 1] = next_task > 1 and redis.call('EXISTS', KEYS[3]) == 1 and '1' or '0'
answers[#answers + 1] = now
answers[#answers + 1] = waits
return answers
