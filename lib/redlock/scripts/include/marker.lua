-- How every call begins that only the right marker may execute. The answer of all of them begins with a code and the
-- node's time in seconds and microseconds: "1 SECONDS MICROSECONDS" when the marker is another one, with nothing done.
local time = redis.call('TIME')
local stamp = time[1] .. ' ' .. time[2]
if ARGV[1] ~= '' and (redis.pcall('GET', KEYS[1]) or '-') ~= ARGV[1] then
    return '1 ' .. stamp
end
