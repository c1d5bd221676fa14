-- Writes values under a fence and records that the task was done, all or nothing: what a holder does at the end.
--   KEYS: the key of the task's id, then the fence of each resource, then the keys to write
--   ARGV: the token of the hold, the number of fences, for how long the id is kept (milliseconds, 0 = for ever), then
--         one value for each key to write
-- Answers {"ACCEPTED"}; {"REPEAT", token}: the task was done before, under that token; or {"STALE", key, token}: that
-- fence has seen this larger token. Nothing was changed then. After a lost reply repeat it: REPEAT says that it had
-- arrived. The values are texts (SET); docs/fencing.md says how to make a script of your own that writes other types.
local function number_of(text)
    local number = string.match(text, '^[1-9]%d*$') and #text <= 16 and tonumber(text)
    return number and number < 9007199254740992 and number
end
local offered, fences, kept = number_of(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not offered then
    return redis.error_reply('ERR not a token: a whole number from 1 to 2^53 - 1 is expected')
end
if not fences or fences < 1 or fences % 1 ~= 0 or not kept or kept < 0 or kept % 1 ~= 0
    or #KEYS - fences < 1 or #KEYS - 1 - fences ~= #ARGV - 3 then
    return redis.error_reply('ERR keys, fences and values do not go together: see write.lua')
end
local done = redis.call('GET', KEYS[1])
if done then
    return {'REPEAT', done}
end
for i = 2, fences + 1 do
    local text = redis.call('GET', KEYS[i])
    local stored = text and number_of(text)
    if text and not stored then
        return redis.error_reply('ERR the fence ' .. KEYS[i] .. ' holds no token')
    end
    if stored and stored > offered then
        return {'STALE', KEYS[i], text}
    end
end
-- The first SET may be refused, without memory or for its ttl, and then nothing was written; no other one fails.
if kept > 0 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', kept))
else
    redis.call('SET', KEYS[1], ARGV[1])
end
for i = 2, fences + 1 do
    redis.call('SET', KEYS[i], ARGV[1])
end
for i = fences + 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[i - fences + 2])
end
return {'ACCEPTED'}
