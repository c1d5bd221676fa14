-- Lists a process among those that may have claims.
-- KEYS: processes. ARGV: identity.
-- Removes first and adds second, so that workers can start, and make room, on a node that is out of memory.
redis.call('SREM', KEYS[1], ARGV[1])
return redis.call('SADD', KEYS[1], ARGV[1])
