-- Raises the fences of a lock's keys to a token, if its value holds all of them. KEYS: the marker, then the keys. ARGV:
-- marker text, value, token, ttl in milliseconds. Returns, behind "0" and the time, "+" and the highest fence, or "0"
-- if a key is no longer ours; then nothing is done.
-- include: fences.lua
-- include: fence_member.lua
-- include: fence_scores.lua
for i = 2, #KEYS do
    if redis.pcall('GET', KEYS[i]) ~= ARGV[2] then
        return '0 ' .. stamp .. ' 0'
    end
end
local highest = highest_fence(floor)
if not highest then
    return '0 ' .. stamp .. ' 0'
end
local token = string.format('%.0f', math.max(tonumber(ARGV[3]), highest))
for i = 2, #KEYS do
    redis.call('PEXPIRE', KEYS[i], ARGV[4])
end
raise_fences(token)
return '0 ' .. stamp .. ' +' .. token
