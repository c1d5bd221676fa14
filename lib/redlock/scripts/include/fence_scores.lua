-- The last tokens of the keys of one lock: KEYS[2] and on. Returns the highest of them and `least`; or nothing if one
-- of them is no token, or can be followed by none below 2^53.
-- include: token_bounds.lua
local function highest_fence(least)
    local members = {'ZMSCORE', 'hf:fences'}
    for i = 2, #KEYS do
        members[i + 1] = member_of(KEYS[i])
    end
    local scores = redis.pcall(unpack(members))
    if scores.err or not floor then
        return
    end
    local highest = least
    for i = 1, #KEYS - 1 do
        highest = math.max(highest, tonumber(scores[i] or 0))
    end
    if highest < TOKEN_END then
        return highest
    end
end
local function raise_fences(token)
    local raised = {'ZADD', 'hf:fences', 'GT'}
    for i = 2, #KEYS do
        raised[2 * i] = token
        raised[2 * i + 1] = member_of(KEYS[i])
    end
    redis.call(unpack(raised))
end
