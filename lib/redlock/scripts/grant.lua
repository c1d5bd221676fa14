-- Takes all of KEYS or none. ARGV: value, ttl in milliseconds.
-- Answers nil when granted, else the value found under the first key that is taken.
for i = 1, #KEYS do
    local held = redis.pcall('GET', KEYS[i])
    if held then
        return held
    end
end
for i = 1, #KEYS do
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return false
