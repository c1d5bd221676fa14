-- include: entry_add.lua
-- Ends a task as done, and in the same instant pushes its follow-up tasks and keeps its result. Like finish.lua, it
-- removes the task's unique key and cancel mark.
--
-- KEYS: the process, the unique key ('' = none), cancels, the task's iteration hash, the result ('' = none), `queues`;
--       then for each group of tasks the list that they go to, or `schedule`.
-- ARGV: slot, id that it holds, new id, jid, '1' if it was cancelled, else '0', the result, how long it is kept
--       in ms; then for each group the queue's name ('' = the schedule), how many tasks, and the tasks in their order;
--       for the schedule each behind its time in microseconds.
-- Returns 1 if ended (also by an earlier call with the same new id), 2 if a group's key holds a foreign value: then
-- nothing was done, and the slot keeps the task under the new id (also for a repetition); 0 if the claim is lost.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return #claim == 16 and 1 or 2
end
if id ~= ARGV[2] or id == '' then
    return 0
end
local is_fit, at = true, 8
for i = 7, #KEYS do
    local is_list = ARGV[at] ~= ''
    is_fit = is_fit and type(redis.pcall(is_list and 'LLEN' or 'ZCARD', KEYS[i])) == 'number'
    at = at + 2 + tonumber(ARGV[at + 1]) * (is_list and 1 or 2)
end
-- From here on every command succeeds: a script that has written may go on when the node is out of memory.
redis.call('HDEL', KEYS[1], ARGV[1])
if not is_fit then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. string.sub(claim, 17))
    return 2
end

-- Gives each entry a score of its own, because dashboards address an entry of the schedule by its score.
local next_due = {}
local function schedule_add(schedule, time, task)
    local due, score = next_due[time] or tonumber(time), nil
    for _ = 1, 64 do
        score = string.format('%.6f', due / 1000000)
        due = due + 1
        if redis.call('ZCOUNT', schedule, score, score) == 0 then
            break
        end
    end
    next_due[time] = due
    entry_add(schedule, score, task)
end

at = 8
for i = 7, #KEYS do
    local first, count = at + 2, tonumber(ARGV[at + 1])
    if ARGV[at] ~= '' then
        redis.call('LPUSH', KEYS[i], unpack(ARGV, first, first + count - 1))
        redis.pcall('SADD', KEYS[6], ARGV[at])
        at = first + count
    else
        for n = first, first + 2 * count - 2, 2 do
            schedule_add(KEYS[i], ARGV[n], ARGV[n + 1])
        end
        at = first + 2 * count
    end
end
if KEYS[5] ~= '' then
    redis.call('SET', KEYS[5], ARGV[6], 'PX', ARGV[7])
end
if KEYS[2] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[4] then
    redis.call('DEL', KEYS[2])
end
if ARGV[5] == '1' then
    redis.pcall('ZREM', KEYS[3], ARGV[4])
end
-- A finished task needs no iteration state.
if type(redis.pcall('HLEN', KEYS[4])) == 'number' then
    redis.call('UNLINK', KEYS[4])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
