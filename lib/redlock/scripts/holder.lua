-- Returns who holds a lock. KEYS: its key. ARGV: the most bytes of a value to return. Changes nothing.
-- Returns {kind, value, remaining milliseconds, fencing token, readers}: kind is "0" nothing, "1" this value, "2" a
-- longer value (returns its length), "3" no string; the time is -1 for ever, -2 if there is nothing; the token is "" if
-- there is none. The readers of a shared lock are 64 at most, each a value and its remaining milliseconds.
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
local fence = redis.pcall('ZSCORE', 'hf:fences', member_of(KEYS[1])) or ''
if type(fence) == 'table' then
    if not string.find(fence.err, 'WRONGTYPE', 1, true) then
        return fence
    end
    fence = ''
end
local readers = {}
if held == 'hf:shared' then
    local time = redis.call('TIME')
    local moment = time[1] * 1000 + math.floor(time[2] / 1000)
    local all = redis.call('ZRANGE', 'hf:readers:' .. KEYS[1], -64, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
        if tonumber(all[i + 1]) >= moment then
            readers[#readers + 1] = all[i]
            readers[#readers + 1] = all[i + 1] - moment
        end
    end
end
return {kind, held, redis.call('PTTL', KEYS[1]), fence, readers}
