-- include: entry_add.lua
-- Moves a task whose class its process does not serve into `retry` without counting a failure. The task stays with its
-- process, which then fails it, once its grace is over and no living process announces the class. A process
-- announces with its heartbeat; one that has a lease and has announced nothing yet, or is too old to, may serve any
-- class. Waiting tasks are noted by class, until a minute after they come back.
--
-- KEYS: the process, `retry`, processes, the classes that no process serves, the tasks that wait for this class.
-- ARGV: slot, id that it holds, new id, delay in seconds, payload, class, jid, the prefix of every key, '1'
--       if its grace is over, after how many seconds it comes back if it fails (0 = it does not), and the prefix of
--       the key of a process.
-- Returns 1 if it waits in `retry` (also by an earlier call with the same new id); 2 if it has to fail: then its slot
-- keeps it under the new id (also for a repetition); 0 if the claim is lost.
local NOTED_S, CLASSES_MAX, LOOKED_AT = 60, 1000, 1000
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return #claim == 16 and 1 or 2
end
if id ~= ARGV[2] or #claim <= 16 then
    return 0
end
redis.call('ZCARD', KEYS[2]) -- a foreign value under this key is an error now, while the task has not moved
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local function is_announced()
    local living =
        redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.6f', now), '+inf', 'LIMIT', 0, LOOKED_AT)
    for _, identity in ipairs(living) do
        local process = ARGV[11] .. identity
        -- A recovered process stays listed for a while, and serves nothing.
        local is_other = process ~= KEYS[1] and redis.pcall('HEXISTS', process, 'gone') ~= 1
        local classes = is_other and redis.pcall('HGET', ARGV[8] .. identity, 'hf_classes')
        local is_told = type(classes) == 'string'
        if is_other and not is_told then
            return true
        end
        if is_told and string.find('\n' .. classes .. '\n', '\n' .. ARGV[6] .. '\n', 1, true) then
            return true
        end
    end
    return #living == LOOKED_AT
end

local fails = ARGV[9] == '1' and not is_announced()
local back = tonumber(ARGV[fails and 10 or 4])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.pcall('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.6f', now))
redis.pcall('ZREMRANGEBYSCORE', KEYS[5], '-inf', string.format('%.6f', now))
redis.pcall('ZREMRANGEBYRANK', KEYS[4], 0, -CLASSES_MAX)
redis.pcall('ZREM', KEYS[5], ARGV[7])
if fails then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(claim, 17))
else
    entry_add(KEYS[2], string.format('%.6f', now + back), ARGV[5])
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
if back > 0 then
    redis.pcall('ZADD', KEYS[5], string.format('%.6f', now + back + NOTED_S), ARGV[7])
end
-- The set expires with its last note.
local last = redis.pcall('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')
if last[2] then
    redis.pcall('ZADD', KEYS[4], last[2], ARGV[6])
    for i = 4, 5 do
        local last_note = redis.pcall('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')[2] -- nil for a foreign value
        if last_note then
            redis.pcall('EXPIREAT', KEYS[i], math.ceil(tonumber(last_note)))
        end
    end
end
return fails and 2 or 1
