-- Keeps the turn of a writer that waits. KEYS: the marker, then the keys. ARGV: marker text, deadline in microseconds
-- of this node's clock, the writer's intent: a text of its own that every renewal repeats. It is for fairness alone.
-- Of one key it keeps new readers out if the key has readers now, until one turn (REDLOCK_TURN_NS) after the last of
-- them ends if none extends. The intent of a wish of several keys begins with the time since when it waits, in
-- hexadecimal digits, and its digits end with "+" (turns.lua). That keeps readers and writers from all of its keys
-- until one turn after the last of them is free, if none extends. If a wish that has waited longer keeps one of the
-- keys, it plants nothing: so of wishes that overlap the oldest gets in, on all nodes.
-- By the end of it the writer asks again (LONG_MAX_NS). One that gives up withdraws it (shared_release.lua). Returns,
-- behind "0" and the time, "1".
-- include: marker.lua
-- include: deadline.lua
-- include: turns.lua
-- include: turn.lua
local LONG_MAX_MS = 60000
local is_several, longest = is_of_several(ARGV[3]), 0
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    local left = held and math.max(redis.call('PTTL', KEYS[i]), 0)
    local kept = turns and turn_of(KEYS[i], ARGV[3])
    if kept and (not is_several or redis.call('GET', kept) < ARGV[3]) then
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
