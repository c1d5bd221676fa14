-- Each key that is there goes away after this time, unless it is kept again. KEYS: any. ARGV: the time, in ms
-- Answers how many are there.
local kept = 0
for i = 1, #KEYS do
    kept = kept + redis.call('PEXPIRE', KEYS[i], ARGV[1])
end
return kept
