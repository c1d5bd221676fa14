-- As raise.lua, for a shared lock: the value is that of a reader of all keys. KEYS and ARGV: those of raise.lua.
-- Returns, behind "0" and the time, "+" and the token, though another reader may have raised a fence beyond it, or "0".
-- The token is one that another node has already, so it is above that of no later writer.
-- include: fences.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
for i = 2, #KEYS do
    if not is_reader(KEYS[i], ARGV[2]) then
        return '0 ' .. stamp .. ' 0'
    end
end
for i = 2, #KEYS do
    add_reader(KEYS[i], ARGV[2], ARGV[4])
end
raise_fences(ARGV[3])
return '0 ' .. stamp .. ' +' .. ARGV[3]
