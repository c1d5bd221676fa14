-- Begins a dry run or renews its lease. KEYS: the index of runs, the record of this one.
-- ARGV: the run; its owner, drawn anew by each; its lease in seconds; how long index and record live, in ms; at the
--       beginning only: members of the record, name and value
-- Returns 1, or 0 if another owner has it: the run was taken for dead, and its keys are being removed. A repetition
-- gets the same answer.
local owner = redis.call('HGET', KEYS[2], 'owner')
if owner and owner ~= ARGV[2] or not owner and #ARGV == 4 then
    return 0
end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], string.format('%.6f', time[1] + time[2] / 1000000 + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], 'owner', ARGV[2])
if not owner then
    redis.call('HSET', KEYS[2], 'since', string.format('%.6f', time[1] + time[2] / 1000000))
end
for i = 5, #ARGV, 2 do
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
