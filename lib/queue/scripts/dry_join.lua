-- A remote host of a dry run sends a heartbeat and the records of its workers, and reads the state of the run.
-- KEYS: run, hosts, records
-- ARGV: the host's name; its heartbeat as JSON; how long all this lives, in ms; the number of these records (from 1,
--       one more each time there are any); the records ('' = none); how many may wait to be taken
-- Returns the node's time in us, the state of the run, or nothing if there is no such run (then the script stores
-- nothing), and the number of the last stored records. If too many wait, the script does not store those of this call
-- and the host keeps them. A repetition after a lost reply stores nothing twice.
local state = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[2], 'state')
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
if not state then
    return {now_us}
end
local field = 'records:' .. ARGV[1]
local numbered = tonumber(redis.call('HGET', KEYS[2], field) or '0')
if ARGV[5] ~= '' and tonumber(ARGV[4]) > numbered and redis.call('XLEN', KEYS[3]) < tonumber(ARGV[6]) then
    redis.call('XADD', KEYS[3], '*', ARGV[1], ARGV[5])
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
    redis.call('HSET', KEYS[2], field, ARGV[4])
    numbered = tonumber(ARGV[4])
end
redis.call('HSET', KEYS[2], 'beat:' .. ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {now_us, state, numbered}
