-- Sets the ttl of each key that still holds its value; never plants a key that is gone. KEYS: the marker, then the keys.
-- ARGV: marker text ("" = do not compare, "-" = none), then a value for each key, then a ttl in ms for each key.
-- Answers {1, now} when the marker is another one, with nothing done; else {0, now, one character a key: 1 extended,
-- 0 not ours}.
local time = redis.call('TIME')
local now_text = string.format('%.0f', time[1] * 1000000 + time[2])
if ARGV[1] ~= '' and (redis.pcall('GET', KEYS[1]) or '-') ~= ARGV[1] then
    return {1, now_text}
end
local answer, count = {}, #KEYS - 1
for i = 1, count do
    if redis.pcall('GET', KEYS[i + 1]) == ARGV[i + 1] then
        redis.call('PEXPIRE', KEYS[i + 1], ARGV[count + i + 1])
        answer[i] = '1'
    else
        answer[i] = '0'
    end
end
return {0, now_text, table.concat(answer)}
