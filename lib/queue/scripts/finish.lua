-- Ends a task that holds its class and arguments as unique, and gives them free.
-- KEYS: the process, the unique key. ARGV: slot, id that its place holds, new id, jid.
-- Answers 1 when ended (also by an earlier call with the same new id), 0 when the claim is lost.
local id = string.sub(redis.call('HGET', KEYS[1], ARGV[1]) or '', 1, 16)
if id == ARGV[3] then
    return 1
end
if id ~= ARGV[2] or id == '' then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.pcall('GET', KEYS[2]) == ARGV[4] then
    redis.call('DEL', KEYS[2])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
