-- Sets the ttl of each key that still holds its value; never plants a key that is gone. KEYS[i] belongs to ARGV[i]
-- (value) and ARGV[#KEYS + i] (ttl in milliseconds). Answers one character a key: 1 extended, 0 not ours.
local answer = {}
for i = 1, #KEYS do
    if redis.pcall('GET', KEYS[i]) == ARGV[i] then
        redis.call('PEXPIRE', KEYS[i], ARGV[#KEYS + i])
        answer[i] = '1'
    else
        answer[i] = '0'
    end
end
return table.concat(answer)
