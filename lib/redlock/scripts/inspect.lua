-- Reads what decides about trust in this node (trust.h), and which node it is. KEYS: the marker; if it is asked as the
-- only lock node, also its id (marker.h). ARGV: with that the id that it gets if it has none, "" = it stays without.
-- Changes nothing else.
-- Returns {marker ("" = none, "?" = no string), run, run_id, "1" if keys can be evicted, else "0", the eviction policy,
-- "1" if the set of fences or its floor is something else, else "0", "1" if the server is a replica, else "0", its id
-- ("" = none), the highest token that it knows of any lock, its clock in microseconds; the last two as integers}.
-- The run changes whenever the memory of the server may have gone back. It is the run_id, unless the server is a
-- replica, or may have been one since it was started: then its replication id changed when it was made a master again,
-- and the run is a digest of both. It has a second replication id then, and so has a master that loaded one from its
-- dump. A master forgets it, and changes the first, when it had no replica for repl-backlog-ttl and frees its backlog:
-- then the run becomes the run_id, and nothing is lost (trust.h). A master that gets its first replica changes its
-- replication id as well, but has no second one.
-- What it cannot find out is an error, never a guess. A user without the right to the fences gets no grant anyway.
local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
local memory = redis.call('INFO', 'memory')
local function value_of(section, field)
    local value = string.match(section, '\n' .. field .. ':([^\r\n]+)')
    if not value then
        error('INFO does not tell ' .. field)
    end
    return value
end
-- Scripts reach keys of several slots, so no lock could be granted there.
if string.find(server, '_mode:cluster', 1, true) then
    return redis.error_reply('CROSSSLOT this server is part of a Redis Cluster')
end
local marker = redis.pcall('GET', KEYS[1])
if type(marker) == 'table' then
    if not string.find(marker.err, 'WRONGTYPE', 1, true) then
        return marker
    end
    marker = '?'
end
local run_id, is_replica = value_of(server, 'run_id'), value_of(replication, 'role') ~= 'master'
local run, policy = run_id, value_of(memory, 'maxmemory_policy')
if is_replica or value_of(replication, 'second_repl_offset') ~= '-1' then
    run = redis.sha1hex(run_id .. value_of(replication, 'master_replid'))
end
local evicts = value_of(memory, 'maxmemory') ~= '0' and policy ~= 'noeviction'
local floor, fences = redis.pcall('GET', 'hf:fences:floor'), redis.pcall('ZCARD', 'hf:fences')
local is_spoilt = type(floor) == 'string' and not tonumber(floor)
for _, reply in ipairs({floor or '', fences}) do
    is_spoilt = is_spoilt or (type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true))
end
-- include: token_bounds.lua
local highest = 0
local function note(token)
    token = tonumber(token) or 0
    local is_usable = token < TOKEN_END -- what is above is none of ours
    highest = is_usable and math.max(highest, token) or highest
    return is_usable
end
note(floor)
for rank = -1, -8, -1 do
    if note(redis.pcall('ZRANGE', 'hf:fences', rank, rank, 'WITHSCORES')[2]) then
        break
    end
end
local id = KEYS[2] and redis.call('GET', KEYS[2]) or ''
if id == '' and ARGV[1] and ARGV[1] ~= '' and not marker and not is_replica then
    redis.call('SET', KEYS[2], ARGV[1])
    id = ARGV[1]
end
local time = redis.call('TIME')
return {
    marker or '',
    run,
    run_id,
    evicts and '1' or '0',
    policy,
    is_spoilt and '1' or '0',
    is_replica and '1' or '0',
    id,
    highest,
    tonumber(time[1]) * 1000000 + tonumber(time[2]),
}
