-- Reads what decides about trust in this node (trust.h). KEYS: the marker. ARGV: none. Changes nothing.
-- Returns {marker ("" = none, "?" = no string), run, "1" if keys can be evicted, else "0", the eviction policy, "1" if
-- the set of fences or its floor is something else, else "0", "1" if the server is a replica, else "0", the highest
-- token that it knows of any lock, the node's clock in microseconds; the last two as integers}.
-- The run changes whenever the memory of the server may have gone back. It is the run_id, unless the server is a
-- replica, or was one since it was started: then its replication id changed when it was made a master again, and the
-- run is a digest of both. A master that gets its first replica, or loses the last one, changes its replication id as
-- well, but then it has no second one, and its memory stays.
-- What it cannot find out is an error, never a guess. A user without the right to the fences gets no grant anyway.
local function info(section, field)
    local text = '\r\n' .. redis.call('INFO', section)
    local value = string.match(text, '\r\n' .. field .. ':([^\r\n]+)')
    if not value then
        error('INFO ' .. section .. ' does not tell ' .. field)
    end
    return value
end
-- Scripts reach keys of several slots, so no lock could be granted there.
if string.find(redis.call('INFO', 'server'), '_mode:cluster', 1, true) then
    return redis.error_reply('CROSSSLOT this server is part of a Redis Cluster')
end
local marker = redis.pcall('GET', KEYS[1])
if type(marker) == 'table' then
    if not string.find(marker.err, 'WRONGTYPE', 1, true) then
        return marker
    end
    marker = '?'
end
local run, is_replica = info('server', 'run_id'), info('replication', 'role') ~= 'master'
if is_replica or info('replication', 'second_repl_offset') ~= '-1' then
    run = redis.sha1hex(run .. info('replication', 'master_replid'))
end
local policy = info('memory', 'maxmemory_policy')
local evicts = info('memory', 'maxmemory') ~= '0' and policy ~= 'noeviction'
local floor, fences = redis.pcall('GET', 'hf:fences:floor'), redis.pcall('ZCARD', 'hf:fences')
local is_spoilt = type(floor) == 'string' and not tonumber(floor)
for _, reply in ipairs({floor or '', fences}) do
    is_spoilt = is_spoilt or (type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true))
end
local highest = 0
local function note(token)
    token = tonumber(token) or 0
    local is_usable = token < 9007199254740990 -- as in grant.lua: what is above is none of ours
    highest = is_usable and math.max(highest, token) or highest
    return is_usable
end
note(floor)
for rank = -1, -8, -1 do
    if note(redis.pcall('ZRANGE', 'hf:fences', rank, rank, 'WITHSCORES')[2]) then
        break
    end
end
local time = redis.call('TIME')
return {
    marker or '',
    run,
    evicts and '1' or '0',
    policy,
    is_spoilt and '1' or '0',
    is_replica and '1' or '0',
    highest,
    tonumber(time[1]) * 1000000 + tonumber(time[2]),
}
