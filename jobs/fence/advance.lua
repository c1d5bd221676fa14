-- Advances the fence of one or more resources, all or none: what a new holder does before it reads anything.
--   KEYS: the fence of each resource, a key of its own without a ttl
--   ARGV: the token of the hold, in decimal digits
-- Answers {"ACCEPTED"}, or {"STALE", key, token}: that key has seen this larger token already, and nothing was changed.
-- Repeating it does no harm. docs/fencing.md says how it belongs together with write.lua.
local function number_of(text)
    local number = string.match(text, '^[1-9]%d*$') and #text <= 16 and tonumber(text)
    return number and number < 9007199254740992 and number
end
local offered = number_of(ARGV[1])
if not offered then
    return redis.error_reply('ERR not a token: a whole number from 1 to 2^53 - 1 is expected')
end
for i = 1, #KEYS do
    local text = redis.call('GET', KEYS[i])
    local stored = text and number_of(text)
    if text and not stored then
        return redis.error_reply('ERR the fence ' .. KEYS[i] .. ' holds no token')
    end
    if stored and stored > offered then
        return {'STALE', KEYS[i], text}
    end
end
for i = 1, #KEYS do
    redis.call('SET', KEYS[i], ARGV[1])
end
return {'ACCEPTED'}
