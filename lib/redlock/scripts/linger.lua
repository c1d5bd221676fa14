-- Gives each key that still holds its value a last ttl. KEYS[i] belongs to ARGV[i], its value, and to ARGV[#KEYS + i],
-- a ttl in milliseconds. Returns one character a key, as release.lua: 1 it stays for that long, 0 gone already, 2
-- another owner's.
local answer = {}
for i = 1, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if held == ARGV[i] then
        redis.call('PEXPIRE', KEYS[i], ARGV[#KEYS + i])
        answer[i] = '1'
    elseif held then
        answer[i] = '2'
    else
        answer[i] = '0'
    end
end
return table.concat(answer)
