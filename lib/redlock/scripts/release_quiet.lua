-- As release.lua, while nobody is known to listen for releases. KEYS: the key that listeners keep, then the locks' keys.
-- ARGV: their values. Returns what release.lua does, and "w" behind it if somebody listens: then the caller announces.
local held = redis.call('MGET', unpack(KEYS))
local answer, ours = '', {}
for i = 2, #KEYS do
    if held[i] == ARGV[i - 1] then
        ours[#ours + 1] = KEYS[i]
        answer = answer .. '1'
    else
        answer = answer .. (held[i] and '2' or '0')
    end
end
if #ours > 0 then
    redis.call('DEL', unpack(ours))
end
return held[1] and answer .. 'w' or answer
