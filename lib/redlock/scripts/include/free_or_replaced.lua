-- Of a grant of all keys or none: a key that is taken ends it, and so do readers of the resource of which it is a
-- seat, and another waiter that keeps its turn of a key.
-- Counts those with the old value.
local old, replaced = ARGV[6] ~= '' and ARGV[6], 0
for i = 2, #KEYS do
    local key = KEYS[i]
    local held, resource = redis.pcall('GET', key), resource_of(key)
    if held and held == old then
        replaced = replaced + 1
    else
        local read = not held and read_beside(resource)
        local kept = not held and not read and turns and turn_of(resource or key, ARGV[7], resource)
        key, held = read or kept or key, held or read and 'hf:shared' or kept and 'hf:writer'
    end
    if held and held ~= old then
        local where = '@' .. (i - 2)
        -- include: refusal.lua
        return '0 ' .. stamp .. ' ' .. refusal
    end
end
