-- Takes each lock that is free, or has the value that it may replace, without tokens. KEYS: the marker, then one key a
-- lock. ARGV: marker text ("-" = none), deadline in microseconds of this node's clock, ttl in
-- milliseconds, "", then one value a key, then for the first keys, or all, or none of them, the old value that this one
-- may replace ("" = none).
-- Returns for each lock "+", or "=" if it replaced the old value; or "-" remaining ttl ":" value; or "!" remaining ttl
-- for a key that is no string. If all were taken, as nearly always, the answer is one text: "0", the time, nothing, and
-- the signs. Otherwise it is a list: "0" and the time, and one element for each.
-- include: marker.lua
-- include: deadline.lua
-- include: turns.lua
local ttl, answer, taken = ARGV[3], {'0 ' .. stamp}, 0
for i = 2, #KEYS do
    local key, value, old = KEYS[i], ARGV[i + 3], ARGV[i + #KEYS + 2]
    local kept = turns and turn_of(key)
    if old and old ~= '' and redis.pcall('GET', key) == old then
        redis.call('SET', key, value, 'PX', ttl)
        answer[i] = '='
    elseif not kept and redis.call('SET', key, value, 'NX', 'PX', ttl) then
        answer[i] = '+'
    else
        local held, where = redis.pcall('GET', key), ''
        if not held then
            key, held = kept, 'hf:writer'
        end
        -- include: refusal.lua
        answer[i] = refusal
        taken = taken - 1
    end
    taken = taken + 1
end
if taken == #KEYS - 1 then
    return answer[1] .. '  ' .. table.concat(answer, '', 2)
end
return answer
