-- include: waiting_list.lua
-- include: stamps.lua
-- Settles what slots have done and claims new tasks for them, for all slots of one cycle of a worker's loop. Settling a
-- task frees its locks: the script stamps that and wakes the oldest task that waits for each.
--
-- KEYS: the process, paused, cancels, then the lists to claim from, in order: its bells, then its queues; then, if
--       tasks end that held locks, `schedule`, when lists were freed, and the order of each lock's list.
-- ARGV: bytes of payload that one call may claim, how many lists to claim from, how many slots; then the name of the
--       queue behind each list; then, of all slots, in one text each, because arguments cost more than what is in them:
--       their numbers, separated by blanks; a byte a slot, '0', and 1 more if it is to claim, 2 more if its locks go to
--       a successor (no task is woken), 4 more for each lock; 32 bytes a slot, the id that it holds (16
--       times '-' = none) and the new one; then, if tasks end that held locks, the prefixes of the keys of queues,
--       orders and waiters, the groups of their lists (stamps.lua), five digits and a blank each, and a line for each
--       slot, the jid that leaves these lists. Locks that go to a successor have a group that no list
--       has. Last, if it matters whether tasks have progress, the prefix of the keys of iteration hashes.
-- Returns for each slot what it now holds: the new id, followed by queue, newline and payload of the claimed
-- task; anything else means that the claim is lost. Then, for each list, '1' if its queue is paused, '0' if not ('' =
-- no slot wanted to claim); '1' if a task was claimed and there are tasks to cancel, else '0'; the node's time in
-- microseconds; for each slot '1' if a task waits for the locks of its task, '0' if none does ('' = no task held
-- a lock); and for each slot '0' if its task certainly has no iteration hash, else '1' ('' = no prefix).
--
-- A slot always holds the id of the last call that changed it. A repetition after a lost reply is recognised by
-- the new id and gets the same answer; a late call finds another id and changes nothing. A slot is opened only for
-- a listed process, so a late call of a process that left or was recovered claims nothing.
local process, sub = KEYS[1], string.sub
local budget, lists, slots = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local first = 4 + lists
local signs, ids, none = {string.byte(ARGV[first + 1], 1, -1)}, ARGV[first + 2], string.rep('-', 16)
local numbers, count = {}, 0
for number in string.gmatch(ARGV[first], '%d+') do
    count = count + 1
    numbers[count] = number
end
numbers[count + 1] = 'queues'
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- What the slots hold; in the end, what they hold then.
local answers = redis.call('HMGET', process, unpack(numbers))
-- `fields`: what the slots that change are to hold; `takers`: where in it a task can go, in the order of the slots.
local fields, moved, takers, moves, wanted, opens, at = {}, {}, {}, 0, 0, false, 0
for s = 1, slots do
    local claim, next_id = answers[s], sub(ids, at + 17, at + 32)
    local id = claim and sub(claim, 1, 16) or none
    if id == sub(ids, at + 1, at + 16) and id ~= next_id then
        answers[s] = next_id
        moves = moves + 1
        moved[moves] = s
        fields[2 * moves - 1], fields[2 * moves] = numbers[s], next_id
        opens = opens or not claim
        if signs[s] % 2 == 1 then
            wanted = wanted + 1
            takers[wanted] = moves
        end
    elseif not claim then
        answers[s] = ''
    end
    at = at + 32
end
if opens and not answers[slots + 1] then
    return redis.error_reply('UNLISTED ' .. process .. ' names no queues')
end
-- A script that has already written may keep writing on a node that is out of memory. It suffices that this removes
-- nothing.
redis.call('HDEL', process, '')

-- Wakes tasks before it claims, because a woken task may be the next one claimed. Usually none waits, and one request
-- finds that out for many lists.
local waits, orders, ends = '', 5 + lists, first + 3
if orders < #KEYS then
    local locks, groups, freed_at = #KEYS - orders, ARGV[ends + 3], string.format('%.0f', now)
    local waiting, holders, has_moved, jids = {}, nil, {}, {}
    for from = 1, locks, 256 do
        local last = math.min(from + 255, locks)
        if moves > 0 then
            -- This stamps what a slot that did not move has freed, too, which costs a task one more look.
            local stamps, stamped = {}, 0
            for at = 6 * from - 5, 6 * last, 6 do
                stamps[stamped + 1], stamps[stamped + 2] = sub(groups, at, at + 4), freed_at
                stamped = stamped + 2
            end
            stamps_set(KEYS[orders], stamps)
        end
        local exist = redis.call('EXISTS', unpack(KEYS, orders + from, orders + last)) > 0
        if exist and not holders then
            holders = {}
            for m = 1, moves do
                has_moved[moved[m]] = true
            end
            for s = 1, slots do
                local sign = signs[s] - 48
                for _ = 4, sign, 4 do
                    holders[#holders + 1] = sign % 4 > 1 and -s or s
                end
            end
            for jid in string.gmatch(ARGV[ends + 4], '([^\n]*)\n') do
                jids[#jids + 1] = jid
            end
        end
        for l = exist and from or last + 1, last do
            local s, order = math.abs(holders[l]), KEYS[orders + l]
            local exists = redis.call('EXISTS', order)
            if exists == 1 and has_moved[s] then
                local waiters_key = ARGV[ends + 2] .. sub(order, #ARGV[ends + 1] + 1)
                local list = waiting_list(order, waiters_key, KEYS[orders - 1], KEYS[2], now)
                list.give_up(jids[s])
                list.wake(1, ARGV[ends], holders[l] < 0)
                exists = redis.call('EXISTS', order)
            end
            if exists == 1 then
                waiting[s] = '1'
            end
        end
    end
    waits = string.rep('0', slots)
    if next(waiting) then
        for s = 1, slots do
            waiting[s] = waiting[s] or '0'
        end
        waits = table.concat(waiting)
    end
end

local paused, seen = nil, ''
if wanted > 0 then
    paused = redis.pcall('SMISMEMBER', KEYS[2], unpack(ARGV, 4, 3 + lists))
    paused = not paused.err and paused or nil
    seen = paused and table.concat(paused) or ''
end
-- The jid is one of the texts that look like it, unless escapes hide it.
local iterations = ARGV[orders < #KEYS and ends + 5 or ends]
local function may_have_progress(task)
    local found = 0
    for jid in string.gmatch(task, '"jid"%s*:%s*"(.-)"') do
        found = found + 1
        if found > 4 or string.find(jid, '\\', 1, true) or redis.call('EXISTS', iterations .. jid) == 1 then
            return true
        end
    end
    return found == 0 or string.find(task, '\\u', 1, true) ~= nil
end

local claimed, progress = 0, {}
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
            local taken, head = 0, ARGV[3 + l] .. '\n'
            for i = 1, #popped do
                local task = popped[i]
                if claimed > 0 and #task > budget then
                    break
                end
                budget = budget - #task
                claimed = claimed + 1
                local m = takers[claimed]
                local claim = fields[2 * m] .. head .. task
                fields[2 * m], answers[moved[m]] = claim, claim
                if iterations and not may_have_progress(task) then
                    progress[moved[m]] = '0'
                end
                taken = i
            end
            for i = #popped, taken + 1, -1 do
                redis.call('RPUSH', list, popped[i])
            end
            wanted = taken < #popped and 0 or wanted - taken
        end
    end
end

if moves > 0 then
    redis.call('HSET', process, unpack(fields))
end
for s = 1, iterations and slots or 0 do
    progress[s] = progress[s] or '1'
end
answers[slots + 1] = seen
answers[slots + 2] = claimed > 0 and redis.call('EXISTS', KEYS[3]) == 1 and '1' or '0'
answers[slots + 3] = now
answers[slots + 4] = waits
answers[slots + 5] = table.concat(progress)
return answers
