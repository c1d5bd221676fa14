-- What the reports of the two workers say together, as the lines of a summary. Expects the table report(text).
.mode list
.separator "|"
CREATE VIEW value AS SELECT json_extract(text, '$.host') AS host, json_extract(text, '$.done') AS done,
    json_extract(text, '$.active_seconds') AS seconds, json_extract(text, '$.cpu_seconds') AS cpu,
    json_extract(text, '$.locks_acquired') AS acquired, json_extract(text, '$.lock_waits') AS waits,
    json_extract(text, '$.parked') AS parked, json_extract(text, '$.extensions') AS extensions,
    json_extract(text, '$.locks_lost') AS lost, json_extract(text, '$.lock_wait.p99_us') AS wait_us,
    json_extract(text, '$.slowest_lock.wait_us') AS slowest_us,
    json_extract(text, '$.slowest_lock.resource') AS slowest
    FROM report;
SELECT 'speed', printf('%,d tasks/s: %,d tasks in %.1f s, %.2f s of processor time',
    sum(done) / max(seconds), sum(done), max(seconds), sum(cpu)) FROM value;
SELECT 'hosts', group_concat(printf('%s did %,d', host, done), ', ') FROM value;
SELECT 'lock waits', printf('%,d of %,d tasks had to wait for their lock', sum(waits), sum(acquired))
    FROM value WHERE acquired > 0 HAVING sum(acquired) > 0;
SELECT 'parked', printf('%,d times a task was laid aside, its thread free for another', sum(parked))
    FROM value HAVING sum(acquired) > 0;
SELECT 'extensions', printf('%,d while a handler ran; %s', sum(extensions),
    iif(sum(lost) = 0, 'no lock was lost', printf('%,d locks were lost', sum(lost))))
    FROM value HAVING sum(acquired) > 0;
SELECT 'slowest lock', printf('%s, %.1f ms from asking to holding; 99 of 100 within %.1f ms', slowest,
    max(slowest_us) / 1000.0, (SELECT max(wait_us) FROM value) / 1000.0) FROM value HAVING sum(acquired) > 0;
