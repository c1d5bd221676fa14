-- As release.lua, while nobody is known to listen for releases. KEYS[i] belongs to ARGV[i]. Returns what release.lua
-- does, and "w" behind it if somebody listens, which the key hf:listeners shows: then the caller announces.
local held = redis.pcall('MGET', 'hf:listeners', unpack(KEYS))
if held.err then -- a user without the right to that key
    held = {'?'}
    for i, key in ipairs(KEYS) do
        held[i + 1] = redis.pcall('GET', key)
    end
end
local answer, ours = '', {}
for i, key in ipairs(KEYS) do
    if held[i + 1] == ARGV[i] then
        ours[#ours + 1] = key
        answer = answer .. '1'
    else
        answer = answer .. (held[i + 1] and '2' or '0')
    end
end
if #ours > 0 then
    redis.call('DEL', unpack(ours))
end
return held[1] and answer .. 'w' or answer
