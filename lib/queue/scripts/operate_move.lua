-- include: waiting_list.lua
-- Moves tasks out of one state, for an operator: back to their queues, into `dead`, or deletes them. A task that
-- waits for a lock thereby leaves its waiting list, or is recorded there as OUT; the next one gets its due time, or is
-- woken.
--
-- KEYS: receipt of this call, where the tasks lie, `queues`, `dead`, processes, `schedule`, paused, then for each entry
--       the list that it goes to (retry) or its unique key (bury, delete).
-- ARGV: verb (retry, bury, delete), kind of that key (set, list, claims), the process whose claims these are and
--       whose lease must have ended ('' = no lease is checked), the longest age in seconds and the greatest number
--       of entries of `dead`, how far into a list an entry is looked for, prefixes of the queues' keys, of the orders
--       and of the waiters of waiting lists, then for each entry: what stands there, what goes to the target, the
--       queue's name (retry) or the jid that holds the unique key, the field (claims), its jid, and the waiting list
--       that it names ('' = none).
-- Returns a number for each entry: 1 done, 0 the entry as seen is no longer there, -1 the target's key holds a foreign
-- value, -2 the process is alive; then how many entries of `dead` were trimmed to make room.
--
-- The receipt holds the answers for ten minutes, so that a repeated call returns what the first one did.
local receipt = redis.call('GET', KEYS[1])
if receipt then
    local answers = {}
    for number in string.gmatch(receipt, '%S+') do
        answers[#answers + 1] = tonumber(number)
    end
    return answers
end
local verb, kind = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local lease = ARGV[3] ~= '' and redis.call('ZSCORE', KEYS[5], ARGV[3])
local is_alive = lease and tonumber(lease) >= now

local function is_fit(target)
    if verb == 'retry' then
        return type(redis.pcall('LLEN', target)) == 'number'
    end
    return verb == 'delete' or type(redis.pcall('ZCARD', KEYS[4])) == 'number'
end

local function take(text, field)
    if kind == 'set' then
        return redis.call('ZREM', KEYS[2], text) == 1
    elseif kind == 'list' then
        -- Bounded: LREM alone would walk through the whole list for an entry that is gone.
        local at = redis.call('LPOS', KEYS[2], text, 'RANK', -1, 'MAXLEN', ARGV[6])
        return at and redis.call('LREM', KEYS[2], -1, text) == 1
    end
    return redis.call('HGET', KEYS[2], field) == text and redis.call('HDEL', KEYS[2], field) == 1
end

-- Removes a task from where it lies and from its waiting list.
local function take_waiting(text, field, jid, name)
    if name == '' then
        return take(text, field)
    end
    local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
    local list = waiting_list(ARGV[8] .. name, ARGV[9] .. name, KEYS[6], KEYS[7], now_us)
    if KEYS[2] == KEYS[6] then
        return list.leave(jid, text, verb == 'retry', function() return take(text, field) end)
    end
    local is_taken = take(text, field)
    if is_taken and verb ~= 'retry' and kind ~= 'set' and list.works() and list.has(jid) then
        list.give_up(jid)
        list.wake(1, ARGV[7])
    end
    return is_taken
end

local answers, done, buried, trimmed = {}, 0, 0, 0
for i = 8, #KEYS do
    local at = 10 + (i - 8) * 6
    local answer = is_alive and -2 or not is_fit(KEYS[i]) and -1
        or take_waiting(ARGV[at], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]) and 1 or 0
    if answer == 1 then
        done = done + 1
        if verb == 'retry' then
            -- A claimed task had its turn already, so it goes to the end from which workers take.
            redis.call(kind == 'set' and 'LPUSH' or 'RPUSH', KEYS[i], ARGV[at + 1])
            redis.pcall('SADD', KEYS[3], ARGV[at + 2])
        elseif verb == 'bury' then
            -- Gives each entry a score of its own, because dashboards address an entry by its score.
            entry_add(KEYS[4], string.format('%.6f', now + buried / 1000000), ARGV[at + 1])
            buried = buried + 1
        end
        if verb ~= 'retry' and ARGV[at + 2] ~= '' and redis.pcall('GET', KEYS[i]) == ARGV[at + 2] then
            redis.call('DEL', KEYS[i])
        end
    end
    answers[#answers + 1] = answer
end
if buried > 0 then
    trimmed = redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.6f', now - tonumber(ARGV[4])))
    trimmed = trimmed + redis.call('ZREMRANGEBYRANK', KEYS[4], 0, -tonumber(ARGV[5]))
end
answers[#answers + 1] = trimmed
if done > 0 then
    redis.pcall('SET', KEYS[1], table.concat(answers, ' '), 'EX', 600)
end
return answers
