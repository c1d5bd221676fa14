-- The entries of a sorted set that are due by the node's own clock, oldest first.
-- KEYS: the sorted set. ARGV: how many at most, how many bytes at most (one entry is always given).
-- Answers the entries.
local time = redis.call('TIME')
local now = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, tonumber(ARGV[1]))
local budget, answer = tonumber(ARGV[2]), {}
for i = 1, #due do
    budget = budget - #due[i]
    if i > 1 and budget < 0 then
        break
    end
    answer[i] = due[i]
end
return answer
