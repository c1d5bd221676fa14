-- The beginning of every call about fences in the set hf:fences: as marker.lua, with the floor of the set read along,
-- and `turns` (turns.lua).
-- `floor` is the highest token that was dropped from the set (trim.lua) or may have been forgotten (mark.lua): no entry
-- means "up to this". It is nil if what is there is no number: then no fence of this node can be trusted.
local found = redis.call('MGET', KEYS[1], 'hf:fences:floor', 'hf:turns')
local time = redis.call('TIME')
local stamp = time[1] .. ' ' .. time[2]
if (found[1] or '-') ~= ARGV[1] then
    return '1 ' .. stamp
end
local floor, turns = tonumber(found[2] or 0), found[3]
