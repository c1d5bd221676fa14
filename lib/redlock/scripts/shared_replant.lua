-- As replant.lua, for a shared lock: the keys are free, or have readers. KEYS, ARGV and answer: those of
-- replant.lua. A fence that is higher than the token may be that of a writer who was there meanwhile.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
-- include: seat_held.lua
local highest = highest_fence(0)
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if (held and held ~= 'hf:shared') or seat_held(KEYS[i]) or not highest or highest > tonumber(ARGV[4]) then
        return '0 ' .. stamp .. ' 0'
    end
end
raise_fences(ARGV[4])
for i = 2, #KEYS do
    add_reader(KEYS[i], ARGV[3], ARGV[5])
end
return '0 ' .. stamp .. ' 1'
