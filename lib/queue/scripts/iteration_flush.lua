-- Writes the progress of a run, or, with 'end', removes the iteration state of the task.
-- KEYS: the task's iteration hash. ARGV: the name of the run, 'go on' or 'end', seconds of all runs, cursor ('' =
-- none), 'new' if the node may not know of the run, and no earlier one had left anything: '' if it does.
-- Returns whether to cancel the task (1 or 0), or -1 if another run has begun since or the hash is gone:
-- then it writes nothing. Safe to repeat.
local begins = ARGV[5] == 'new' and ARGV[2] == 'go on' and ARGV[4] ~= '' and redis.call('EXISTS', KEYS[1]) == 0
if not begins and redis.pcall('HGET', KEYS[1], 'run') ~= ARGV[1] then
    return -1
end
local cancelled = redis.call('HEXISTS', KEYS[1], 'cancelled')
if ARGV[2] == 'end' then
    redis.call('UNLINK', KEYS[1])
    return cancelled
end
redis.call('HDEL', KEYS[1], 'rt') -- first, so that the next command works on a node that is out of memory
redis.call('HSET', KEYS[1], 'rt', ARGV[3])
if begins then
    redis.call('HSET', KEYS[1], 'ex', '1', 'run', ARGV[1])
    redis.call('EXPIRE', KEYS[1], 2592000) -- as iteration_begin.lua
end
if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[1], 'c', ARGV[4])
end
return cancelled
