-- As grant_all.lua, with a token, on a node that keeps its fences in the set hf:fences. KEYS: the marker, then the keys.
-- ARGV: as in grant_set.lua, with one value, and at most one that it may replace. Returns what grant_all.lua does.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
local old, replaced = ARGV[6], 0
for i = 2, #KEYS do
    local key = KEYS[i]
    local held = redis.pcall('GET', key)
    if held and held == old then
        replaced = replaced + 1
    elseif held then
        local where = '@' .. (i - 2)
        -- include: refusal.lua
        return '0 ' .. stamp .. ' ' .. refusal
    end
end
local highest = highest_fence()
if not highest then
    return '0 ' .. stamp .. ' #'
end
local token = string.format('%.0f', math.max(math.min(tonumber(ARGV[4]), now + 60000000), highest + 1))
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[5], 'PX', ARGV[3])
end
raise_fences(token)
return '0 ' .. stamp .. (replaced == #KEYS - 1 and ' =' or ' +') .. token
