-- Takes over a dry run whose lease has ended, to remove what it left. KEYS: the index of runs, the record of this one.
-- ARGV: the run; who takes it; its lease in seconds; how long index and record live, in ms
-- Returns 0 if the run is missing or still alive; else the prefix of its locks. A repetition gets the same answer.
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
if not ends or tonumber(ends) > now and redis.call('HGET', KEYS[2], 'taker') ~= ARGV[2] then
    return 0
end
redis.call('ZADD', KEYS[1], string.format('%.6f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], 'taker', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return redis.call('HGET', KEYS[2], 'lock_prefix') or ''
