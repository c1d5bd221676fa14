/* Random commands for the simulated Redis server and a real one (redis_twin.h). Keys are few, so that commands meet the
 * values of one another, of the right type mostly. HF_SEED plays another seed, HF_COMMANDS more commands. */
#include "tests/support/test.h"

#include <stdio.h>
#include <time.h>

#include "base/buffer.h"
#include "tests/sim/world/chance.h"
#include "tests/support/redis_twin.h"

enum { BATCH = 100, WORDS_MAX = 24, COMMANDS = 30000, LINES = 1500 };

/* What stands for a drawn word: s l h t z x  a key that is mostly of that type (x a stream), k any key, f a field or
 * member, v a value, n an integer, r a place, q a score, ( a limit of scores, e milliseconds, E a time in milliseconds,
 * S one in seconds, p a pattern, + up to four more like the word before it, a digit one of the scripts. */
static const char *const templates[] = {
    "GET $s",
    "SET $s $v",
    "SET $s $v NX",
    "SET $s $v GET",
    "SET $s $n",
    "SET $s $v PX $e",
    "SET $s $v EX $n GET",
    "INCR $s",
    "INCRBY $s $n",
    "MGET $s $+",
    "MSET $s $v $k $n",
    "BITFIELD $s OVERFLOW SAT INCRBY u16 #3 $n",
    "BITFIELD $s GET u16 #$r INCRBY u16 #1 $n",
    "LPUSH $l $v $+",
    "RPUSH $l $f $+",
    "RPUSH $l $v",
    "LPOP $l",
    "RPOP $l",
    "LPOP $l $n",
    "RPOP $l $n",
    "LLEN $l",
    "LRANGE $l $r $r",
    "LINDEX $l $r",
    "LREM $l $r $f",
    "LTRIM $l $r $r",
    "LPOS $l $f",
    "LPOS $l $f RANK $r COUNT $n",
    "LPOS $l $f RANK -1 MAXLEN $n",
    "LMOVE $l $l LEFT RIGHT",
    "LMOVE $l $k RIGHT LEFT",
    "HSET $h $f $v",
    "HSET $h $f $v $f $n",
    "HSETNX $h $f $v",
    "HGET $h $f",
    "HMGET $h $f $+",
    "HDEL $h $f $+",
    "HEXISTS $h $f",
    "HLEN $h",
    "HSTRLEN $h $f",
    "HKEYS $h",
    "HVALS $h",
    "HGETALL $h",
    "HINCRBY $h $f $n",
    "HSCAN $h 0 COUNT 1000 MATCH $p",
    "SADD $t $f $+",
    "SADD $t $v",
    "SREM $t $f $+",
    "SISMEMBER $t $f",
    "SMISMEMBER $t $f $+",
    "SCARD $t",
    "SMEMBERS $t",
    "SSCAN $t 0 COUNT 1000",
    "SRANDMEMBER $t",
    "ZADD $z $q $f",
    "ZADD $z $q $f $q $f $q $f",
    "ZADD $z NX $q $f",
    "ZADD $z XX $q $f",
    "ZADD $z GT CH $q $f $q $f",
    "ZMSCORE $z $f $f",
    "ZREM $z $f $+",
    "ZSCORE $z $f",
    "ZCARD $z",
    "ZRANK $z $f",
    "ZCOUNT $z $( $(",
    "ZRANGE $z $r $r",
    "ZRANGE $z $r $r WITHSCORES",
    "ZRANGEBYSCORE $z $( $( WITHSCORES",
    "ZRANGEBYSCORE $z $( $( LIMIT $r $n",
    "ZREVRANGEBYSCORE $z $( $( LIMIT $r $n",
    "ZREMRANGEBYSCORE $z $( $(",
    "ZREMRANGEBYRANK $z $r $r",
    "ZSCAN $z 0 COUNT 1000",
    "DEL $k",
    "UNLINK $k $+",
    "EXISTS $k $+",
    "TYPE $k",
    "RENAME $k $k",
    "EXPIRE $k $n",
    "PEXPIRE $k $e",
    "EXPIREAT $k $S",
    "PERSIST $k",
    "TTL $k",
    "PTTL $k",
    "KEYS $p",
    "SCAN 0 COUNT 1000",
    "SCAN 0 COUNT 1000 MATCH $p",
    "TIME",
    "PUBLISH $f $v",
    "GET $k",
    "HGETALL $k",
    "LRANGE $k $r $r",
    "ZRANGE $k $r $r",
    "SMEMBERS $k",
    "EVAL $1 2 $s $l $v $n",
    "EVAL $2 1 $z $f $q",
    "EVAL $3 1 $h $f $v",
    "EVAL $4 3 $k $k $k $n",
    "EVAL $5 1 $k",
};

/* $1 and so on. */
static const char *const scripts[] = {
    "redis.call('RPUSH', KEYS[2], ARGV[1]) return redis.call('INCRBY', KEYS[1], ARGV[2])",
    "local a = redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) return {a, redis.call('ZSCORE', KEYS[1], ARGV[1]), "
    "redis.call('ZRANGE', KEYS[1], 0, 3, 'WITHSCORES')}",
    "local old = redis.pcall('HGET', KEYS[1], ARGV[1]) redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[2]) return old",
    "local r = {} for i = 1, 3 do r[i] = redis.pcall('TYPE', KEYS[i]).ok r[i + 3] = redis.call('PTTL', KEYS[i]) end "
    "r[7] = redis.pcall('LPOP', KEYS[1], ARGV[1]) return r",
    "return {redis.pcall('LLEN', KEYS[1]), redis.pcall('ZCARD', KEYS[1]), redis.pcall('GET', KEYS[1])}",
};

static struct twin *twin;

struct draw {
    struct chance chance;
    struct buffer bytes; /* of the words of one command */
    size_t ends[WORDS_MAX];
    size_t count;
};

static long long between(struct draw *draw, long long low, long long high)
{
    return chance_between(&draw->chance, low, high);
}

static bool sometimes(struct draw *draw, unsigned per_mille)
{
    return chance_per_mille(&draw->chance, per_mille);
}

static void key_draw(struct draw *draw, char type)
{
    static const char types[] = "slhtzx";
    if (type == 'k' || sometimes(draw, 60))
        type = types[between(draw, 0, sizeof types - 2)];
    buffer_format(&draw->bytes, "%c%lld", type, between(draw, 0, 3));
}

static void integer_draw(struct draw *draw)
{
    static const char *const odd[] = {"x",
                                      "",
                                      "1.5",
                                      "-0",
                                      "+1",
                                      "01",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "1 ",
                                      " 1",
                                      "9223372036854775808",
                                      "99999999999999"};
    if (sometimes(draw, 50))
        buffer_append_text(&draw->bytes, odd[between(draw, 0, sizeof odd / sizeof odd[0] - 1)]);
    else
        buffer_format(&draw->bytes, "%lld",
                      sometimes(draw, 100) ? between(draw, -100000, 100000) : between(draw, -3, 9));
}

static void score_draw(struct draw *draw, bool is_limit)
{
    /* Servers differ in how they read the last ones as a limit. */
    static const char *const odd[] = {"inf", "-inf", "+inf",  "nan", "x", "1e3", "1700000000.123456",
                                      "",    "0x10", "1e400", " 1"};
    long long last = is_limit ? 6 : sizeof odd / sizeof odd[0] - 1;
    if (is_limit && sometimes(draw, 300))
        buffer_append_text(&draw->bytes, "(");
    if (sometimes(draw, is_limit ? 300 : 60))
        buffer_append_text(&draw->bytes, odd[between(draw, 0, last)]);
    else
        buffer_format(&draw->bytes, "%lld%s", between(draw, -5, 20), sometimes(draw, 200) ? ".5" : "");
}

static void value_draw(struct draw *draw)
{
    static const char *const odd[] = {"", "a\r\nb", "1", "007", "\x01\xff", "text with blanks"};
    if (sometimes(draw, 300))
        buffer_append_text(&draw->bytes, odd[between(draw, 0, sizeof odd / sizeof odd[0] - 1)]);
    else
        for (long long i = sometimes(draw, 30) ? between(draw, 1, 300) : between(draw, 1, 8); i > 0; i--)
            buffer_format(&draw->bytes, "%c", (int)between(draw, 'a', 'z'));
}

static void word_draw(struct draw *draw, char kind)
{
    static const char *const patterns[] = {"*", "?1", "z*", "f?", "\\z*", "none", "*3"};
    switch (kind) {
    case 'f':
        buffer_format(&draw->bytes,
                      sometimes(draw, 20) ? "a member that is longer than the others, number %lld" : "f%lld",
                      between(draw, 0, sometimes(draw, 50) ? 300 : 9));
        break;
    case 'v':
        value_draw(draw);
        break;
    case 'n':
        integer_draw(draw);
        break;
    case 'r':
        buffer_format(&draw->bytes, "%lld", between(draw, -6, 6));
        break;
    case 'q':
    case '(':
        score_draw(draw, kind == '(');
        break;
    case 'e':
        buffer_format(&draw->bytes, "%lld", between(draw, sometimes(draw, 50) ? -5 : 1, 60));
        break;
    case 'E':
        /* Not now: then servers differ in whether a key that is set is gone. */
        buffer_format(&draw->bytes, "%lld",
                      twin_now_us(twin) / 1000 + (sometimes(draw, 100) ? -1 : between(draw, 1, 60)));

        break;
    case 'S':
        buffer_format(&draw->bytes, "%lld", twin_now_us(twin) / 1000000 + between(draw, -1, 3));
        break;
    case 'p':
        buffer_append_text(&draw->bytes, patterns[between(draw, 0, sizeof patterns / sizeof patterns[0] - 1)]);
        break;
    default:
        if (kind >= '1' && kind <= '5')
            buffer_append_text(&draw->bytes, scripts[kind - '1']);
        else
            key_draw(draw, kind);
    }
}

static void word_end(struct draw *draw)
{
    draw->ends[draw->count++] = draw->bytes.length;
    buffer_append(&draw->bytes, "", 1);
}

static void command_draw(struct draw *draw)
{
    const char *template = templates[between(draw, 0, sizeof templates / sizeof templates[0] - 1)];
    char kind = 's';
    buffer_clear(&draw->bytes);
    draw->count = 0;
    for (const char *at = template; *at != '\0'; at += *at == ' ') {
        size_t length = strcspn(at, " ");
        const char *dollar = memchr(at, '$', length);
        long long times = 1;
        buffer_append(&draw->bytes, at, dollar != NULL ? (size_t)(dollar - at) : length);
        if (dollar != NULL && dollar[1] == '+')
            times = between(draw, 0, 4);
        else if (dollar != NULL)
            kind = dollar[1];
        for (; times > 0; times--) {
            if (dollar != NULL)
                word_draw(draw, kind);
            word_end(draw);
        }
        at += length;
    }
    if (sometimes(draw, 10) && strstr(template, " 1000") == NULL) /* too few */
        draw->count = (size_t)between(draw, 1, (long long)draw->count);
}

static void command_add(struct draw *draw)
{
    struct text words[WORDS_MAX];
    size_t begin = 0;
    command_draw(draw);
    for (size_t i = 0; i < draw->count; i++) {
        words[i] = (struct text){draw->bytes.bytes + begin, draw->ends[i] - begin};
        begin = draw->ends[i] + 1;
    }
    twin_add(twin, words, draw->count);
}

static void word_add(const char *word)
{
    const struct text words[] = {text_of(word)};
    twin_add(twin, words, 1);
}

static void seed_play(uint64_t seed, unsigned commands)
{
    struct draw draw = {.chance = {seed}};
    char about[64];
    snprintf(about, sizeof about, "seed %llu", (unsigned long long)seed);

    twin_reset(twin, about);
    for (unsigned done = 0, batch = 0; done < commands; done += BATCH, batch++) {
        bool is_transaction = sometimes(&draw, 100);
        if (is_transaction)
            word_add("MULTI");
        for (unsigned i = 0; i < BATCH; i++)
            command_add(&draw);
        if (is_transaction)
            word_add("EXEC");
        twin_flush(twin);
        twin_pass(twin, between(&draw, 0, 30000));
        if (batch % 8 == 7)
            twin_compare_keys(twin);
        if (batch % 64 == 63) { /* its disk has all by then */
            twin_pass(twin, INT64_C(1000000));
            twin_restart_model(twin);
            twin_compare_keys(twin);
        }
    }
    buffer_fini(&draw.bytes);
}

/* --- clients that wait, listen and are killed --------------------------------------------------------------------- */

/* %c is a client, %k a key, %v a value. */
static const char *const moves[] = {
    "%c:BLMOVE %k %k RIGHT LEFT 0",
    "%c:BRPOP %k %k 0",
    "%c:BLMOVE %k %k LEFT LEFT 0.02",
    "%c:BRPOP %k 0.05",
    "0:RPUSH %k %v",
    "0:RPUSH %k %v %v",
    "0:LPUSH %k %v",
    "0:DEL %k",
    "0:RENAME %k %k",
    "0:SET %k %v",
    "0:MULTI",
    "0:EXEC",
    "0:LPOP %k",
    "0:LMOVE %k %k LEFT RIGHT",
    "0:EVAL redis.call('RPUSH','a','x')^redis.call('LPUSH','b','y')^return^redis.call('LLEN','a') 0",
    "0:CLIENT UNBLOCK ^%c",
    "0:CLIENT UNBLOCK ^%c ERROR",
    "0:CLIENT KILL ID ^%c",
    "0:LRANGE %k 0 -1",
    "%c:SUBSCRIBE %k",
    "%c:UNSUBSCRIBE %k",
    "0:PUBLISH %k %v",
    "0:PUBSUB NUMSUB %k %k",
    "%c:PING",
    "%c:RPUSH %k %v",
    "%c:MULTI",
    "%c:EXEC",
    "%c:LLEN %k",
};

static void line_draw(struct draw *draw)
{
    const char *at = moves[between(draw, 0, sizeof moves / sizeof moves[0] - 1)];
    buffer_clear(&draw->bytes);
    for (; *at != '\0'; at++) {
        bool is_drawn = at[0] == '%' && at[1] != '\0';
        if (!is_drawn)
            buffer_append(&draw->bytes, *at == '^' && at[1] == '%' ? "%" : at, 1);
        else if (*++at == 'c')
            buffer_format(&draw->bytes, "%lld", between(draw, 1, TWIN_CLIENTS - 1));
        else
            buffer_format(&draw->bytes, "%c", (int)(*at == 'k' ? between(draw, 'a', 'c') : between(draw, 'r', 'z')));
    }
}

/* MULTI inside of a transaction spoils it at a Valkey, and not at a Redis. */
static bool is_fit(bool queues[TWIN_CLIENTS], const char *line)
{
    const char *killed = strstr(line, "KILL ID %");
    bool *queueing = &queues[line[0] - '0'];
    bool is_fit = !*queueing || strstr(line, "MULTI") == NULL;
    *queueing = (*queueing || strstr(line, "MULTI") != NULL) && strstr(line, "EXEC") == NULL;
    if (killed != NULL && !queues[0])
        queues[killed[9] - '0'] = false;
    return is_fit;
}

static void clients_play(uint64_t seed, unsigned lines)
{
    struct draw draw = {.chance = {seed}};
    bool queues[TWIN_CLIENTS] = {false};
    char about[64];
    snprintf(about, sizeof about, "clients of seed %llu", (unsigned long long)seed);
    twin_reset(twin, about);
    for (unsigned i = 0; i < lines; i++) {
        line_draw(&draw);
        if (!is_fit(queues, buffer_text(&draw.bytes)))
            continue;
        twin_say(twin, buffer_text(&draw.bytes));

        if (sometimes(&draw, 50))
            twin_pass(twin, between(&draw, 0, 60000));
        if (sometimes(&draw, 20)) {
            memset(queues, 0, sizeof queues);
            twin_reset(twin, about);
        }
    }
    buffer_fini(&draw.bytes);
}

static unsigned long long number_of(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static unsigned long long seed_of_today(void)
{
    return number_of("HF_SEED", (unsigned long long)time(NULL) / 86400);
}

TEST(test_random_commands_are_answered_alike)
{
    unsigned commands = (unsigned)number_of("HF_COMMANDS", COMMANDS);
    unsigned long long today = seed_of_today();

    print_message("3 x %u commands, seeds 1, 2 and %llu\n", commands, today);
    seed_play(today, commands);
    seed_play(1, commands);
    seed_play(2, commands);
}

TEST(test_random_clients_hear_the_same)
{
    unsigned lines = (unsigned)number_of("HF_LINES", LINES);
    print_message("2 x %u lines, seeds 1 and %llu\n", lines, seed_of_today());
    clients_play(seed_of_today(), lines);
    clients_play(1, lines);
}

static int set_up(void **state)
{
    (void)state;
    twin = twin_create(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    twin_destroy(twin);
    return 0;
}

RUN_GROUP(set_up, tear_down, NULL, NULL)
