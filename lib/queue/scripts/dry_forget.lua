-- Removes the record of a dry run. KEYS: the index of runs, the record of this one. ARGV: the run; its owner
-- Returns 1 (also when repeated), or 0 if another owner has it.
local owner = redis.call('HGET', KEYS[2], 'owner')
if owner and owner ~= ARGV[2] then
    return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return 1
