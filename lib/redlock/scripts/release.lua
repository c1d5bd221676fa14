-- Deletes each key that still holds its value. KEYS[i] belongs to ARGV[i], so that the releases of many locks leave
-- in one call. Answers one character a key: 1 deleted, 0 gone already, 2 somebody else's.
local answer = {}
for i = 1, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if held == ARGV[i] then
        redis.call('DEL', KEYS[i])
        answer[i] = '1'
    elseif held then
        answer[i] = '2'
    else
        answer[i] = '0'
    end
end
return table.concat(answer)
