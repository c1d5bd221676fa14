-- As grant_unfenced.lua, with tokens: the fences of a node are in the set hf:fences. KEYS: the marker, then one key a
-- lock. ARGV: marker text, deadline in microseconds of this node's clock, ttl in milliseconds, proposed fencing token,
-- then one value a key, then for the first keys, or all, or none of them, the old value that this one may replace ("" =
-- none). Returns what grant_unfenced.lua does.
-- include: fences.lua
-- include: deadline.lua
-- include: turns.lua
-- include: fence_member.lua
-- include: token_bounds.lua
local keys, values, call = KEYS, ARGV, redis.call -- names of their own are found at once
local ttl, proposal = values[3], values[4]
local token = tonumber(proposal)
if token > now + AHEAD_MAX or (floor and token <= floor) then
    token = math.max(math.min(token, now + AHEAD_MAX), (floor or 0) + 1)
    proposal = string.format('%.0f', token)
end
local last, grants, swapped, refusals, fences = #keys, 0, {}, {}, {'ZADD', 'hf:fences', 'GT', 'CH'}
for i = 2, last do
    local key, value, old = keys[i], values[i + 3], values[i + last + 2]
    local kept = turns and turn_of(key)
    if old and old ~= '' and redis.pcall('GET', key) == old then
        swapped[i] = call('SET', key, value, 'PX', ttl)
    end
    if swapped[i] or not kept and call('SET', key, value, 'NX', 'PX', ttl) then
        grants = grants + 1
        fences[2 * grants + 3] = proposal
        fences[2 * grants + 4] = member_of(key)
    else
        local held, where = redis.pcall('GET', key), ''
        if not held then
            key, held = kept, 'hf:writer'
        end
        -- include: refusal.lua
        refusals[i] = refusal
    end
end
local tokens, position = {}, 4
if grants > 0 and not (floor and token < TOKEN_END and redis.pcall(unpack(fences)) == grants) then
    -- A fence was as high already, or a key is in here twice, or these are no fences: each last token is counted up.
    for i = 2, last do
        if not refusals[i] then
            position = position + 2
            local member = fences[position]
            local found = floor and redis.pcall('ZSCORE', 'hf:fences', member)
            local highest = type(found) == 'string' and tonumber(found) or not found and floor or math.huge
            if highest < TOKEN_END then
                tokens[i] = string.format('%.0f', math.max(highest, floor) + 1)
                call('ZADD', 'hf:fences', tokens[i], member)
            else
                call('DEL', keys[i])
                refusals[i] = '#'
            end
        end
    end
end
if not next(tokens) and not next(refusals) and not next(swapped) then
    return '0 ' .. stamp .. ' ' .. proposal .. ' ' .. string.rep('+', grants)
end
local answer, is_one_text = {}, not next(tokens) and not next(refusals)
for i = 2, last do
    answer[i] = refusals[i] or (swapped[i] and '=' or '+') .. (is_one_text and '' or tokens[i] or proposal)
end
if is_one_text then
    return '0 ' .. stamp .. ' ' .. proposal .. ' ' .. table.concat(answer, '', 2, last)
end
answer[1] = '0 ' .. stamp
return answer
