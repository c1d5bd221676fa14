-- As grant.lua, with tokens, on a node that keeps its fences in the set hf:fences. KEYS: the marker, then one key a
-- lock. ARGV: marker text, deadline in microseconds of this node's clock, ttl in milliseconds, proposed fencing token,
-- then one value a key, then for the first keys, or all, or none of them, the old value that this one may replace ("" =
-- none). Returns what grant.lua does.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
local ttl, proposal = ARGV[3], ARGV[4]
local token = tonumber(proposal)
-- A client whose clock is far ahead must not drive the fences there.
if token > now + 60000000 or (floor and token <= floor) then
    token = math.max(math.min(token, now + 60000000), (floor or 0) + 1)
    proposal = string.format('%.0f', token)
end
local signs, refusals, granted, fences = {}, {}, {}, {'ZADD', 'hf:fences', 'GT', 'CH'}
for i = 2, #KEYS do
    local key, old = KEYS[i], ARGV[i + #KEYS + 2]
    local replaces = old and old ~= '' and redis.pcall('GET', key) == old
    if replaces then
        redis.call('SET', key, ARGV[i + 3], 'PX', ttl)
    end
    if replaces or redis.call('SET', key, ARGV[i + 3], 'NX', 'PX', ttl) then
        signs[i - 1] = replaces and '=' or '+'
        granted[#granted + 1] = i - 1
        fences[#fences + 1] = proposal
        fences[#fences + 1] = member_of(key)
    else
        local held = redis.pcall('GET', key)
        local left = string.format('%.0f', redis.call('PTTL', key)) -- as text of its own, Lua would round it
        if type(held) == 'table' then
            refusals[i - 1] = '!' .. left
        else
            refusals[i - 1] = '-' .. left .. ':' .. string.sub(held or '', 1, 192)
        end
    end
end
local tokens = {}
if #granted > 0 and not (floor and token < 9007199254740990 and redis.pcall(unpack(fences)) == #granted) then
    -- A fence was as high already, or a key is in here twice, or these are no fences: each last token is counted up.
    for n, lock in ipairs(granted) do
        local member = fences[2 * n + 4]
        local last = floor and redis.pcall('ZSCORE', 'hf:fences', member)
        last = type(last) == 'string' and tonumber(last) or not last and floor or math.huge
        if last < 9007199254740990 then -- tokens end below 2^53
            tokens[lock] = string.format('%.0f', math.max(last, floor) + 1)
            redis.call('ZADD', 'hf:fences', tokens[lock], member)
        else
            redis.call('DEL', KEYS[lock + 1])
            refusals[lock] = '#'
        end
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
