-- Drops the lowest fences of the set hf:fences while it has too many. KEYS: the marker. ARGV: marker text, how many may
-- stay, how many may go. The floor keeps the highest token that was dropped; it is written first, so that a server
-- without memory for it drops nothing. Returns, behind "0" and the time, how many were dropped.
-- include: fences.lua
local over = math.min(redis.call('ZCARD', 'hf:fences') - ARGV[2], ARGV[3])
if over <= 0 or not floor then
    return '0 ' .. stamp .. ' 0'
end
local last = redis.call('ZRANGE', 'hf:fences', over - 1, over - 1, 'WITHSCORES')[2]
if tonumber(last) > floor then
    redis.call('SET', 'hf:fences:floor', last)
end
redis.call('ZREMRANGEBYRANK', 'hf:fences', 0, over - 1)
return '0 ' .. stamp .. ' ' .. over
