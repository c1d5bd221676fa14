-- Notes the slot whose handler brought its process's end about, so that the tasks of its other slots are not blamed.
-- KEYS: processes, the process. ARGV: identity, slot.
-- Answers 1; or 0, when the process was recovered by then, or is not known: nothing is left behind.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HEXISTS', KEYS[2], 'gone') == 1 then
    return 0
end
redis.call('HSET', KEYS[2], 'culprit', ARGV[2])
return 1
