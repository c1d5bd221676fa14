-- include: entry_add.lua
-- Puts the claims of a process whose lease has ended back at the head of their queues, all of them or some at a time,
-- and, once none is left, the tasks in its bells.
--
-- A recovered process is looked at again, because a move that it had sent may arrive long after it died. So it stays
-- listed, marked as gone, until the last of the looks is over. A process that comes back enlists itself anew.
--
-- If the process recorded the slot of the handler that ended it (crash_suspect.lua), the tasks of all other slots only
-- ran beside it: they count separately, and it takes many more of those to bury a task.
--
-- KEYS: processes, the process, dead, then for each claim: its count of recoveries, its queue, its unique key.
-- ARGV: identity; prefixes of the process's bells and of queues; how many recoveries bury a task, and how many if those
--       beside a crash suspect are counted; for how long they are remembered, in seconds; longest age in seconds and
--       greatest number of entries of `dead`; the number of looks and the seconds until each; then for each claim:
--       slot, id, jid ('' = not a task: not counted), and its record for `dead` ('' = not made yet).
-- Returns the outcome of each claim: 'back', 'dead', 'poison' (its record is needed), 'moved' (it is no longer there),
-- 'stuck' (a foreign value under a key); and then 'clear' if nothing is left, 'came back', or 'more'.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function seconds(value)
    return string.format('%.6f', value)
end
local function remember(who, is_beside)
    redis.pcall('HSET', who, ARGV[1], (is_beside and '-' or '') .. seconds(now))
    redis.pcall('EXPIRE', who, ARGV[6])
end
-- Tells whether this recovery is one too many.
local function is_poison(who, is_beside)
    local entries, counted = redis.pcall('HGETALL', who), 0
    if entries.err then
        return false
    end
    for i = 2, #entries, 2 do
        counted = counted + (string.sub(entries[i], 1, 1) == '-' and 0 or 1)
    end
    return #entries / 2 + 1 >= tonumber(ARGV[5]) or (not is_beside and counted + 1 >= tonumber(ARGV[4]))
end
local ended = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ended or tonumber(ended) >= now then
    return {'came back'}
end
local culprit = redis.call('HGET', KEYS[2], 'culprit')
local looks = tonumber(ARGV[9])
local first = 10 + looks
local answers, buried, moves = {}, 0, false
for i = first, #ARGV, 4 do
    local c = (i - first) / 4
    local who, queue, unique = KEYS[4 + 3 * c], KEYS[5 + 3 * c], KEYS[6 + 3 * c]
    local slot, id, jid, record = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local claim = redis.call('HGET', KEYS[2], slot) or ''
    local line = string.find(claim, '\n', 17, true)
    local is_beside = culprit and culprit ~= slot
    if string.sub(claim, 1, 16) ~= id or not line then
        answers[#answers + 1] = 'moved'
    elseif jid == '' or not is_poison(who, is_beside) then
        if type(redis.pcall('LLEN', queue)) ~= 'number' then
            answers[#answers + 1] = 'stuck'
        else
            redis.call('HDEL', KEYS[2], slot)
            redis.call('RPUSH', queue, string.sub(claim, line + 1))
            if jid ~= '' then
                remember(who, is_beside)
            end
            answers[#answers + 1] = 'back'
        end
    elseif record == '' then
        answers[#answers + 1] = 'poison'
    elseif type(redis.pcall('ZCARD', KEYS[3])) ~= 'number' then
        answers[#answers + 1] = 'stuck'
    else
        redis.call('HDEL', KEYS[2], slot)
        entry_add(KEYS[3], seconds(now + buried / 1000000), record)
        buried = buried + 1
        remember(who, is_beside)
        if redis.pcall('GET', unique) == jid then
            redis.call('DEL', unique)
        end
        answers[#answers + 1] = 'dead'
    end
    local became = answers[#answers]
    moves = moves or became == 'back' or became == 'dead' or became == 'poison'
end
if buried > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', seconds(now - tonumber(ARGV[7])))
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[8]))
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if tonumber(field) and redis.call('HSTRLEN', KEYS[2], field) > 16 then
        if not moves then
            -- A stuck claim must not keep others from being looked at.
            redis.call('ZREM', KEYS[1], ARGV[1])
            redis.call('ZADD', KEYS[1], seconds(now + tonumber(ARGV[10])), ARGV[1])
        end
        answers[#answers + 1] = 'more'
        return answers
    end
end

local gone = redis.call('HGET', KEYS[2], 'gone')
local look = gone and tonumber(string.sub(gone, 1, 1)) or 0
local names = gone and string.sub(gone, 2) or redis.call('HGET', KEYS[2], 'queues') or ''
for name in string.gmatch(names, '[^\n]+') do
    local bell, queue = ARGV[2] .. name, ARGV[3] .. name
    local count = redis.pcall('LLEN', queue)
    -- The newest first, so that the oldest arrives at the head.
    local task = type(count) == 'number' and redis.pcall('LPOP', bell)
    while task and not task.err do
        redis.call('RPUSH', queue, task)
        task = redis.pcall('LPOP', bell)
    end
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
if look < looks then
    redis.call('ZADD', KEYS[1], seconds(now + tonumber(ARGV[10 + look])), ARGV[1])
    redis.call('HSET', KEYS[2], 'gone', (look + 1) .. names)
    if culprit then
        redis.call('HSET', KEYS[2], 'culprit', culprit)
    end
end
answers[#answers + 1] = 'clear'
return answers
