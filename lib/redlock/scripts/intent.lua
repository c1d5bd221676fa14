-- Keeps the turn of a lock that waits, for fairness alone ("Who goes first" in group_private.h). KEYS: the marker, then
-- its keys. ARGV: marker text, deadline in microseconds of this node's clock, the intent: a text that renewals repeat.
-- Without a sign (turns.lua) it keeps new readers out if the key has readers now, until one turn (REDLOCK_TURN_NS)
-- after the last of them ends. With a sign it begins with the time since when the lock waits, in hexadecimal digits,
-- and lasts until one turn after the last of its keys is free. Both count the ends that the node knows now: by then the
-- lock asks again (LONG_MAX_NS). Where an older one keeps one of the keys it plants nothing. One that gives up
-- withdraws it (shared_release.lua). Returns, behind "0" and the time, "1".
-- include: marker.lua
-- include: deadline.lua
-- include: turns.lua
-- include: turn.lua
local LONG_MAX_MS = 60000 -- also in C
local ASKS_AGAIN_MS = 1000
local sign = sign_of(ARGV[3])
local is_several, longest = sign ~= nil, sign == '*' and ASKS_AGAIN_MS or 0
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    local left = held and math.max(redis.call('PTTL', KEYS[i]), 0)
    if turns and turn_of(KEYS[i], is_several and ARGV[3]) then
        return '0 ' .. stamp .. ' 1'
    end
    if is_several then
        longest = math.max(longest, math.min(left or 0, LONG_MAX_MS))
    elseif held == 'hf:shared' then
        redis.call('SET', 'hf:writer:' .. KEYS[i], ARGV[3], 'PX', left + TURN_MS)
    end
end
for i = 2, is_several and #KEYS or 0 do
    redis.call('SET', 'hf:writer:' .. KEYS[i], ARGV[3], 'PX', longest + TURN_MS)
end
if is_several and redis.call('PTTL', 'hf:turns') < longest + TURN_MS then
    redis.call('SET', 'hf:turns', '1', 'PX', longest + TURN_MS)
end
return '0 ' .. stamp .. ' 1'
