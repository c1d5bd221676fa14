-- Releases the unique keys of deleted tasks, unless other tasks hold them by now.
-- KEYS: the unique keys. ARGV: for each the jid of its task.
-- Returns how many it released. Safe to repeat.
local freed = 0
for i = 1, #KEYS do
    if redis.pcall('GET', KEYS[i]) == ARGV[i] then
        redis.call('DEL', KEYS[i])
        freed = freed + 1
    end
end
return freed
