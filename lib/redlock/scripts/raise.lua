-- Raises the fences of a lock's keys to a token, if its value holds all of them. KEYS: the marker, then the keys.
-- ARGV: marker text ("" = do not compare, "-" = none), value, token, ttl and ttl of fences in milliseconds.
-- Returns, behind "0" and the time, "+" and the highest fence, or "0" if a key is no longer ours; then nothing is done.
-- include: marker.lua
local highest = tonumber(ARGV[3])
for i = 2, #KEYS do
    if redis.pcall('GET', KEYS[i]) ~= ARGV[2] then
        return '0 ' .. stamp .. ' 0'
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
return '0 ' .. stamp .. ' +' .. token
