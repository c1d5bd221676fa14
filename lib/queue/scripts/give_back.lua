-- Puts a claimed task that did not run, or did not finish, back at the head of its queue.
--
-- KEYS: the process, the queue. ARGV: slot, id that it holds, new id.
-- Returns 1 if it is back (also by an earlier call with the same new id), 0 if the claim is lost.
local claim = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id = string.sub(claim, 1, 16)
if id == ARGV[3] then
    return 1
end
local line = string.find(claim, '\n', 17, true)
if id ~= ARGV[2] or not line then
    return 0
end
redis.call('LLEN', KEYS[2]) -- a foreign value under this key is an error now, before the task moves
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], string.sub(claim, line + 1))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
