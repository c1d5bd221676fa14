-- Ends what a reader has of each key. KEYS[i] belongs to ARGV[i], its value, and to ARGV[#KEYS + i]: the channel of the
-- key, or the milliseconds for which the reader stays. Returns one character a key, as release.lua does.
-- The last reader of a key announces that it is free, if anybody listens. What a waiting writer asked for is then cut
-- to one turn (REDLOCK_TURN_NS): only a writer gets in until it is over.
local time = redis.call('TIME')
-- include: readers.lua
local answer = {}
for i, key in ipairs(KEYS) do
    local held, channel = redis.pcall('GET', key), ARGV[#KEYS + i]
    local was_reader, stays = is_reader(key, ARGV[i]), tonumber(channel)
    answer[i] = was_reader and '1' or held and held ~= 'hf:shared' and '2' or '0'
    if was_reader and stays then
        add_reader(key, ARGV[i], stays)
    elseif was_reader and redis.call('ZREM', 'hf:readers:' .. key, ARGV[i]) == 1 and follow_readers(key) then
        if redis.call('PTTL', 'hf:writer:' .. key) > 200 then
            redis.call('PEXPIRE', 'hf:writer:' .. key, 200)
        end
        local count = tonumber(redis.pcall('PUBSUB', 'NUMSUB', channel)[2]) or 0
        if count > 0 then
            redis.pcall('PUBLISH', channel, 'hf:free:' .. count .. ':' .. key)
        end
    end
end
return table.concat(answer)
