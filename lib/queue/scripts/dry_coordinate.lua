-- The coordinator of a dry run writes its state and takes what the remote hosts have sent.
-- KEYS: run, hosts, records
-- ARGV: the run as JSON ('' = unchanged); its state in a word; how long all this lives, in ms; the last record that
--       was taken; how many more at most
-- Returns the node's time in us, the hosts (name, beat, ...), the records ({id, {name, bytes}}, ...), and whether the
-- run exists: if not, the coordinator has to write it.
-- A repetition after a lost reply returns the same records: they go only once a later call names them as taken.
local is_there = 1
if ARGV[1] ~= '' then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
else
    is_there = redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
redis.call('HSET', KEYS[2], 'state', ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
if redis.call('EXISTS', KEYS[3]) == 1 then
    local taken = redis.call('XRANGE', KEYS[3], '-', ARGV[4], 'COUNT', 1000)
    for _, entry in ipairs(taken) do
        redis.call('XDEL', KEYS[3], entry[1])
    end
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
local time = redis.call('TIME')
local hosts = redis.call('HGETALL', KEYS[2])
local records = redis.call('XRANGE', KEYS[3], '(' .. ARGV[4], '+', 'COUNT', ARGV[5])
return {time[1] * 1000000 + time[2], hosts, records, is_there}
