-- One heartbeat of a worker process: that it lives, what it runs, and what it counted since the one before; or its
-- last.
--
-- KEYS: `processes`; of the process: its hash, what it runs under two names, the number of its last beat, its signals,
--       its calls; the totals and the day's totals of processed and failed; runs by class in the minute, in the names
--       of Sidekiq 7 and 8, and in the ten minutes; what else is counted on this day; then for each class its two
--       histograms.
-- ARGV: identity, number of the beat, 'stay' or 'leave', the prefix of every key; then info, concurrency, busy, beat,
--       rtt_us, quiet, rss; processed, failed; number of classes; how many fields a day may have, and the name that
--       others have in what else is counted; the classes that it serves, one a line; number of running tasks, then for
--       each its tid and its text; then for each class its name, milliseconds, runs, failed runs, and "bucket number
--       bucket number ..."; then of what else is counted for each its name, and "end number end number ...", where name
--       and end together are a field.
-- Returns 'late' (a later one came before: nothing is done), 'new' (the node did not know the process) or 'known'; and
-- how many commands failed because a foreign value is under their key.
--
-- Writes the number before the counts, so a repeated heartbeat never counts twice, whatever happens in between.
-- Removes before it adds, so that it works on a node that is out of memory.
local SHOWN_S, NUMBER_S, NUMBER_AFTER_S = 60, 86400, 600
local DAY_S, MINUTE_S, TEN_MINUTES_S, OURS_S = 157680000, 28800, 259200, 1209600
local identity, number, leaves = ARGV[1], tonumber(ARGV[2]), ARGV[3] == 'leave'
local last = tonumber(redis.call('GET', KEYS[5]) or '0')
if number < last then
    return {'late', 0}
end

local refused = 0
local function try(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
        refused = refused + 1
        return nil
    end
    return reply
end

redis.call('UNLINK', KEYS[3], KEYS[4])
local known = redis.call('EXISTS', KEYS[2])
redis.call('SET', KEYS[5], ARGV[2], 'EX', leaves and NUMBER_AFTER_S or NUMBER_S)
if leaves then
    try('SREM', KEYS[1], identity)
    redis.call('UNLINK', KEYS[2], KEYS[6], KEYS[7])
else
    try('SADD', KEYS[1], identity)
    try('HSET', KEYS[2], 'info', ARGV[5], 'concurrency', ARGV[6], 'busy', ARGV[7], 'beat', ARGV[8], 'rtt_us', ARGV[9],
        'quiet', ARGV[10], 'rss', ARGV[11], 'hf_classes', ARGV[17])
    try('EXPIRE', KEYS[2], SHOWN_S)
    -- Unlists a process whose hash the node has lost; a living process lists itself again.
    local any = try('SRANDMEMBER', KEYS[1])
    if any and redis.pcall('HEXISTS', ARGV[4] .. any, 'info') == 0 then
        try('SREM', KEYS[1], any)
    end
end

local running, classes = tonumber(ARGV[18]), tonumber(ARGV[14])
local counted = 19 + 2 * running
for i = 19, counted - 1, 2 do
    for work = 3, 4 do
        redis.call('HSET', KEYS[work], ARGV[i], ARGV[i + 1])
    end
end
for work = 3, 4 do
    redis.call('EXPIRE', KEYS[work], SHOWN_S)
end
if number == last then
    return {known == 1 and 'known' or 'new', refused}
end

for i = 0, 1 do
    local count = ARGV[12 + i]
    if count ~= '0' then
        try('INCRBY', KEYS[8 + i], count)
        try('INCRBY', KEYS[10 + i], count)
        try('EXPIRE', KEYS[10 + i], DAY_S)
    end
end
local histogram, named = 16, counted + 5 * classes
for i = counted, named - 1, 5 do
    for period = 12, 14 do
        -- As Sidekiq does: records the time if a run succeeded, even if it is 0.
        if ARGV[i + 2] ~= ARGV[i + 3] then
            try('HINCRBY', KEYS[period], ARGV[i] .. '|ms', ARGV[i + 1])
        end
        try('HINCRBY', KEYS[period], ARGV[i] .. '|p', ARGV[i + 2])
        if ARGV[i + 3] ~= '0' then
            try('HINCRBY', KEYS[period], ARGV[i] .. '|f', ARGV[i + 3])
        end
    end
    for h = histogram, histogram + 1 do
        for bucket, count in string.gmatch(ARGV[i + 4], '(%d+) (%d+)') do
            try('BITFIELD', KEYS[h], 'OVERFLOW', 'SAT', 'INCRBY', 'u16', '#' .. bucket, count)
        end
        try('EXPIRE', KEYS[h], MINUTE_S)
    end
    histogram = histogram + 2
end
for period = 12, 14 do
    try('EXPIRE', KEYS[period], period == 14 and TEN_MINUTES_S or MINUTE_S)
end

-- Names come from tasks. Beyond the limit all new names share one.
if named < #ARGV then
    local key = KEYS[15]
    local fields = try('HLEN', key) or 0
    for i = named, #ARGV, 2 do
        for tail, count in string.gmatch(ARGV[i + 1], '(%S+) (%d+)') do
            local field = ARGV[i] .. tail
            if fields >= tonumber(ARGV[15]) and redis.pcall('HEXISTS', key, field) == 0 then
                field = ARGV[16] .. tail
            end
            try('HINCRBY', key, field, count)
        end
    end
    try('EXPIRE', key, OURS_S)
end
return {known == 1 and 'known' or 'new', refused}
