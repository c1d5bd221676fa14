-- The member of the set that is the fence of a lock: its key, or a digest of a long one.
local function member_of(key)
    return #key <= 64 and key or '#' .. redis.sha1hex(key)
end
