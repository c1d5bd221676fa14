-- Deletes a queue with all its tasks.
-- KEYS: `queues`, `paused`, the queue, receipt of this call. ARGV: the queue's name.
-- Answers the number of tasks that were deleted, also when it is repeated; -1 when the key holds a foreign value.
local receipt = redis.call('GET', KEYS[4])
if receipt then
    return tonumber(receipt)
end
local length = redis.pcall('LLEN', KEYS[3])
if type(length) ~= 'number' then
    return -1
end
redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('UNLINK', KEYS[3])
redis.pcall('SET', KEYS[4], length, 'EX', 600)
return length
