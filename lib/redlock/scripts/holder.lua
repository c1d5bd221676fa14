-- Returns who holds a lock. KEYS: its key. ARGV: the most bytes of a value to return. Changes nothing.
-- Returns {kind, value, remaining milliseconds, fencing token}: kind is "0" nothing, "1" this value, "2" a longer value
-- (returns its length), "3" no string; the time is -1 for ever, -2 if there is nothing; the token is "" if there is
-- none.
-- include: fence_member.lua
local held = redis.pcall('GET', KEYS[1])
local kind = '1'
if type(held) == 'table' then
    if not string.find(held.err, 'WRONGTYPE', 1, true) then
        return held
    end
    kind, held = '3', ''
elseif not held then
    kind, held = '0', ''
elseif #held > tonumber(ARGV[1]) then
    kind, held = '2', tostring(#held)
end
-- A node keeps its fences in one of two places; what it has in the other is older.
local highest = ''
for _, fence in ipairs({
    redis.pcall('GET', 'hf:fence:' .. KEYS[1]) or '',
    redis.pcall('ZSCORE', 'hf:fences', member_of(KEYS[1])) or '',
}) do
    if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then
        return fence
    end
    if type(fence) == 'string' and (tonumber(fence) or 0) >= (tonumber(highest) or 0) then
        highest = fence
    end
end
return {kind, held, redis.call('PTTL', KEYS[1]), highest}
