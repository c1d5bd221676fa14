-- Takes one lock of several keys, all or none, without a token. KEYS: the marker, then the keys. ARGV: as in
-- grant_unfenced.lua, with one value, at most one that it may replace, and the intent of a waiter that keeps its turn
-- (intent.lua). Returns, behind "0" and the time, "+", or "=" if it replaced the old value under all of them. Or it
-- does nothing and returns what grant_unfenced.lua says of the first key that is taken, with "@" and its number from 0
-- behind the ttl.
-- include: marker.lua
-- include: deadline.lua
-- include: seats.lua
-- include: turns.lua
-- include: free_or_replaced.lua
for i = 2, #KEYS do
    redis.call('SET', KEYS[i], ARGV[5], 'PX', ARGV[3])
    note_seat(KEYS[i])
end
return '0 ' .. stamp .. (replaced == #KEYS - 1 and ' =' or ' +')
