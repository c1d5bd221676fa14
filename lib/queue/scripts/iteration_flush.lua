-- Writes the progress of a run, or, with 'end', removes the iteration state of the task.
-- KEYS: the task's iteration hash. ARGV: the name of the run, 'go on' or 'end', seconds of all runs, cursor ('' =
-- none), 'new' if the node may not know of the run, and no earlier one had left anything: '' if it does.
-- Returns whether to cancel the task (1 or 0), or -1 if another run has begun since or the hash is gone:
-- then it writes nothing. Safe to repeat.
local LIFE_S, LATE_S = 2592000, 60
local known = redis.pcall('HMGET', KEYS[1], 'run', 'ex')
-- A hash may be there all the same: somebody cancelled the task meanwhile.
local begins = ARGV[5] == 'new' and not known.err and not known[1] and (tonumber(known[2]) or 0) == 0
if not begins and known[1] ~= ARGV[1] then
    return -1
end
local cancelled = redis.call('HEXISTS', KEYS[1], 'cancelled')
if ARGV[2] == 'end' then
    redis.call('UNLINK', KEYS[1])
    if begins then
        redis.call('HSET', KEYS[1], 'run', ARGV[1]) -- iteration_begin.lua may come late, and counts no known run
        redis.call('EXPIRE', KEYS[1], LATE_S)
    end
    return cancelled
end
redis.call('HDEL', KEYS[1], 'rt') -- first, so that the next command works on a node that is out of memory
redis.call('HSET', KEYS[1], 'rt', ARGV[3])
if begins then
    redis.call('HSET', KEYS[1], 'ex', '1', 'c', 'null', 'run', ARGV[1])
    redis.call('EXPIRE', KEYS[1], LIFE_S)
end
if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[1], 'c', ARGV[4])
end
return cancelled
