-- A host of a dry run comes, stays, is ready to begin, or leaves. KEYS: the index of runs, the record of this one.
-- ARGV: the run; the host; 'come', 'stay', 'ready' or 'leave'; the lease of the run in seconds; how long index and
--       record live, in ms; of how many hosts the run is; who the host is, for people; the prefix of the run's locks
-- Returns the node's time and when the load begins at all hosts, both in us (0 = not all are ready), and how many
-- hosts there are; or nothing when this host has no part in the run: it was taken for dead, or it has other hosts. A
-- repetition gets the same answer.
--
-- The record has for each host its last step and until when it is there without another one, in us.
local run, host, step, wanted = ARGV[1], 'host:' .. ARGV[2], ARGV[3], tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local record, values = {}, redis.call('HGETALL', KEYS[2])
local steps, there, ready = {}, 0, 0
for i = 1, #values, 2 do
    local field, value = values[i], values[i + 1]
    if string.sub(field, 1, 5) ~= 'host:' then
        record[field] = value
    elseif tonumber(string.match(value, '%d+$') or '0') >= now then
        steps[field] = string.match(value, '^%a+')
        there = there + 1
    else
        redis.call('HDEL', KEYS[2], field)
    end
end
local is_new = step == 'come' and not steps[host]
local is_other = record.hosts and tonumber(record.hosts) ~= wanted
local is_full = there >= wanted or record.begins or record.is_over or is_other
if record.taker or (is_new and is_full) or not (is_new or steps[host] or step == 'leave') then
    return {}
end
if step == 'leave' then
    there = there - redis.call('HDEL', KEYS[2], host)
    if there == 0 and next(record) then
        redis.call('HSET', KEYS[2], 'is_over', 1)
    end
    return {now, 0, there}
end
if is_new then
    there = there + 1
    redis.call('HSET', KEYS[2], 'hosts', wanted, 'since', string.format('%.6f', now / 1000000), 'who', ARGV[7],
        'lock_prefix', ARGV[8])
end
if is_new or step == 'ready' then
    steps[host] = step
end
redis.call('HSET', KEYS[2], host, string.format('%s %.0f', steps[host], now + ARGV[4] * 1000000))
for _, reached in pairs(steps) do
    ready = ready + (reached == 'ready' and 1 or 0)
end
-- Those that asked before learn of it in time.
if ready == wanted and not record.begins then
    record.begins = string.format('%.0f', now + (wanted > 1 and 1000000 or 0))
    redis.call('HSET', KEYS[2], 'begins', record.begins)
end
redis.call('ZADD', KEYS[1], string.format('%.6f', now / 1000000 + ARGV[4]), run)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return {now, tonumber(record.begins or '0'), there}
