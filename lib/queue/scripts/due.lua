-- A page of the entries of a sorted set that are due by the node's own clock, oldest first. Finding a page by its rank
-- costs the same wherever it lies.
-- KEYS: the sorted set. ARGV: how many entries to skip, how many to give at most, how many bytes at most (one entry is
-- always given).
-- Answers 1 when more are due behind the page, else 0, and then its entries.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local first, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local page = redis.call('ZRANGE', KEYS[1], first, first + count, 'WITHSCORES') -- one more, to see whether there is
local budget, answer = tonumber(ARGV[3]), {0}
for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > now then
        break
    end
    budget = budget - #page[i]
    if #answer > count or (i > 1 and budget < 0) then
        answer[1] = 1
        break
    end
    answer[#answer + 1] = page[i]
end
return answer
