-- As grant_all_unfenced.lua, with a token. KEYS: the marker, then the keys. ARGV: as in grant.lua, with one value, at
-- most one that it may replace, and the intent of a waiter that keeps its turn (intent.lua). Returns what
-- grant_all_unfenced.lua does, and the token behind it; or "#" if the fence of a key is no usable token. All keys get
-- one token, above all of their last ones.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: seats.lua
-- include: turns.lua
-- include: free_or_replaced.lua
local highest = highest_fence(floor)
if not highest then
    return '0 ' .. stamp .. ' #'
end
local token = string.format('%.0f', math.max(math.min(tonumber(ARGV[4]), now + AHEAD_MAX), highest + 1))
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[5], 'PX', ARGV[3])
    note_seat(KEYS[i])
end
raise_fences(token)
return '0 ' .. stamp .. (replaced == #KEYS - 1 and ' =' or ' +') .. token
