-- include: entry_add.lua
-- include: holder_look.lua
-- Pushes one task, unless another with the same class and arguments waits or runs.
--
-- KEYS: the producer's record (see push.lua), the key of uniqueness, the list (or `schedule`), and for a list `queues`;
--       behind them, to look for the task that has the key: our processes, all that are listed, `queues`, `schedule`,
--       `retry`, the note about this digest, and the one about the last look.
-- ARGV: number of the slice, lowest number that is not answered yet, how long the record is kept in ms, name of the
--       queue ('' = the schedule), jid, how long it is unique in ms, the task; for the schedule behind its score;
--       behind it, to look: the jid that was missed before ('' = none), the queue of the new task, the digest, what stands
--       before the names of queues, processes, bells and listed processes.
-- Answers the jid of the task that has the key: the caller's own when it is pushed, also by an earlier try; '' to a try
-- that nobody waits for any more. Or a list of that jid: look for it; or, to one that looked: it was missed.
--
-- A task that is missed may be between two commands of another program, which takes it out of one place and then
-- pushes it. So it is gone only when it is missed twice, some time apart.
local record, unique, place = KEYS[1], KEYS[2], KEYS[3]
local is_list = ARGV[4] ~= ''
local low = math.max(tonumber(redis.call('ZSCORE', record, 'low') or 0), tonumber(ARGV[2]))
if low > tonumber(ARGV[1]) then
    return ''
end
if redis.call('ZSCORE', record, ARGV[1]) then
    return ARGV[5]
end
local holder = redis.call('GET', unique)
if holder then
    local key, at = is_list and 5 or 4, is_list and 8 or 9
    if not ARGV[at] then
        return {holder}
    end
    local look = holder_look({processes = KEYS[key], listed = KEYS[key + 1], queues = KEYS[key + 2],
        schedule = KEYS[key + 3], retry = KEYS[key + 4], note = KEYS[key + 5], pause = KEYS[key + 6]},
        {queues = ARGV[at + 3], processes = ARGV[at + 4], bells = ARGV[at + 5], shown = ARGV[at + 6]})
    local was_missed = ARGV[at] == holder
    if not (was_missed or look.may_begin()) or look.finds(ARGV[at + 1], ARGV[at + 2], holder) then
        return holder
    end
    if not was_missed then
        return {holder}
    end
end
-- The task goes first: whatever the node refuses, it refuses here, and the key is then not taken.
if is_list then
    redis.call('LPUSH', place, ARGV[7])
    redis.pcall('SADD', KEYS[4], ARGV[4])
else
    entry_add(place, ARGV[7], ARGV[8])
end
redis.call('SET', unique, ARGV[5], 'PX', ARGV[6])
redis.call('ZREMRANGEBYSCORE', record, '-inf', '(' .. string.format('%d', low))
redis.call('ZADD', record, string.format('%d', low), 'low', ARGV[1], ARGV[1])
redis.call('PEXPIRE', record, ARGV[3])
return ARGV[5]
