-- Sets the ttl of each key that still holds its value; never plants a key that is gone. KEYS: the marker, then the
-- keys.
-- ARGV: marker text ("" = do not compare, "-" = none), then a value for each key, then a ttl in ms for each key.
-- Returns, behind "0" and the time, one character a key: 1 extended, 0 not ours.
-- include: marker.lua
local answer, count = {}, #KEYS - 1
for i = 1, count do
    if redis.pcall('GET', KEYS[i + 1]) == ARGV[i + 1] then
        redis.call('PEXPIRE', KEYS[i + 1], ARGV[count + i + 1])
        answer[i] = '1'
    else
        answer[i] = '0'
    end
end
return '0 ' .. stamp .. ' ' .. table.concat(answer)
