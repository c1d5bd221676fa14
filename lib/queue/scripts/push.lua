-- include: entry_add.lua
-- Pushes the tasks of one batch into a queue, or into the schedule, unless an earlier try of the same batch did.
--
-- KEYS: the producer's record, the list (or `schedule`), and for a list `queues`.
-- ARGV: number of the batch, lowest number that is not answered yet, how long the record is kept in ms, name of the
--       queue ('' = the schedule), then the tasks; for the schedule each behind its score.
-- Returns the number of tasks that the list or schedule then has; 0 if an earlier try was executed; -1 to a try whose
-- producer no longer waits for it.
--
-- The record holds the numbers of the batches that were pushed and may be asked about again, and under `low` the lowest
-- one that was not answered: a number below it is a try that got lost and arrives late.
local record, target = KEYS[1], KEYS[2]
local low = math.max(tonumber(redis.call('ZSCORE', record, 'low') or 0), tonumber(ARGV[2]))
if low > tonumber(ARGV[1]) then
    return -1
end
if redis.call('ZSCORE', record, ARGV[1]) then
    return 0
end
-- Adds first: on a node that is out of memory this must fail. The bookkeeping behind it then still works.
local length
if ARGV[4] == '' then
    for i = 5, #ARGV, 2 do
        entry_add(target, ARGV[i], ARGV[i + 1])
    end
    length = redis.call('ZCARD', target)
else
    length = redis.call('LPUSH', target, unpack(ARGV, 5))
    redis.pcall('SADD', KEYS[3], ARGV[4])
end
redis.call('ZREMRANGEBYSCORE', record, '-inf', '(' .. string.format('%d', low))
redis.call('ZADD', record, string.format('%d', low), 'low', ARGV[1], ARGV[1])
redis.call('PEXPIRE', record, ARGV[3])
return length
