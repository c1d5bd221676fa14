-- The host that leads a dry run: says how it stands, and takes what its guests have brought.
-- KEYS: run, guests, records
-- ARGV: the run as JSON; for how long all this lives, in ms; the last record that was taken; how many more at most
-- Answers the node's time in us, the guests (name, beat, ...), and the records ({id, {name, bytes}}, ...).
-- Repeated after a lost reply it answers the same records again: they go when a later call says that they were taken.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
if redis.call('EXISTS', KEYS[3]) == 1 then
    local taken = redis.call('XRANGE', KEYS[3], '-', ARGV[3], 'COUNT', 1000)
    for _, entry in ipairs(taken) do
        redis.call('XDEL', KEYS[3], entry[1])
    end
    redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
local time = redis.call('TIME')
local guests = redis.call('HGETALL', KEYS[2])
local records = redis.call('XRANGE', KEYS[3], '(' .. ARGV[3], '+', 'COUNT', ARGV[4])
return {time[1] * 1000000 + time[2], guests, records}
