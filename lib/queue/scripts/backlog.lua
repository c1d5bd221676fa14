-- include: waiting_list.lua
-- Counts the work that is left in some queues. One snapshot, so no task moves from one state to another while it
-- counts.
--
-- The first number counts the tasks in the queues that are not paused. The second counts, for these queues, what
-- processes, alive or dead, have claimed or hold in their bells. It adds 1 if a task waits for a lock or for a share of
-- the runners, whenever it is due, unless its queue is paused. It adds the entries of `schedule` whose time lies
-- between two moments, and the entries of `retry` from the first moment to now, whatever their queue.
--
-- A value of another type under any of these keys counts as nothing: it stays as it is and hides nothing else.
--
-- KEYS: schedule, retry, paused, processes, `contended`, then the queues.
-- ARGV: seconds from the first moment to now, and from now to the second; the prefixes of the keys of processes,
--       bells, orders and waiters of waiting lists; then the names of the queues.
-- Returns the two numbers.
local time = redis.call('TIME')
local now, now_us = tonumber(time[1]), tonumber(time[1]) * 1000000 + tonumber(time[2])
local waiting, serves, runs = 0, {}, {}
for i = 6, #KEYS do
    local name, length = ARGV[i + 1], redis.pcall('LLEN', KEYS[i])
    if type(length) == 'number' then
        serves[name] = true
        runs[name] = redis.pcall('SISMEMBER', KEYS[3], name) ~= 1
        waiting = waiting + (runs[name] and length or 0)
    end
end

local function count_of(...)
    local count = redis.pcall(...)
    return type(count) == 'number' and count or 0
end

local function claims(identity)
    local key, count = ARGV[3] .. identity, 0
    for _, field in ipairs(redis.pcall('HKEYS', key)) do
        if tonumber(field) and redis.call('HSTRLEN', key, field) > 16 then
            local claim = redis.call('HGET', key, field)
            local line = string.find(claim, '\n', 17, true)
            count = count + (line and serves[string.sub(claim, 17, line - 1)] and 1 or 0)
        end
    end
    for name in pairs(serves) do
        count = count + count_of('LLEN', ARGV[4] .. identity .. ':' .. name)
    end
    return count
end

local function somebody_waits(name)
    local order, waiters = ARGV[5] .. name, ARGV[6] .. name
    local list = waiting_list(order, waiters, KEYS[1], KEYS[3], now_us)
    local known = list.works() and redis.call('HGETALL', waiters) or {}
    for i = 2, #known, 2 do
        local queue = string.match(known[i], '^%d+%.%d+\n%x+\n([^\n]*)\n')
        local waiter = queue and runs[queue] and list.has(known[i - 1]) and list.waiter(known[i - 1])
        if waiter and waiter.task then
            return true
        end
    end
    return false
end

local pending = count_of('ZCOUNT', KEYS[1], now - tonumber(ARGV[1]), now + tonumber(ARGV[2]))
pending = pending + count_of('ZCOUNT', KEYS[2], now - tonumber(ARGV[1]), now)
for _, identity in ipairs(redis.pcall('ZRANGE', KEYS[4], 0, -1)) do
    pending = pending + claims(identity)
end
-- Examines the long lists only if nothing else is left to do.
local contended = waiting + pending == 0 and redis.pcall('ZRANGE', KEYS[5], 0, -1) or {}
for i = 1, #contended do
    if pending == 0 and somebody_waits(contended[i]) then
        pending = 1
    end
end
return {waiting, pending}
