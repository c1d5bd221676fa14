-- Marks a task as cancelled: in its iteration hash, and in the list that processes read before they start a task.
-- KEYS: the task's iteration hash, cancels. ARGV: jid; for the list: longest age in seconds, greatest number of
-- entries.
-- Returns the time of the first mark, in seconds. Safe to repeat. Writes together what dashboards read together.
-- Removes before it adds, so that it works on a node that is out of memory.
local LIFE_S = 2592000
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now - tonumber(ARGV[2])))
local kind = redis.call('TYPE', KEYS[1]).ok
local marked = time[1]
if kind == 'hash' or kind == 'none' then
    redis.call('HSETNX', KEYS[1], 'cancelled', time[1])
    redis.call('HSETNX', KEYS[1], 'ex', '0')
    redis.call('HSETNX', KEYS[1], 'c', 'null')
    redis.call('HSETNX', KEYS[1], 'rt', '0.0')
    if redis.call('TTL', KEYS[1]) < 0 then
        redis.call('EXPIRE', KEYS[1], LIFE_S)
    end
    marked = redis.call('HGET', KEYS[1], 'cancelled')
end
redis.call('ZADD', KEYS[2], string.format('%.6f', now), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[3]) - 1)
redis.call('EXPIRE', KEYS[2], ARGV[2]) -- while the list exists, processes check every task before it runs
return tonumber(marked) or 0
