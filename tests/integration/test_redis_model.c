/* The simulated Redis server (tests/sim/server) answers as a real one, to the byte: redis_twin.h says how both are
 * asked and what is not compared. Random commands are in test_redis_model_random.c, what we really say in
 * test_redis_model_traffic.c. */

#include "tests/support/test.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/private_directory.h"
#include "tests/support/redis_twin.h"

struct scenario {
    const char *name;
    const char *lines; /* with | in between */
};

static struct twin *twin;

static void lines_say(const char *lines)
{
    char line[512];
    for (const char *at = lines; *at != '\0'; at += *at == '|') {
        size_t length = strcspn(at, "|");
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        twin_say(twin, line);
        at += length;
    }
}

static void scenarios_play(const struct scenario *scenarios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        twin_reset(twin, scenarios[i].name);
        lines_say(scenarios[i].lines);
        twin_compare_keys(twin);
    }
}

#define PLAY(scenarios) scenarios_play(scenarios, sizeof(scenarios) / sizeof *(scenarios))

/* --- values ------------------------------------------------------------------------------------------------------- */

TEST(test_strings_and_keys)
{
    static const struct scenario scenarios[] = {
        {"strings", "GET a|SET a 1|GET a|SET a 2 NX|SET b 2 NX PX 100000|GET b|SET a 3 GET|SET c 1 GET|PTTL a|"
                    "PTTL missing|SET a 1 PX 0|SET a 1 PX x|SET a 1 PX -5|SET a 1 BOGUS|SET a 1 PX|SET a 1 PX 5 EX 5|"
                    "SET a 1 PX 99999999999999999|SET a 1 EX 9223372036854775807|EXISTS a b c d a|DEL a b d|EXISTS a|"
                    "SET x 1 EX 10|PTTL x|GET x|MSET a 1 b 2|MSET a 1 b|MGET a b none|UNLINK a b"},
        {"numbers", "INCR n|INCR n|INCRBY n 40|INCRBY n x|SET s text|INCR s|SET n 9223372036854775807|INCR n|GET n|"
                    "SET n -1|INCRBY n -9223372036854775808|SET n 007|INCR n|SET n +1|INCR n|SET n 1.0|INCR n|"
                    "HINCRBY h f 5|HINCRBY h f -7|HSET h t text|HINCRBY h t 1|HINCRBY h f x|HGET h f|INCR h|PTTL m"},
        {"bits", "BITFIELD b OVERFLOW SAT INCRBY u16 #0 5|BITFIELD b OVERFLOW SAT INCRBY u16 #3 70000|"
                 "BITFIELD b GET u16 #3 GET u16 #0 GET u16 #9|GET b|BITFIELD b INCRBY u16 #0 x|BITFIELD b NONSENSE|"
                 "BITFIELD b|BITFIELD b GET u16 #-1|BITFIELD b OVERFLOW SAT INCRBY u16 #0 -9|"
                 "BITFIELD b INCRBY u16 #0 -3 INCRBY u16 #1 65538|LPUSH l 1|BITFIELD l GET u16 #0"},
        {"expiry", "SET c 1|PEXPIRE c 100000|PTTL c|TTL c|PEXPIRE none 5|PEXPIRE c 0|EXISTS c|SET c 1|EXPIRE c -1|"
                   "EXISTS c|SET c 1|EXPIRE c 10|TTL c|EXPIRE c x|EXPIRE c|TTL c|PERSIST c|PERSIST c|TTL c|"
                   "EXPIREAT c 1700000500|PTTL c|EXPIREAT c 1600000000|EXISTS c|SET c 1|"
                   "EXPIRE c 9223372036854775807|PEXPIRE c 9223372036854775807|SET a 1 PX 100000|SET a 2|PTTL a|"
                   "TTL none|TTL a|PEXPIRE a 1499|TTL a|PEXPIRE a 1501|TTL a"},
        {"keys",
         "RENAME a b|SET a 1 PX 100000|RENAME a b|PTTL b|EXISTS a|RENAME b b|SET c 2|RENAME c b|PTTL b|GET b|"
         "RPUSH l 1|RENAME l b|TYPE b|KEYS *|KEYS ?|SET a*c 1|KEYS a\\*c|KEYS *c|SCAN 0 COUNT 100|"
         "SCAN 0 MATCH a* COUNT 100|SCAN x|SCAN 0 COUNT 0|SCAN 0 COUNT|SCAN 0 COUNT x|DBSIZE|FLUSHALL BOGUS|"
         "DBSIZE|SELECT 0|SELECT x|ECHO hallo|ECHO|TIME|PING|PING a|PING a b|NONSENSE|NONSENSE a b|get|GeT a|KEYS"},
        {"types", "TYPE a|SET a 1|TYPE a|LLEN a|HGET a f|ZCARD a|SADD a m|LPUSH b 1|TYPE b|GET b|SET b 1 GET|SET b 1|"
                  "GET b|HSET h f v|TYPE h|ZADD z 1 m|TYPE z|SADD s m|TYPE s|SISMEMBER z m|RPOP h|SMISMEMBER a m|"
                  "LRANGE a x y|LRANGE a 0 1|RPOP a -1|LPOP h 1|ZADD a x m|ZADD a 1 m|HINCRBY a f x|HINCRBY a f 1|"
                  "INCR z|MGET a h z|LMOVE a b LEFT RIGHT|LMOVE a b UP RIGHT|ZRANGE a 0 x|ZRANGE a 0 1|SSCAN a 0|"
                  "HSCAN a x|HSET a f|HSET a f v|LPOS a x RANK 0"},
    };
    PLAY(scenarios);
}

TEST(test_lists)
{
    static const struct scenario scenarios[] = {
        {"lists", "LLEN a|RPOP a|RPOP a 2|LPOP a|LPUSH a 1 2 3|RPUSH a 0|LRANGE a 0 -1|RPOP a|RPOP a 2|LRANGE a -1 5|"
                  "RPOP a 0|RPOP none 0|RPOP a 9|EXISTS a|RPUSH a x y x z x|LREM a -1 x|LRANGE a 0 -1|LREM a -1 q|"
                  "LREM a 1 x|LREM a 0 x|LREM a x x|LRANGE a 0 -1|LPOP a|LPOP a|LRANGE a 1 0|LPOP a|EXISTS a|RPUSH a 1|"
                  "LINDEX a 0|LINDEX a -1|LINDEX a 9|LINDEX a x|LINDEX none x|LRANGE a 0 -1|LPOP a 1 2|LREM none 0 x|"
                  "LREM a 0 z"},
        {"sorting",
         "SORT a ALPHA|SADD s b a c|SORT s ALPHA|SADD n 3 10 2.5|SORT n ALPHA|SORT s BOGUS|SET a x|SORT a ALPHA"},
        {"places",
         "RPUSH a x y x z x|LPOS a x|LPOS a x RANK 2|LPOS a x RANK -1|LPOS a x RANK -1 MAXLEN 2|"
         "LPOS a y RANK -1 MAXLEN 2|LPOS a x COUNT 0|LPOS a x COUNT 2 RANK -1|LPOS a q|LPOS a q COUNT 1|"
         "LPOS a x RANK 0|LPOS a x COUNT -1|LPOS a x MAXLEN -1|LPOS none x|LPOS none x COUNT 1|"
         "LPOS a x NONSENSE 1|LPOS a x RANK|LTRIM a 1 3|LRANGE a 0 -1|LTRIM a -2 -1|LRANGE a 0 -1|LTRIM a 5 9|"
         "EXISTS a|LTRIM none 0 1|LTRIM none x 1|RPUSH a 1 2 3|LRANGE a 0 -1|LTRIM a 0 -3|LRANGE a 0 -1"},
        {"moves", "RPUSH a 1 2 3|LMOVE a b RIGHT LEFT|LMOVE a b LEFT RIGHT|LRANGE b 0 -1|LMOVE a a LEFT RIGHT|"
                  "LMOVE none b LEFT LEFT|LRANGE a 0 -1|LMOVE a b LEFT|SET s 1|LMOVE a s LEFT LEFT|LMOVE s a LEFT LEFT|"
                  "LRANGE a 0 -1|LMOVE b c LEFT LEFT|EXISTS b"},
    };
    PLAY(scenarios);
}

TEST(test_hashes_and_sets)
{
    static const struct scenario scenarios[] = {
        {"hashes",
         "HGET a f|HSET a f 1 g 2|HSET a f 3 h 4|HGET a f|HMGET a f x g|HMGET none f g|HKEYS a|HVALS a|HLEN a|"
         "HSTRLEN a f|HSTRLEN a x|HEXISTS a f|HEXISTS a x|HGETALL a|HDEL a f x|HKEYS a|HSET a f 9|HKEYS a|"
         "HDEL a f g h|EXISTS a|HSET a f|HSET a|HSETNX a f 1|HSETNX a f 2|HSCAN a 0|HSCAN a 0 MATCH x*|"
         "HSCAN a 0 COUNT 100|HSCAN none 0|HGETALL none|HKEYS none|HSCAN a 0 COUNT|HDEL none f|HLEN none|"
         "HSTRLEN none f"},
        {"sets", "SADD s a b a|SADD s a|SISMEMBER s a|SISMEMBER s c|SMISMEMBER s a c b|SMISMEMBER none a|SMEMBERS s|"
                 "SCARD s|SCARD none|SSCAN s 0|SSCAN s 0 MATCH b|SSCAN none 0|SRANDMEMBER none|SREM s a c|"
                 "SISMEMBER s a|SRANDMEMBER s|EXISTS s|SADD s x|SREM s b|SADD s 1 2 3|SMEMBERS s|SREM s 1 2 3|"
                 "SMEMBERS s"},
    };
    PLAY(scenarios);
}

TEST(test_sorted_sets)
{
    static const struct scenario scenarios[] = {
        {"sorted sets",
         "ZADD z 2 b 1 a|ZADD z 1 b|ZRANGE z 0 -1 WITHSCORES|ZADD z NX 9 b 3 c|ZRANGE z 0 -1 WITHSCORES|"
         "ZSCORE z b|ZSCORE z x|ZSCORE none x|ZCARD z|ZCARD none|ZADD z 1700000000.123456 d|ZSCORE z d|"
         "ZRANGEBYSCORE z 1700000000.123456 1700000000.123456|ZRANGEBYSCORE z (1 +inf|"
         "ZRANGEBYSCORE z -inf (3 WITHSCORES|ZRANGEBYSCORE z -inf +inf LIMIT 1 2|"
         "ZRANGEBYSCORE z -inf +inf LIMIT 9 2|ZRANGEBYSCORE z -inf +inf LIMIT -1 2|ZRANGEBYSCORE z 5 4|"
         "ZRANGE z -1 -1|ZRANGE z 1 9|ZRANGE z 3 1|ZRANGE none 0 -1|ZADD z x m|ZADD z nan m|"
         "ZADD z inf i -inf j|ZRANGE z 0 -1 WITHSCORES|ZADD z XX 5 a 6 new|ZADD z NX XX 1 a|ZADD z GT CH 5 a 4 b 9 k|"
         "ZADD z GT CH 6 a 6 a 7 a|ZADD z NX GT 1 a|ZADD z XX GT CH 9 none 8 a|ZMSCORE z a none k|ZMSCORE none a|"
         "SET str 1|ZMSCORE str a|ZMSCORE z|ZADD z XX GT 7 none|ZADD none XX GT 0 a|EXISTS none"},
        {"ends of sorted sets",
         "ZADD z 1 a 1 b 2 c 3 d|ZCOUNT z 1 2|ZCOUNT z (1 (3|ZCOUNT z x 2|ZREM z a x|ZREM none a|"
         "ZREMRANGEBYSCORE z -inf (2|ZRANGE z 0 -1|ZREMRANGEBYRANK z 0 -2|ZRANGE z 0 -1|"
         "ZREMRANGEBYRANK z 0 -100|ZREMRANGEBYRANK z 0 -1|EXISTS z|ZADD z NX 1 a|ZADD z 1|ZADD z 1 a 2|"
         "ZRANGE z 0 x|ZADD t 2 ab 2 a 2 b|ZRANGE t 0 -1|ZRANGEBYSCORE t 2 2 LIMIT 0 -1|ZRANK t b|ZRANK t x|"
         "ZRANK none x|ZREMRANGEBYRANK none 0 x|ZREMRANGEBYSCORE none x 1|ZADD z NX|ZADD z 1 a 2 b"},
        {"ranges that fall",
         "ZADD z 1 a 2 b 3 c 4 d|ZREVRANGEBYSCORE z +inf 2|ZREVRANGEBYSCORE z (4 -inf LIMIT 1 1 WITHSCORES|"
         "ZREVRANGEBYSCORE z 2 4|ZRANGE z 0 1 NONSENSE|ZRANGEBYSCORE z 1 2 LIMIT 0|"
         "ZRANGEBYSCORE z 1 2 LIMIT x 1|ZRANGEBYSCORE z x 2|ZSCAN z 0|ZSCAN z 0 MATCH ?|ZREVRANGEBYSCORE z x 2"},
    };
    PLAY(scenarios);
}

/* A server lets a key go after its millisecond, never before it. */
TEST(test_keys_expire_in_the_same_millisecond)
{
    twin_reset(twin, "expiry in time");
    twin_say(twin, "SET a 1 PX 50");
    twin_say(twin, "RPUSH l 1 2");
    twin_say(twin, "PEXPIRE l 70");
    twin_say(twin, "SET b 1 PX 1000000");
    for (unsigned i = 0; i < 40; i++) {
        twin_say(twin, "EXISTS a l b");
        twin_say(twin, i % 2 == 0 ? "PTTL a" : "EVAL return^redis.call('TYPE','l') 0");
        twin_say(twin, i % 2 == 0 ? "KEYS *" : "SCAN 0 COUNT 100");
    }
    twin_say(twin, "LPUSH l 3");
    twin_say(twin, "PTTL l");
    twin_pass(twin, INT64_C(1000000000));
    twin_say(twin, "KEYS *");
    twin_compare_keys(twin);
}

/* --- scripts ------------------------------------------------------------------------------------------------------ */

TEST(test_scripts)
{
    static const struct scenario scenarios[] = {
        {"values",
         "EVAL return^{1,2.9,'x',false,3} 0|EVAL return^{1,nil,3} 0|EVAL return^true 0|EVAL return^false 0|"
         "EVAL return^nil 0|EVAL return^{ok='fine'} 0|EVAL return^{err='ERR^bad'} 0|EVAL return^{err='bad'} 0|"
         "EVAL return^redis.error_reply('ODD^thing') 0|EVAL return^math.pow(2,53) 0|EVAL return^-3.7 0|"
         "EVAL return^{KEYS[1],KEYS[2],ARGV[1],ARGV[2],#KEYS,#ARGV} 2 a b 1 x|EVAL return^{{1,{2}},'x'} 0|"
         "EVAL return^tostring(redis.call('GET','none')) 0|EVAL return^type(redis.call('SET','a','1')) 0|"
         "EVAL return^redis.call('SET','a','1').ok 0|EVAL return^redis.sha1hex('abc') 0|EVAL return^{} 0|"
         "EVAL return^redis.call('MGET','a','none') 0|EVAL return^redis.call('HGETALL','none') 0|"
         "EVAL return^redis.call('TIME') 0|EVAL return^{1,{ok='x'},{err='y^z'}} 0|"
         "EVAL return^tonumber('0x10') 0|EVAL return^1/0 0|EVAL return^'a~b' 0|"
         "EVAL return^cjson.decode('{\"a\":[1,2,{\"b\":\"\\\\u00e9\"}]}').a[3].b 0|"
         "EVAL return^pcall(cjson.decode,'{') 0|EVAL return^cjson.decode('[1.5,true,null]')[2] 0"},
        {"numbers",
         "EVAL redis.call('SET','a',1)^return^redis.call('GET','a') 0|"
         "EVAL redis.call('SET','a',0.1)^return^redis.call('GET','a') 0|"
         "EVAL redis.call('SET','a',1e15+0.5)^return^redis.call('GET','a') 0|"
         "EVAL redis.call('SET','a',1e15)^return^redis.call('GET','a') 0|"
         "EVAL redis.call('SET','a',123456789012)^return^redis.call('GET','a') 0|"
         "EVAL return^string.format('%.6f^%.0f^%d',1700000000.1234567,1.7e15,3) 0|"
         "EVAL redis.call('ZADD','z',string.format('%.6f',1700000000.5),'m')^return^redis.call('ZSCORE','z','m') 0|"
         "EVAL return^tostring(1700000000123456) 0|EVAL return^tostring(0.1) 0|EVAL return^1700000000123456 0|"
         "EVAL return^redis.call('INCRBY','n',5) 0|EVAL return^redis.call('INCRBY','n',5.5) 0"},
        {"errors", "EVAL redis.call('SET','s','v')^return^redis.pcall('LLEN','s').err 0|"
                   "EVAL return^redis.call('LLEN','s') 0|EVAL return^redis.pcall('LLEN','s') 0|"
                   "EVAL return^type(redis.pcall('LLEN','none')) 0|"
                   "EVAL local^r=redis.pcall('RPOP','none',3)^return^tostring(r) 0|EVAL return^redis.call('GET') 0|"
                   "=EVAL return^redis.pcall('GET').err 0|EVAL redis.call('SET','kept','1')^redis.call('LLEN','s') 0|"
                   "GET kept|EVAL return^redis.call('TYPE','s').ok 0|EVAL return^redis.call('GET',{}) 0|"
                   "EVAL return^redis.call() 0|EVAL return^redis.pcall() 0|EVAL return^1^+^nil 0|"
                   "EVAL ~~return^1^+^nil 0|EVAL local^a^=^nil~return^a.b 0|EVAL error('oh') 0|"
                   "EVAL error({err='CODE^oh'}) 0|EVAL error() 0|EVAL return^unknown 0|EVAL unknown=1 0|"
                   "EVAL return^redis.call('NONSENSE') 0|EVAL return^redis.call('SUBSCRIBE','a') 0|"
                   "EVAL return^redis.call('MULTI') 0|EVAL return^redis.call('EVAL','return^1',0) 0|"
                   "EVAL return^redis.call('SCRIPT','FLUSH') 0|EVAL return^redis.call('CLIENT','ID') 0|EVAL retrun 0|"
                   "EVAL return^1^2 0|EVAL return 0|EVAL x 1|EVAL return^1 x|EVAL return^1 -1|EVAL return^1 1|"
                   "=EVAL return^redis.call('BRPOP','none',0) 0|EVAL return^redis.call('CONFIG','GET','save') 0|"
                   "EVAL local^ok,e=pcall(redis.call,'LLEN','s')^return^e.err 0|"
                   "EVAL return^redis.call('HSET','h','f') 0|EVAL return^pcall(error,'x') 0|"
                   "EVAL return^select(2,pcall(error,'x')) 0|EVAL string.rep() 0"},
        {"the cache",
         "EVALSHA 0123456789012345678901234567890123456789 0|EVALSHA short 0|SCRIPT LOAD return^ARGV[1]|"
         "EVALSHA 4f0a0b1c 0|SCRIPT EXISTS 098e0f0d1448c0a81dafe820f66d460eb09263da x|"
         "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0 7|"
         "EVALSHA 098E0F0D1448C0A81DAFE820F66D460EB09263DA 0 7|EVAL return^7 0|"
         "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da x 7|"
         "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 5 7|SCRIPT LOAD retrun|SCRIPT LOAD|SCRIPT NONSENSE|"
         "SCRIPT FLUSH NOW|SCRIPT FLUSH|EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0 7|"
         "SCRIPT FLUSH SYNC|SCRIPT|EVALSHA x"},
    };
    PLAY(scenarios);
}

/* --- several clients ---------------------------------------------------------------------------------------------- */

TEST(test_transactions)
{
    static const struct scenario scenarios[] = {
        {"transactions",
         "MULTI|SET a 1|LPUSH a 1|GET a|EXEC|EXEC|DISCARD|MULTI|MULTI|SET b 1|DISCARD|GET b|MULTI|NONSENSE|"
         "SET b 1|EXEC|GET b|MULTI|GET|EXEC|=MULTI|=EXEC|MULTI|BRPOP none 0|BLMOVE none b LEFT LEFT 0|EXEC|"
         "MULTI|EVAL return^redis.call('INCR','n') 0|PUBLISH c x|EXEC|MULTI|EXEC|MULTI|1:GET a|PING|EXEC"},
    };
    PLAY(scenarios);
}

TEST(test_clients_that_wait)
{
    static const struct scenario scenarios[] = {
        {"moves", "1:BLMOVE a b RIGHT LEFT 0|2:BLMOVE a b RIGHT LEFT 0|RPUSH a 1|LRANGE b 0 -1|RPUSH a 2|"
                  "BLMOVE b c LEFT RIGHT 0|BLMOVE b c UP RIGHT 0|BLMOVE b c LEFT RIGHT x|BLMOVE b c LEFT RIGHT -1|"
                  "1:BLMOVE a b RIGHT LEFT 0|2:BLMOVE b d RIGHT LEFT 0|3:BRPOP d 0|DEL b c|RPUSH a x y|LRANGE a 0 -1|"
                  "RPUSH none z|LRANGE a 0 -1|DEL d|1:BLMOVE e s RIGHT LEFT 0|SET s 1|RPUSH e 1|LRANGE e 0 -1"},
        {"pops", "1:BRPOP a b 0|RPUSH b 1 2|LRANGE b 0 -1|SET a 1|1:BRPOP b a 0|1:BRPOP c 0|SET c 1|DEL c|MULTI|"
                 "RPUSH c 1|RPUSH c 2|LPOP c|EXEC|BRPOP c x|BRPOP c -1|1:BRPOP c 0|"
                 "EVAL redis.call('RPUSH','c',1)^return^redis.call('LPOP','c') 0|EVAL redis.call('RPUSH','c',1) 0|"
                 "RPUSH c 1 2 3|1:BRPOP d 0|RPUSH x 1|RENAME x d|BRPOP|BRPOP a|RPUSH c 1"},
        {"pops of several",
         "1:BRPOP a b 0|EVAL redis.call('RPUSH','b',1)^redis.call('RPUSH','a',2) 0|LRANGE a 0 -1|LRANGE b 0 -1|DEL a b|"
         "1:BRPOP a b 0|2:BRPOP b a 0|EVAL redis.call('RPUSH','b',1)^redis.call('RPUSH','a',2,3) 0|1:PING|2:PING|"
         "DEL a b|1:BRPOP a b 0|EVAL redis.call('SET','a',1)^redis.call('RPUSH','b',1) 0|LRANGE b 0 -1"},
        {"full when served", "SET a 1|RPUSH l 1 2|1:BLMOVE m n LEFT LEFT 0|CONFIG SET maxmemory 1|RENAME l m|"
                             "LRANGE m 0 -1|LRANGE n 0 -1|1:PING|CONFIG SET maxmemory 0"},
        {"ends of waiting",
         "1:BRPOP a 0|CLIENT UNBLOCK %1|CLIENT UNBLOCK %1|1:BLMOVE a b LEFT LEFT 0|CLIENT UNBLOCK %1 TIMEOUT|"
         "1:BLMOVE a b LEFT LEFT 0|CLIENT UNBLOCK %1 ERROR|1:BRPOP a 0|CLIENT UNBLOCK %1 NONSENSE|"
         "CLIENT UNBLOCK x|CLIENT UNBLOCK 99999999|CLIENT UNBLOCK %0|CLIENT KILL ID %1 ADDR @2|"
         "CLIENT KILL ID %1 ADDR @1|RPUSH a 1|CLIENT KILL ID %1|CLIENT KILL ID 0|CLIENT KILL ID x|"
         "CLIENT KILL TYPE pubsub|CLIENT KILL TYPE odd|"
         "CLIENT KILL SKIPME maybe ID 5|CLIENT KILL ID %0|3:BRPOP b 0|"
         "CLIENT KILL ID %0 SKIPME no"},
    };
    PLAY(scenarios);
}

TEST(test_a_wait_ends_by_time)
{
    twin_reset(twin, "waits that end by time");
    twin_say(twin, "1:BLMOVE a b LEFT LEFT 5");
    twin_say(twin, "2:BRPOP a 7.25");
    twin_say(twin, "3:BRPOP c a 8");
    twin_say(twin, "PING");
    for (unsigned i = 0; i < 3; i++) {
        twin_pass(twin, 3 * INT64_C(1000000));
        twin_say(twin, "PING");
    }
    twin_say(twin, "1:PING");
    twin_say(twin, "2:PING");
    twin_say(twin, "3:PING");
}

TEST(test_subscriptions)
{
    static const struct scenario scenarios[] = {
        {"channels",
         "1:SUBSCRIBE a b|PUBLISH a hallo|PUBLISH c x|1:SUBSCRIBE a|PUBLISH a x|PUBLISH b y|"
         "PUBSUB NUMSUB a b c|PUBSUB CHANNELS|PUBSUB CHANNELS b*|PUBSUB NUMSUB|PUBSUB NONSENSE|1:PING|"
         "1:PING x|1:GET a|1:UNSUBSCRIBE a c|1:UNSUBSCRIBE|1:UNSUBSCRIBE|1:GET a|1:SUBSCRIBE|"
         "EVAL return^redis.call('PUBLISH','a','x') 0|EVAL return^redis.call('PUBSUB','NUMSUB','a') 0|"
         "1:SUBSCRIBE a|EVAL return^redis.call('PUBLISH','a','x')^+^redis.call('PUBLISH','a','y') 0|MULTI|"
         "PUBLISH a z|EXEC|CLIENT KILL TYPE pubsub|PUBSUB NUMSUB a|3:SUBSCRIBE q|3:GET a|3:SUBSCRIBE q|3:QUIT|"
         "PUBLISH q x|2:MULTI|2:SUBSCRIBE w|2:EXEC"},
    };
    PLAY(scenarios);
}

TEST(test_connections)
{
    static const struct scenario scenarios[] = {
        {"clients", "CLIENT SETNAME me|CLIENT SETNAME a^b|CLIENT ID|"
                    "CLIENT INFO|CLIENT LIST|CLIENT|CLIENT NONSENSE|CLIENT ID x|CLIENT KILL|CLIENT SETNAME|AUTH x|"
                    "AUTH default x|AUTH who x|AUTH a b c|CONFIG GET save|CONFIG GET maxmemory|"
                    "CONFIG GET min-replicas-to-write appendfsync|CONFIG GET nonsense|CONFIG SET nonsense 1|"
                    "CONFIG SET maxmemory x|CONFIG SET maxmemory|CONFIG NONSENSE|CONFIG RESETSTAT|INFO|INFO server|"
                    "INFO nonsense|ROLE|ROLE x|1:QUIT|PING"},
    };
    PLAY(scenarios);
}

TEST(test_bytes)
{
    static const char *const ends[] = {"*1\r\n!4\r\n",    "*x\r\n",       "*1\r\n$x\r\n",   "*1\r\n$-1\r\n",
                                       "*2147483648\r\n", "PING \"a\r\n", "PING \"a\"b\r\n"};
    static const char *const lines[] = {"PING\r\n",
                                        "\r\nPING\n",
                                        "PING \"a \\x41\\n\"\r\n",
                                        "PING 'it\\'s'\r\n",
                                        "*0\r\n*-1\r\nPING\r\n",
                                        "*1\r\n$4\r\nPING\r\nPING\r\n",
                                        "GET  a\r\n  PING   b  \r\n",
                                        "*2\r\n$4\r\nPING\r\n$0\r\n\r\n"};
    twin_reset(twin, "lines");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        twin_say_bytes(twin, 0, lines[i], strlen(lines[i]));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        twin_reset(twin, ends[i]);
        twin_say_bytes(twin, 1, ends[i], strlen(ends[i]));
    }
}

/* --- trouble ------------------------------------------------------------------------------------------------------ */

TEST(test_a_server_that_is_out_of_memory)
{
    static const struct scenario scenarios[] = {
        {"out of memory",
         "RPUSH l 1 2 3|SET a 1|HSET h f v|ZADD z 1 m|SADD s m|CONFIG SET maxmemory 1|SET b 1|GET a|DEL a|"
         "RPUSH l 4|LPOP l|HSET h f w|HDEL h f|ZADD z 2 n|ZREM z m|SADD s n|SREM s m|EXPIRE l 1000|INCR n|"
         "LMOVE l k LEFT LEFT|RENAME l k|EVAL return^redis.call('SET','b',1) 0|"
         "EVAL return^redis.pcall('SET','b',1) 0|EVAL redis.call('LPOP','k')^return^redis.call('SET','b',1) 0|"
         "GET b|EVAL redis.call('GET','k2')^return^redis.call('SET','b',2) 0|"
         "EVAL redis.call('DEL','none')^return^redis.call('SET','b',2) 0|=MULTI|=SET b 3|=DEL b|=EXEC|=MULTI|"
         "=DEL b|=EXEC|PUBLISH c x|1:SUBSCRIBE c|PUBLISH c x|BLMOVE none k LEFT LEFT 0|BRPOP k 0|"
         "SCRIPT LOAD return^1|MSET a 1|PERSIST k|SET b 9"},
    };
    PLAY(scenarios);
    twin_say(twin, "CONFIG SET maxmemory 0");
    twin_say(twin, "CONFIG SET maxmemory-policy noeviction");
}

TEST(test_a_replica)
{
    char line[96];
    twin_reset(twin, "a replica");
    twin_say(twin, "SET a 1");
    twin_say(twin, "1:BRPOP l 0");
    /* Nobody listens there. */
    snprintf(line, sizeof line, "REPLICAOF 127.0.0.1 %u", free_port());
    free(redis_server_command(twin_server(twin), "%s", line));
    server_set_read_only(twin_model(twin), true);
    lines_say("SET a 2|GET a|DEL a|EVAL return^redis.call('GET','a') 0|EVAL return^redis.call('SET','a',1) 0|"
              "EVAL return^redis.pcall('DEL','a') 0|MULTI|SET a 1|EXEC|PING|PUBLISH c x|BRPOP none 0|EXPIRE a 5|"
              "2:PING");
    free(redis_server_command(twin_server(twin), "REPLICAOF NO ONE"));
    server_set_read_only(twin_model(twin), false);
    twin_say(twin, "SET a 3");
    twin_say(twin, "1:PING");
}

/* --- a snapshot that fails --------------------------------------------------------------------------------------- */

static void server_told(const char *command)
{
    char *answer = redis_server_command(twin_server(twin), "%s", command);
    if (answer[0] == '-')
        fail_msg("%s: %s", command, answer);
    free(answer);
}

static void snapshot_await(const char *status)
{
    bool is_there = false;
    while (!is_there) {
        char *info = redis_server_command(twin_server(twin), "INFO persistence");
        is_there = strstr(info, status) != NULL && strstr(info, "rdb_bgsave_in_progress:0") != NULL;
        free(info);
        if (!is_there)
            poll(NULL, 0, 5);
    }
}

/* A real one that has no directory. */
TEST(test_a_server_that_cannot_write_its_disk)
{
    struct twin *usual = twin;
    char directory[PRIVATE_DIRECTORY_MAX], command[128];
    twin = twin_create(&(struct redis_server_options){.config = "enable-protected-configs local\n"});
    private_directory_create(directory);
    snprintf(command, sizeof command, "CONFIG SET dir %s save \"900 1\"", directory);
    server_told(command);
    rmdir(directory);
    twin_say(twin, "SET a 1");
    server_told("BGSAVE");
    snapshot_await("rdb_last_bgsave_status:err");
    server_set_misconf(twin_model(twin), true);
    lines_say("SET a 2|GET a|PING|DEL a|EVAL return^redis.call('GET','a') 0|EVAL return^redis.call('SET','a',3) 0|"
              "EVAL return^redis.pcall('DEL','a') 0|MULTI|GET a|SET a 1|EXEC|MULTI|PING|EXEC|BRPOP none 0|PUBLISH c x|"
              "EXPIRE a 5|1:SUBSCRIBE c|1:PING|SCRIPT LOAD return^1");
    twin_destroy(twin);
    twin = usual;
}

TEST(test_strangers)
{
    struct twin *usual = twin;
    twin = twin_create(&(struct redis_server_options){.password = "secret"});
    lines_say("GET a|PING|NONSENSE|GET|AUTH wrong|AUTH who secret|AUTH default wrong|MULTI|AUTH secret|PING|"
              "SET a 1|AUTH wrong|GET a|1:AUTH default secret|1:GET a|2:QUIT|3:SUBSCRIBE a");
    twin_destroy(twin);
    twin = usual;
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
