-- Nothing of a dry run is left. KEYS: the index of runs, the record of this one. ARGV: the run; its owner
-- Answers 1, or 0 when somebody else has it. Repeated it answers 1.
local owner = redis.call('HGET', KEYS[2], 'owner')
if owner and owner ~= ARGV[2] then
    return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return 1
