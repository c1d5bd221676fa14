-- Moves fences from strings into the set, a part at a time. KEYS: the marker, the set, then the strings. ARGV: marker
-- text. Returns, behind "0" and the time, one character a string: 1 moved, 0 nothing there, 2 no fence: it stays. Safe
-- to repeat.
-- include: marker.lua
-- include: fence_member.lua
redis.call('ZADD', KEYS[2], 'XX', 'GT', 0, '') -- with a wrong type there nothing is lost
local answer = {}
for i = 3, #KEYS do
    local found = redis.pcall('GET', KEYS[i])
    if not found then
        answer[i - 2] = '0'
    elseif type(found) == 'string' and #found <= 16 and string.match(found, '^%d+$') then
        redis.call('ZADD', KEYS[2], 'GT', found, member_of(string.sub(KEYS[i], 10)))
        redis.call('DEL', KEYS[i])
        answer[i - 2] = '1'
    else
        answer[i - 2] = '2'
    end
end
return '0 ' .. stamp .. ' ' .. table.concat(answer)
