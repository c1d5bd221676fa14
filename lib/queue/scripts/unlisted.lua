-- One step of a walk through all keys, which lists the processes that have claims and are in no list: the node lost the
-- list, or got back a part of its data. They are listed with a fresh lease, so one that lives has the time to renew it,
-- and a dead one is recovered as any other.
--
-- KEYS: processes, the mark of the last walk. ARGV: identity, the cursor ('' = a walk may begin), seconds from one walk
--       to the next, lease in seconds, prefixes of the keys of processes and of bells, how many keys to look at.
-- Returns the next cursor ('0' = the walk is over, or did not begin), then the identities that were listed.
--
-- The fleet walks once in that time. During a walk the mark names who walks, who may begin anew after a failure, and
-- ends with its lease. A process that is listed alone walks in any case: it may be the first after a loss. It leaves no
-- mark.
local mark = redis.call('GET', KEYS[2])
local is_alone = redis.call('ZCARD', KEYS[1]) <= 1
if ARGV[2] == '' and not is_alone and mark and mark ~= ARGV[1] then
    return {'0'}
end
local time = redis.call('TIME')
local lease = string.format('%.6f', tonumber(time[1]) + tonumber(time[2]) / 1000000 + tonumber(ARGV[4]))
local listed, page = {}, redis.call('SCAN', ARGV[2] == '' and '0' or ARGV[2], 'MATCH', 'hf:*', 'COUNT', ARGV[7])

local function rest_of(key, prefix)
    return string.sub(key, 1, #prefix) == prefix and string.sub(key, #prefix + 1) or nil
end
local function list(identity)
    if identity and not redis.call('ZSCORE', KEYS[1], identity) then
        redis.call('ZADD', KEYS[1], lease, identity)
        listed[#listed + 1] = identity
    end
end
for _, key in ipairs(page[2]) do
    local identity, bell = rest_of(key, ARGV[5]), rest_of(key, ARGV[6])
    if identity and type(redis.pcall('HLEN', key)) == 'number' then
        list(identity)
    elseif bell and type(redis.pcall('LLEN', key)) == 'number' then
        local owner, queue = string.match(bell, '^([^:]*:[^:]*:[^:]*):(.+)$')
        local process = owner and ARGV[5] .. owner
        local names = process and redis.pcall('HGET', process, 'queues')
        if process and type(names) ~= 'table' and not redis.call('ZSCORE', KEYS[1], owner) then
            -- Recovery looks into the bells of the queues that the process served.
            redis.call('HSET', process, 'queues', (names and names .. '\n' or '') .. queue)
            list(owner)
        end
    end
end
if not is_alone then
    local is_over = page[1] == '0'
    redis.call('SET', KEYS[2], is_over and 'over' or ARGV[1], 'EX', is_over and ARGV[3] or math.ceil(ARGV[4]))
end
table.sort(listed)
return {page[1], unpack(listed)}
