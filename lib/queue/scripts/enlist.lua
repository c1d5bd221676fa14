-- Lists a process among those that may have claims, with a fresh lease.
-- KEYS: processes, the process. ARGV: identity, lease in seconds, the names of its queues, one a line.
-- Removes before it adds, so that workers can start, and make room, on a node that is out of memory.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], 'gone', 'culprit')
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('ZADD', KEYS[1], string.format('%.6f', now + tonumber(ARGV[2])), ARGV[1])
redis.call('HSET', KEYS[2], 'queues', ARGV[3])
return 1
