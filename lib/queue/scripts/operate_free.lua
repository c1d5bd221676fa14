-- Gives free what deleted tasks held as unique, unless others hold it by now.
-- KEYS: the keys of uniqueness. ARGV: for each the jid of its task.
-- Answers how many were given free. Harmless to repeat.
local freed = 0
for i = 1, #KEYS do
    if redis.pcall('GET', KEYS[i]) == ARGV[i] then
        redis.call('DEL', KEYS[i])
        freed = freed + 1
    end
end
return freed
