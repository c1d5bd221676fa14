-- Takes each lock that is free, or has the value that it may replace. KEYS: the marker, then one key a lock. ARGV:
-- marker text ("" = not compared, "-" = none), deadline in microseconds of this node's clock, ttl in milliseconds,
-- proposed fencing token ("" = no fences), ttl of fences in milliseconds, then one value a key, then for the first
-- keys, or all, or none of them, the old value that this one may replace ("" = none).
-- Returns for each lock "+", or "=" if it replaced the old value, and its token; or "-" remaining ttl ":" value; or "!"
-- remaining ttl for a key that is no string; or "#" if its fence holds no usable token: then the lock is not taken, and
-- the old value is gone. If all were taken with the same token, as nearly always, the answer is one text: "0", the
-- time, the token, and the signs alone. Otherwise it is a list: "0" and the time, and one element for each.
-- include: marker.lua
-- include: deadline.lua
local ttl, proposal, fence_ttl = ARGV[3], ARGV[4], ARGV[5]
local floor = tonumber(proposal)
-- A client whose clock is far ahead must not drive the counters there.
if floor and floor > now + 60000000 then
    floor = now + 60000000
    proposal = string.format('%.0f', floor)
end
local signs, tokens, refusals = {}, {}, {}
for i = 2, #KEYS do
    local key, old = KEYS[i], ARGV[i + #KEYS + 3]
    local replaces = old and old ~= '' and redis.pcall('GET', key) == old
    if replaces then
        redis.call('SET', key, ARGV[i + 4], 'PX', ttl)
    end
    if replaces or redis.call('SET', key, ARGV[i + 4], 'NX', 'PX', ttl) then
        signs[i - 1] = replaces and '=' or '+'
        if floor then
            local fence = 'hf:fence:' .. key
            -- The proposal is nearly always higher than the last token; if not, the last token is counted up.
            local found = redis.pcall('SET', fence, proposal, 'PX', fence_ttl, 'GET')
            local last = found and (tonumber(found) or math.huge) or 0
            if not (last < 9007199254740990) then -- tokens end below 2^53
                if type(found) == 'string' then
                    redis.call('SET', fence, found, 'PX', fence_ttl)
                end
                redis.call('DEL', key)
                refusals[i - 1] = '#'
            elseif last >= floor then
                tokens[i - 1] = string.format('%.0f', last + 1)
                redis.call('SET', fence, tokens[i - 1], 'PX', fence_ttl)
            end
        end
    else
        local held, where = redis.pcall('GET', key), ''
        -- include: refusal.lua
        refusals[i - 1] = refusal
    end
end
if not next(tokens) and not next(refusals) then
    return '0 ' .. stamp .. ' ' .. proposal .. ' ' .. table.concat(signs)
end
local answer = {'0 ' .. stamp}
for i = 1, #KEYS - 1 do
    answer[i + 1] = refusals[i] or signs[i] .. (tokens[i] or proposal)
end
return answer
