-- Removes the record of a dry run. KEYS: the index of runs, the record of this one. ARGV: the run; who removed its keys
-- Returns 1 (also when repeated), or 0 if another one took it over.
local taker = redis.call('HGET', KEYS[2], 'taker')
if taker and taker ~= ARGV[2] then
    return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return 1
