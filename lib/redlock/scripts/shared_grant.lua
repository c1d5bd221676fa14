-- Takes a shared lock of one or more keys, all or none. KEYS: the marker, then the keys. ARGV: marker text, deadline in
-- microseconds of this node's clock, ttl in milliseconds, proposed fencing token ("" = no token), value.
-- Returns what grant_all_unfenced.lua does: a key with readers holds "hf:shared", and a key that is kept for a waiting
-- writer counts as held by "hf:writer". A seat of the resource that is held counts as the key (seats.lua). The token
-- is the highest that the keys have: readers do not count it up. Only where a key has none the proposal counts: this
-- node may have forgotten the token of a writer.
-- include: fences.lua
-- include: deadline.lua
-- include: fence_member.lua
-- include: fence_scores.lua
-- include: readers.lua
-- include: seat_held.lua
for i = 2, #KEYS do
    local key, held, held_seat = KEYS[i], redis.pcall('GET', KEYS[i]), false
    if not held or held == 'hf:shared' then
        held = nil
        local writer = 'hf:writer:' .. key
        local marks = redis.call('MGET', writer, 'hf:seats:' .. key)
        local is_kept
        if marks[1] then
            -- include: turn.lua
            is_kept = sign_of(marks[1]) ~= '*'
        end
        if is_kept then
            key, held = writer, 'hf:writer'
        elseif marks[2] then
            key, held = seat_held(key)
            held_seat = held
        end
    end
    if held then
        local where = '@' .. (i - 2) .. (held_seat and 's' or '')
        -- include: refusal.lua
        return '0 ' .. stamp .. ' ' .. refusal
    end
end
local token = ''
if ARGV[4] ~= '' then
    local highest = highest_fence(floor)
    if not highest then
        return '0 ' .. stamp .. ' #'
    end
    for i = 2, #KEYS do
        if not redis.call('ZSCORE', 'hf:fences', member_of(KEYS[i])) then
            highest = math.max(highest, math.min(tonumber(ARGV[4]), now + AHEAD_MAX))
        end
    end
    token = string.format('%.0f', highest)
    raise_fences(token)
end
for i = 2, #KEYS do
    add_reader(KEYS[i], ARGV[5], ARGV[3])
end
return '0 ' .. stamp .. ' +' .. token
