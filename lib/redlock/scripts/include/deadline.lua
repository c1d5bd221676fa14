-- A grant that comes too late would be an orphan: returns "2 SECONDS MICROSECONDS" and does nothing.
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[2]) then
    return '2 ' .. stamp
end
