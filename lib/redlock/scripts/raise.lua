-- Raises the fences of a lock's keys to a token, where its value holds all of them. KEYS: the marker, then the keys.
-- ARGV: marker text ("" = do not compare, "-" = none), value, token, ttl and ttl of fences in milliseconds.
-- Answers {1, now} when the marker is another one; else {0, now, "+" and the highest fence then} or {0, now, "0"} when a
-- key is not ours any more, with nothing done.
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])
if ARGV[1] ~= '' and (redis.pcall('GET', KEYS[1]) or '-') ~= ARGV[1] then
    return {1, now_text}
end
local highest = tonumber(ARGV[3])
for i = 2, #KEYS do
    if redis.pcall('GET', KEYS[i]) ~= ARGV[2] then
        return {0, now_text, '0'}
    end
    local last = tonumber(redis.call('GET', 'hf:fence:' .. KEYS[i]) or nil)
    if last and last > highest then
        highest = last
    end
end
local token = string.format('%.0f', highest)
for i = 2, #KEYS do
    redis.call('PEXPIRE', KEYS[i], ARGV[4])
    redis.call('SET', 'hf:fence:' .. KEYS[i], token, 'PX', ARGV[5])
end
return {0, now_text, '+' .. token}
