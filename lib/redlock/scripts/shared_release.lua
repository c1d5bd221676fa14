-- Ends what a reader has of each key, or what a writer that no longer waits asked for there (intent.lua). KEYS[i]
-- belongs to ARGV[i], its value, and to ARGV[#KEYS + i]: the channel of the key, or the milliseconds for which the
-- reader stays. Returns one character a key, as release.lua does.
-- The last reader of a key, and the writer, announce that it is free, if anybody listens. What a waiting writer asked
-- for is cut to one turn (REDLOCK_TURN_NS) by the last reader: only a writer gets in until it is over. That of a waiter
-- of several keys is not: others of them may be held for longer.
local time = redis.call('TIME')
-- include: readers.lua
-- include: turn.lua
local answer = {}
for i, key in ipairs(KEYS) do
    local value, channel, writer = ARGV[i], ARGV[#KEYS + i], 'hf:writer:' .. key
    local held, stays, is_free = redis.pcall('GET', key), tonumber(channel), false
    local was_reader = is_reader(key, value)
    answer[i] = was_reader and '1' or held and held ~= 'hf:shared' and '2' or '0'
    if was_reader and stays then
        add_reader(key, value, stays)
    elseif was_reader then
        is_free = redis.call('ZREM', 'hf:readers:' .. key, value) == 1 and follow_readers(key)
        local turn = is_free and redis.pcall('GET', writer)
        local keeps_all = type(turn) == 'string' and sign_of(turn)
        if is_free and not keeps_all and redis.call('PTTL', writer) > TURN_MS then
            redis.call('PEXPIRE', writer, TURN_MS)
        end
    elseif redis.pcall('GET', writer) == value then
        redis.call('DEL', writer)
        answer[i], is_free = '1', true
    end
    if is_free then
        local count = tonumber(redis.pcall('PUBSUB', 'NUMSUB', channel)[2]) or 0
        if count > 0 then
            redis.pcall('PUBLISH', channel, 'hf:free:' .. count .. ':' .. key)
        end
    end
end
return table.concat(answer)
