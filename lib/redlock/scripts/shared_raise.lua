-- As raise_set.lua, for a shared lock: the value is that of a reader of all keys. KEYS, ARGV and answer: those of
-- raise_set.lua. The token is one that another node has already, so it is above that of no later writer.
-- include: fences.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
local highest = highest_fence()
for i = 2, #KEYS do
    if not highest or not is_reader(KEYS[i], ARGV[2]) then
        return '0 ' .. stamp .. ' 0'
    end
end
local token = string.format('%.0f', math.max(tonumber(ARGV[3]), highest))
for i = 2, #KEYS do
    add_reader(KEYS[i], ARGV[2], ARGV[4])
end
raise_fences(token)
return '0 ' .. stamp .. ' +' .. token
