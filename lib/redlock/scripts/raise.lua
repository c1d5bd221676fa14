-- Raises the fences of a lock's keys to a token, if its value holds all of them. KEYS: the marker, then the keys. ARGV:
-- marker text, value, token, ttl in milliseconds; "shared" behind them if the value is that of a reader. Returns,
-- behind "0" and the time, "+" and the highest fence, or "0" if a key is no longer ours; then nothing is done. A reader
-- gets the token that it names, though another reader may have raised a fence beyond it: another node has that token
-- already, so it is above that of no later writer.
-- include: fences.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
local is_shared, token = ARGV[5] == 'shared', ARGV[3]
for i = 2, #KEYS do
    local is_ours
    if is_shared then
        is_ours = is_reader(KEYS[i], ARGV[2])
    else
        is_ours = redis.pcall('GET', KEYS[i]) == ARGV[2]
    end
    if not is_ours then
        return '0 ' .. stamp .. ' 0'
    end
end
if not is_shared then
    local highest = highest_fence(floor)
    if not highest then
        return '0 ' .. stamp .. ' 0'
    end
    token = string.format('%.0f', math.max(tonumber(token), highest))
end
for i = 2, #KEYS do
    if is_shared then
        add_reader(KEYS[i], ARGV[2], ARGV[4])
    else
        redis.call('PEXPIRE', KEYS[i], ARGV[4])
    end
end
raise_fences(token)
return '0 ' .. stamp .. ' +' .. token
