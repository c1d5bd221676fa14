-- include: entry_add.lua
-- Pushes one task, unless another with the same class and arguments waits or runs.
--
-- KEYS: the producer's record (see push.lua), the key of uniqueness, the list (or `schedule`), and for a list `queues`.
-- ARGV: number of the slice, lowest number that is not answered yet, how long the record is kept in ms, name of the
--       queue ('' = the schedule), jid, how long it is unique in ms, the task; for the schedule behind its score.
-- Answers the jid of the task that has the key: the caller's own when it is pushed, also by an earlier try; '' to a try
-- that nobody waits for any more.
local record, unique, place = KEYS[1], KEYS[2], KEYS[3]
local low = math.max(tonumber(redis.call('ZSCORE', record, 'low') or 0), tonumber(ARGV[2]))
if low > tonumber(ARGV[1]) then
    return ''
end
if redis.call('ZSCORE', record, ARGV[1]) then
    return ARGV[5]
end
local holder = redis.call('GET', unique)
if holder then
    return holder
end
-- The task goes first: whatever the node refuses, it refuses here, and the key is then not taken.
if ARGV[4] == '' then
    entry_add(place, ARGV[7], ARGV[8])
else
    redis.call('LPUSH', place, ARGV[7])
    redis.pcall('SADD', KEYS[4], ARGV[4])
end
redis.call('SET', unique, ARGV[5], 'PX', ARGV[6])
redis.call('ZREMRANGEBYSCORE', record, '-inf', '(' .. string.format('%d', low))
redis.call('ZADD', record, string.format('%d', low), 'low', ARGV[1], ARGV[1])
redis.call('PEXPIRE', record, ARGV[3])
return ARGV[5]
