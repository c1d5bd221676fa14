-- Deletes a queue with all its tasks. Keeps them for a while under a key of this call, so that the caller can release
-- their unique keys. Tasks that a worker has already taken are not among them.
-- KEYS: `queues`, `paused`, the queue, receipt of this call, where the tasks are kept. ARGV: the queue's name, for how
--       many seconds they are kept.
-- Returns the number of deleted tasks, also when repeated; -1 if the key holds a foreign value.
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
if length > 0 then
    redis.call('RENAME', KEYS[3], KEYS[5])
    redis.call('EXPIRE', KEYS[5], ARGV[2])
end
redis.pcall('SET', KEYS[4], length, 'EX', 600)
return length
