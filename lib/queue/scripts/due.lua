-- include: waiting_list.lua
-- include: successor_claims.lua
-- Reads a page of the due entries of a sorted set of tasks (`schedule` or `retry`), by the node's own clock, oldest
-- first. Skips entries by rank, which costs the same however many it skips.
--
-- Processes read `schedule` regularly, so these calls also repair what went wrong elsewhere:
--  * Waiting lists whose examination is due. The task that was to wake the oldest may have died or been deleted. So the
--    oldest becomes due now if it would sleep for long and none before it is on its way.
--  * Claims as successors that were neither confirmed nor renewed in time. Their process hangs, is cut off or died, and
--    their lock is over or soon will be. Each task goes to the head of its queue and keeps its position in its list;
--    the process that claims it asks for the lock. The slot gets a new id, so a late call of its process finds nothing.
--  * Bells that their processes do not empty. No process has begun those tasks. They go back to the head of their
--    queue, and a process that is only slow finds its bell empty. A process that was recovered while it hung may still
--    get a task into its bell before it dies. A call asks 64 processes, those whose leases end first.
--
-- The answer also tells whether the other set has due entries, so a worker that finds none here need not ask there.
--
-- KEYS: the sorted set; to examine lists also `contended` and paused; to learn of the other set also that set; to
--       bring back what processes keep also the processes and successors.
-- ARGV: how many entries to skip, how many to return at most, how many bytes at most (at least one entry is returned);
--       the prefixes of the orders and the waiters of waiting lists, of the keys of queues and of processes; to empty
--       bells also their prefix.
-- Returns a number and the page's entries. The number is the sum of 1 if more are due behind the page, and 2 if the
-- other set has due entries.
-- something of the other set is due.
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now, now_text = now_us / 1000000, string.format('%.6f', now_us / 1000000)

local function each(key, score_max, most, act)
    local members = key and redis.pcall('ZRANGEBYSCORE', key, '-inf', score_max, 'LIMIT', 0, most) or {}
    for i = 1, #members do
        act(members[i])
    end
end

local function examine(name)
    local order, waiters = ARGV[4] .. name, ARGV[5] .. name
    redis.call('ZREM', KEYS[2], name)
    if redis.pcall('ZCARD', order) == 0 then
        if type(redis.pcall('HLEN', waiters)) == 'number' then
            redis.call('DEL', waiters)
        end
        return
    end
    local list = waiting_list(order, waiters, KEYS[1], KEYS[3], now_us)
    if not list.works() then
        return
    end
    redis.call('ZADD', KEYS[2], string.format('%.6f', now + 15), name)
    local oldest, out = list.oldest(list.may_go)
    if oldest and out == 0 and tonumber(oldest.due) > now + 30 then
        list.move(oldest, now_us)
    end
end

local function bring_back(entry)
    redis.call('ZREM', KEYS[6], entry)
    local successor = successor_entry_read(entry)
    local claim = successor.slot and redis.pcall('HGET', successor.process, successor.slot)
    local line = type(claim) == 'string' and string.find(claim, '\n', 17, true)
    local queue = line and ARGV[6] .. string.sub(claim, 17, line - 1)
    if not line or string.sub(claim, 1, 16) ~= successor.id or type(redis.pcall('LLEN', queue)) ~= 'number' then
        return
    end
    redis.call('HSET', successor.process, successor.slot, string.sub(redis.sha1hex(successor.id), 1, 16))
    redis.call('RPUSH', queue, string.sub(claim, line + 1))
    local list = waiting_list(ARGV[4] .. successor.list, ARGV[5] .. successor.list, KEYS[1], KEYS[3], now_us)
    local waiter = list.works() and list.has(successor.jid) and list.waiter(successor.jid)
    local claimed_at = waiter and not waiter.task and tonumber(waiter.due)
    if claimed_at then
        list.note_out(waiter)
    end
    list.pass(successor.holder, ARGV[6], claimed_at) -- it follows the lease, and no task waits for that
end

local function empty_bells(identity)
    local told = redis.pcall('HMGET', ARGV[7] .. identity, 'queues', 'gone')
    local names = told[1] or (told[2] and string.sub(told[2], 2)) or ''
    for name in string.gmatch(names, '[^\n]+') do
        local bell, queue = ARGV[8] .. identity .. ':' .. name, ARGV[6] .. name
        local is_list = redis.call('EXISTS', bell) == 1 and type(redis.pcall('LLEN', queue)) == 'number'
        -- The newest first, so that the oldest arrives at the head.
        local task = is_list and redis.pcall('LPOP', bell)
        while task and not task.err do
            redis.call('RPUSH', queue, task)
            task = redis.pcall('LPOP', bell)
        end
    end
end

each(KEYS[2], now_text, 16, examine)
each(ARGV[8] and KEYS[5], '+inf', 64, empty_bells)
each(KEYS[6], now_text, 64, bring_back)

local first, count = tonumber(ARGV[1]), tonumber(ARGV[2])
-- one more than wanted shows whether more are due
local page = redis.call('ZRANGE', KEYS[1], first, first + count, 'WITHSCORES')
local budget, answer = tonumber(ARGV[3]), {0}
for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > now then
        break
    end
    budget = budget - #page[i]
    if #answer > count or (i > 1 and budget < 0) then
        answer[1] = 1
        break
    end
    answer[#answer + 1] = page[i]
end
if KEYS[4] then
    local others = redis.pcall('ZCOUNT', KEYS[4], '-inf', now_text)
    if type(others) == 'number' and others > 0 then
        answer[1] = answer[1] + 2
    end
end
return answer
