-- The end of a task that has left its slot: removes its unique key and its cancel mark, and notes the end in the
-- slot. KEYS and ARGV begin as in finish.lua.
if KEYS[2] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[4] then
    redis.call('DEL', KEYS[2])
end
if ARGV[5] == '1' then
    redis.pcall('ZREM', KEYS[3], ARGV[4])
    if redis.pcall('HEXISTS', KEYS[4], 'cancelled') == 1 then
        redis.call('UNLINK', KEYS[4])
    end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
