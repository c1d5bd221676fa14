-- Takes one lock of several keys, all or none. KEYS: the marker, then the keys. ARGV: as in grant.lua, with one value,
-- and at most one that it may replace. Returns, behind "0" and the time, "+", or "=" if it replaced the old value under
-- all of them, and the token. Or it does nothing and returns what grant.lua says of the first key that is taken, with
-- "@" and its number from 0 behind the ttl, or whose fence holds no token. All keys get one token, above all of their
-- last ones.
-- include: marker.lua
-- include: deadline.lua
local old, replaced = ARGV[7], 0
for i = 2, #KEYS do
    local key = KEYS[i]
    local held = redis.pcall('GET', key)
    if held and held == old then
        replaced = replaced + 1
    elseif held then
        local where = '@' .. (i - 2)
        -- include: refusal.lua
        return '0 ' .. stamp .. ' ' .. refusal
    end
end
local token = ''
if ARGV[4] ~= '' then
    local highest = math.min(tonumber(ARGV[4]), now + 60000000)
    for i = 2, #KEYS do
        local found = redis.pcall('GET', 'hf:fence:' .. KEYS[i])
        local last = found and (tonumber(found) or math.huge) or 0
        if not (last < 9007199254740990) then
            return '0 ' .. stamp .. ' #'
        end
        highest = math.max(highest, last + 1)
    end
    token = string.format('%.0f', highest)
end
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[6], 'PX', ARGV[3])
    if token ~= '' then
        redis.call('SET', 'hf:fence:' .. KEYS[i], token, 'PX', ARGV[5])
    end
end
return '0 ' .. stamp .. (replaced == #KEYS - 1 and ' =' or ' +') .. token
