-- A guest of a dry run: says that it is there, leaves what its workers told, and hears how the run stands.
-- KEYS: run, guests, records
-- ARGV: the guest's name; its beat as JSON; for how long all this lives, in ms; the number of these records (from 1
--       on, one more each time there are any); the records, '' = none
-- Answers the node's time in us, and the run as JSON, or nothing when there is no such run (then nothing is left).
-- Repeated after a lost reply it leaves nothing twice.
local run = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
if not run then
    return {now_us}
end
local place = 'records:' .. ARGV[1]
local numbered = tonumber(redis.call('HGET', KEYS[2], place) or '0')
if ARGV[5] ~= '' and tonumber(ARGV[4]) > numbered then
    redis.call('XADD', KEYS[3], '*', ARGV[1], ARGV[5])
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
    redis.call('HSET', KEYS[2], place, ARGV[4])
end
redis.call('HSET', KEYS[2], 'beat:' .. ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {now_us, run}
