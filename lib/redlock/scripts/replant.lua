-- Gives the keys of a lock back to a node that forgot them: all or none. KEYS: the marker, then the keys. ARGV: marker
-- text ("" = do not compare, "-" = none), value, token, ttl and ttl of fences in milliseconds, and the deadline in microseconds of
-- this node's clock: until then the node would have kept the keys.
-- Answers {1, now} when the marker is another one, {2, now} when it is too late; else {0, now, "1"}, or {0, now, "0"}
-- when a key is somebody else's, or a fence says that somebody else was there meanwhile.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_text = string.format('%.0f', now)
if ARGV[1] ~= '' and (redis.pcall('GET', KEYS[1]) or '-') ~= ARGV[1] then
    return {1, now_text}
end
if now > tonumber(ARGV[6]) then
    return {2, now_text}
end
for i = 2, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    local found = redis.pcall('GET', 'hf:fence:' .. KEYS[i])
    local last = found and (tonumber(found) or math.huge) or 0
    if (held and held ~= ARGV[2]) or not (last <= tonumber(ARGV[3])) then
        return {0, now_text, '0'}
    end
end
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[4])
    redis.call('SET', 'hf:fence:' .. KEYS[i], ARGV[3], 'PX', ARGV[5])
end
return {0, now_text, '1'}
