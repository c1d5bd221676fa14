-- As extend.lua, for shared locks: the value is that of a reader, and the key lasts as long as the last of them. KEYS,
-- ARGV and answer: those of extend.lua.
-- include: marker.lua
-- include: readers.lua
local answer, count = {}, #KEYS - 1
for i = 1, count do
    answer[i] = '0'
    if is_reader(KEYS[i + 1], ARGV[i + 1]) then
        add_reader(KEYS[i + 1], ARGV[i + 1], ARGV[count + i + 1])
        answer[i] = '1'
    end
end
return '0 ' .. stamp .. ' ' .. table.concat(answer)
