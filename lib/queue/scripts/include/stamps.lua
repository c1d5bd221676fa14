-- Records when each list was freed last: a hash with a field for each of a fixed number of groups of lists. A list
-- may be mistaken for another of its group; a parked task then looks once more.
-- `fields` are groups, each followed by the time. A foreign value under the key is deleted. One long value keeps the
-- server from its format for small hashes, in which it would search field by field.
local function stamps_set(key, fields)
    fields[#fields + 1] = 'about'
    fields[#fields + 1] = 'when lists of a group were freed last, in microseconds of the time of this node'
    local done = redis.pcall('HSET', key, unpack(fields))
    if type(done) == 'table' then
        redis.call('DEL', key)
        redis.call('HSET', key, unpack(fields))
    end
    redis.call('PEXPIRE', key, 60000)
end
