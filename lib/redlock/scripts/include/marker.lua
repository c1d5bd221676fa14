-- The beginning of every call that needs the right marker. Every answer begins with a code and the node's time in
-- seconds and microseconds: "1 SECONDS MICROSECONDS" if the marker is another one, and nothing is done.
-- `turns`: whether somebody may keep a turn here (turns.lua).
local found = redis.call('MGET', KEYS[1], 'hf:turns')
local time = redis.call('TIME')
local stamp = time[1] .. ' ' .. time[2]
if (found[1] or '-') ~= ARGV[1] then
    return '1 ' .. stamp
end
local turns = found[2]
