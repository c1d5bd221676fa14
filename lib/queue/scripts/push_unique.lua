-- include: entry_add.lua
-- include: holder_look.lua
-- Pushes one task, unless another with the same class and arguments waits or runs.
--
-- KEYS: the producer's record (see push.lua), the unique key, the list (or `schedule`), `queues`; to look for the
--       task that has the key also our processes, all listed processes, `schedule`, `retry`, the note about this
--       digest, and the one about the last look.
-- ARGV: number of the batch, lowest number that is not answered yet, how long the record is kept in ms, name of the
--       queue, jid, how long it is unique in ms, score in the schedule ('' = it goes to the list), the task; to look
--       also the jid that was missed before ('' = none), the digest, the prefixes of the names of queues, processes,
--       bells and listed processes.
-- Returns the jid of the task that has the key: the caller's own if it is pushed, also by an earlier try; '' to a try
-- whose producer no longer waits for it. Or a list of that jid: look for it; or, after a look: it was missed.
--
-- A missed task may be between two commands of another program, which takes it out of one key and then pushes it.
-- So it is gone only if it is missed twice, some time apart.
local record, unique, target = KEYS[1], KEYS[2], KEYS[3]
local low = math.max(tonumber(redis.call('ZSCORE', record, 'low') or 0), tonumber(ARGV[2]))
if low > tonumber(ARGV[1]) then
    return ''
end
if redis.call('ZSCORE', record, ARGV[1]) then
    return ARGV[5]
end
local holder = redis.call('GET', unique)
if holder then
    if not ARGV[9] then
        return {holder}
    end
    local look = holder_look({processes = KEYS[5], listed = KEYS[6], queues = KEYS[4],
        schedule = KEYS[7], retry = KEYS[8], note = KEYS[9], pause = KEYS[10]},
        {queues = ARGV[11], processes = ARGV[12], bells = ARGV[13], shown = ARGV[14]})
    local was_missed = ARGV[9] == holder
    if not (was_missed or look.may_begin()) or look.finds(ARGV[4], ARGV[10], holder) then
        return holder
    end
    if not was_missed then
        return {holder}
    end
end
-- Pushes the task first: whatever the node refuses, it refuses here, before the key is taken.
if ARGV[7] == '' then
    redis.call('LPUSH', target, ARGV[8])
    redis.pcall('SADD', KEYS[4], ARGV[4])
else
    entry_add(target, ARGV[7], ARGV[8])
end
redis.call('SET', unique, ARGV[5], 'PX', ARGV[6])
redis.call('ZREMRANGEBYSCORE', record, '-inf', '(' .. string.format('%d', low))
redis.call('ZADD', record, string.format('%d', low), 'low', ARGV[1], ARGV[1])
redis.call('PEXPIRE', record, ARGV[3])
return ARGV[5]
