-- Lists the dry runs whose lease has ended, the oldest first. KEYS: the index of runs. ARGV: how many at most.
-- Changes nothing.
local time = redis.call('TIME')
local limit = string.format('%.6f', time[1] + time[2] / 1000000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', limit, 'LIMIT', 0, ARGV[1])
