-- The readers of a key: members of the set hf:readers: and the key, a value each, scored by its end in milliseconds of
-- this node's clock. While there are any, the key holds "hf:shared" and expires with the last of them, as the set does.
local moment = time[1] * 1000 + math.floor(time[2] / 1000)
local function is_reader(key, value)
    local ends = redis.pcall('GET', key) == 'hf:shared' and redis.pcall('ZSCORE', 'hf:readers:' .. key, value)
    return type(ends) == 'string' and tonumber(ends) >= moment
end
-- Call it after each change. True if no reader is left: then the key is gone.
local function follow_readers(key)
    local readers = 'hf:readers:' .. key
    redis.call('ZREMRANGEBYSCORE', readers, '-inf', '(' .. moment)
    local last = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
    if not last then
        redis.call('DEL', key, readers)
        return true
    end
    redis.call('SET', key, 'hf:shared', 'PX', math.max(last - moment, 1))
    redis.call('PEXPIRE', readers, math.max(last - moment, 1))
end
-- The key is free, or has readers. What a key that is gone has left must not live on. It removes first: a server that
-- is out of memory then lets it go on.
local function add_reader(key, value, ttl)
    local readers = 'hf:readers:' .. key
    if redis.call('GET', key) then
        redis.call('ZREM', readers, value)
    else
        redis.call('DEL', readers)
    end
    redis.call('ZADD', readers, moment + ttl, value)
    follow_readers(key)
end
