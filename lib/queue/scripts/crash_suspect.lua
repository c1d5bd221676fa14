-- Records the slot whose handler ended its process, so that the tasks of its other slots are not blamed.
-- KEYS: processes, the process. ARGV: identity, slot.
-- Returns 1; or 0 if the process is unknown or already recovered, and then writes nothing.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HEXISTS', KEYS[2], 'gone') == 1 then
    return 0
end
redis.call('HSET', KEYS[2], 'culprit', ARGV[2])
return 1
