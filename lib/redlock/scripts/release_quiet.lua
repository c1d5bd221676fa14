-- As release.lua, while no process is known to listen for releases. KEYS[i] belongs to ARGV[i]. Returns the same, and
-- "w" behind it if the key hf:listeners shows that a process listens: then the caller announces.
local keys, values = KEYS, ARGV -- names of their own are found at once
local held = redis.call('MGET', 'hf:listeners', unpack(keys))
local ours = 0
for i = 1, #keys do
    if held[i + 1] == values[i] then
        ours = ours + 1
    end
end
local listeners = held[1] and 'w' or ''
if ours == #keys then -- as nearly always
    redis.call('DEL', unpack(keys))
    return string.rep('1', ours) .. listeners
end
local answer = ''
for i = 1, #keys do
    local is_ours = held[i + 1] == values[i]
    if is_ours then
        redis.call('DEL', keys[i])
    end
    answer = answer .. (is_ours and '1' or held[i + 1] and '2' or '0')
end
return answer .. listeners
