-- include: waiting_list.lua
-- Ends a claim by parking its task: in `schedule`, so that any scheduler brings it back, and in the waiting list of
-- what it waits for, where it keeps the position that it has.
--
-- The claim's id changes with every answer, even if it keeps the task, so that a late copy of this call finds
-- another id and cannot park a task that runs meanwhile.
--
-- Behind another parked task it sleeps long, whatever happened to the lock: freeing the lock wakes the other, whose end
-- then wakes this one. If none is parked before it, nothing may wake it: the lock may have been freed between its claim
-- and now, or shortly before, when the release had not reached the lock nodes. Then it has to try again, or is due
-- soon.
--
-- KEYS: the process, `schedule`, the list's order, its waiters, when lists were freed, `contended`, paused; then of
--       each other list in which it may wait its order and its waiters: there the next is woken instead of it.
-- ARGV: slot, id that it holds, new id; the list's name; jid, queue, class, set; the node's time of the claim
--       that was refused, in microseconds; microseconds to the next look of the oldest, of all others, and where the
--       lock may be free any moment; the most that may wait (0 = any number); '1' if the task may try again at once;
--       the prefix of the queues' keys; the list's group (stamps.lua); the task.
-- Returns the outcome, the node's time, and in how many microseconds the task is due. Outcomes: 1 = parked, 0 = the
-- claim is lost, 2 = the lock may be free, 3 = too many wait. A repetition gets the same, but cannot tell 2 from 3: a
-- task that may try again gets 2.
local list_name, jid, queue, class, set = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local seen, near, far, soon = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local most, may_retry, task = tonumber(ARGV[13]), ARGV[14] == '1', ARGV[17]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return {#claim == 16 and 1 or may_retry and 2 or 3, now, soon}
end
if id ~= ARGV[2] or #claim <= 16 then
    return {0, now, 0}
end
redis.call('ZCARD', KEYS[2]) -- a foreign value under this key is an error now, before the task moves
redis.call('HDEL', KEYS[1], ARGV[1])
local function keep(answer)
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(claim, 17))
    return {answer, now, 0}
end

local list = waiting_list(KEYS[3], KEYS[4], KEYS[2], KEYS[7], now)
local works, is_known = list.works(), list.has(jid)
local is_first = not works or not list.oldest(list.may_go, jid)
local freed = tonumber(redis.pcall('HGET', KEYS[5], ARGV[16])) or 0
-- A refusal shortly after the lock was freed may be due to keys that the release had yet to remove. A process believes
-- its last refusal for longer than that takes. Stamps live for a minute, so they tell nothing about an older refusal.
local released = freed + 100000
local is_doubtful = is_first and (freed > seen or (seen < released and released <= now) or now - seen > 55000000)
if is_doubtful and may_retry then
    return keep(2)
end
if most > 0 and works and not is_known and redis.call('ZCARD', KEYS[3]) >= most then
    return keep(3)
end

local delay = far
if is_first then
    -- From look to look the time since then doubles: more looks would find the same.
    local again = released > now and math.max(soon, now - freed) or soon
    delay = (is_doubtful or seen < released) and again or near
end
local own = works and is_known and list.waiter(jid)
if not works or (own and own.task) then
    -- Nothing wakes a task that is not in the list: it was never there, or another task of the same jid is.
    delay = math.min(delay, near)
    entry_add(KEYS[2], string.format('%.6f', (now + delay) / 1000000), task)
else
    if not is_known then
        local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
        redis.call('ZADD', KEYS[3], string.format('%.0f', (tonumber(last[2]) or 0) + 1), jid)
    end
    local kept_set = set ~= list.own_set(list_name) and set or ''
    list.park(jid, now + delay, task, queue .. '\n' .. kept_set .. '\n' .. class)
    redis.pcall('ZADD', KEYS[6], 'NX', string.format('%.6f', now / 1000000 + 15), list_name)
end
for i = 8, #KEYS, 2 do
    waiting_list(KEYS[i], KEYS[i + 1], KEYS[2], KEYS[7], now).pass(jid, ARGV[15])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1, now, delay}
