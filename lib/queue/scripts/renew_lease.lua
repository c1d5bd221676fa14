-- Renews the lease of a process, and returns what the node knows of it and of others.
--
-- KEYS: processes, the process, paused. ARGV: identity, lease in seconds, how many dead processes to return at most,
-- the prefix of the key of a process, then the names of its queues.
-- Returns the state of the lease ('held'; 'late' = it had ended but nobody recovered it; 'lost' = it is not listed, or
-- was recovered), the run id of the server ('' = unknown), '1' for each queue that is paused, '0' for the others,
-- identities whose lease has ended (only if this one was held), its own claims: slot, id and name of the queue,
-- slot, ..., how many living processes, itself included, serve the one of its queues that the fewest serve
-- (looks at no more than 64; 0 = it is not listed), and the node's time in microseconds.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local ended = redis.call('ZSCORE', KEYS[1], ARGV[1])
local state = 'lost'
if ended and redis.call('HEXISTS', KEYS[2], 'queues') == 1 then
    state = tonumber(ended) >= now and 'held' or 'late'
    redis.call('ZREM', KEYS[1], ARGV[1]) -- first, so that the next command works on a node that is out of memory
    redis.call('ZADD', KEYS[1], string.format('%.6f', now + tonumber(ARGV[2])), ARGV[1])
end
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
local paused = redis.pcall('SMISMEMBER', KEYS[3], unpack(ARGV, 5))
local dead = {}
if state == 'held' then
    dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.6f', now), 'LIMIT', 0, tonumber(ARGV[3]))
end
local claims = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if tonumber(field) and redis.call('HSTRLEN', KEYS[2], field) > 16 then
        claims[#claims + 1] = field
        local claim = redis.call('HGET', KEYS[2], field)
        claims[#claims + 1] = string.sub(claim, 1, (string.find(claim, '\n', 17, true) or 17) - 1)
    end
end
-- Usually all processes serve the same queues.
local LOOKED_AT = 64
local own, same, serving = redis.call('HGET', KEYS[2], 'queues'), 1, {}
local living = own and redis.call('ZRANGEBYSCORE', KEYS[1], string.format('%.6f', now), '+inf', 'LIMIT', 0, LOOKED_AT)
for _, identity in ipairs(living or {}) do
    local queues = identity ~= ARGV[1] and redis.pcall('HGET', ARGV[4] .. identity, 'queues')
    if queues == own then
        same = same + 1
    elseif type(queues) == 'string' then
        for name in string.gmatch(queues, '[^\n]+') do
            serving[name] = (serving[name] or 0) + 1
        end
    end
end
local fewest = own and LOOKED_AT + 1 or 0
for i = 5, own and #ARGV or 0 do
    fewest = math.min(fewest, same + (serving[ARGV[i]] or 0))
end
return {state, run, paused.err and '' or table.concat(paused), dead, claims, fewest,
    tonumber(time[1]) * 1000000 + tonumber(time[2])}
