/* What a server says of itself is read, and judged: fit, doubtful or unfit. */
#include "tests/support/test.h"

#include "worker/nodes/node_facts.h"

#define INFO_OF(version, role, policy, cluster, aof)                                                                   \
    "# Server\r\nredis_version:" version "\r\nredis_mode:standalone\r\nrun_id:0123456789abcdef\r\n# Memory\r\n"        \
    "maxmemory_policy:" policy "\r\n# Persistence\r\naof_enabled:" aof "\r\n# Replication\r\nrole:" role "\r\n"        \
    "# Cluster\r\ncluster_enabled:" cluster "\r\n"
#define GOOD_INFO INFO_OF("7.0.0", "master", "noeviction", "0", "1")

static struct findings judged(const char *info, enum node_use use)
{
    struct node_facts facts;
    struct findings findings = {0};
    assert_true(node_facts_parse(&facts, info, strlen(info)));
    node_facts_judge(&facts, "n", use, &findings);
    return findings;
}

static void assert_one_finding(const char *info, enum node_use use, bool is_warning, const char *part)
{
    struct findings findings = judged(info, use);
    assert_int_equal(findings.count, 1);
    assert_int_equal(findings.warnings, is_warning);
    if (strstr(findings.items[0].text, part) == NULL)
        fail_msg("%s", findings.items[0].text);
    findings_fini(&findings);
}

TEST(facts_are_read)
{
    struct node_facts facts;
    const char *info = INFO_OF("7.0.15", "master", "noeviction", "0", "1");
    assert_true(node_facts_parse(&facts, info, strlen(info)));
    assert_string_equal(facts.run_id, "0123456789abcdef");
    assert_string_equal(facts.server, "redis");
    assert_string_equal(facts.version, "7.0.15");
    assert_int_equal(facts.major, 7);
    assert_int_equal(facts.minor, 0);
    assert_string_equal(facts.role, "master");
    assert_true(facts.has_aof);
    assert_false(facts.is_cluster);
    info = "redis_version:7.2.4\nvalkey_version:8.1.0\nrun_id:x";
    assert_true(node_facts_parse(&facts, info, strlen(info)));
    assert_string_equal(facts.server, "valkey");
    assert_string_equal(facts.version, "8.1.0");
    assert_int_equal(facts.major, 7);
}

TEST(what_is_no_info_is_refused)
{
    static const char *const texts[] = {"",
                                        "hello",
                                        "redis_version:7.0\r\n",
                                        "run_id:x\r\n",
                                        "run_id:x\nredis_version:new\n",
                                        "xrun_id:x\nxredis_version:7.0"};
    struct node_facts facts;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(node_facts_parse(&facts, texts[i], strlen(texts[i])));
    char nul[] = "run_id:a\0b\nredis_version:7.0";
    assert_true(node_facts_parse(&facts, nul, sizeof nul - 1));
    assert_string_equal(facts.run_id, "ab");
}

TEST(a_good_node_has_no_findings)
{
    struct findings findings = judged(INFO_OF("6.2.0", "master", "noeviction", "0", "1"), NODE_FOR_QUEUES);
    assert_int_equal(findings.count, 0);
    findings = judged(INFO_OF("10.0.0", "master", "noeviction", "0", "0"), NODE_FOR_LOCKS);
    assert_int_equal(findings.count, 0);
}

TEST(unfit_nodes_are_errors)
{
    assert_one_finding(INFO_OF("6.0.16", "master", "noeviction", "0", "0"), NODE_FOR_LOCKS, false, "too old");
    assert_one_finding(INFO_OF("5.9.0", "master", "noeviction", "0", "0"), NODE_FOR_LOCKS, false, "too old");
    assert_one_finding(INFO_OF("7.0.0", "slave", "noeviction", "0", "0"), NODE_FOR_LOCKS, false, "is a replica");
    assert_one_finding(INFO_OF("7.0.0", "master", "noeviction", "1", "0"), NODE_FOR_LOCKS, false, "Redis Cluster");
    assert_one_finding(INFO_OF("7.0.0", "master", "volatile-lru", "0", "1"), NODE_FOR_QUEUES, false,
                       "would delete tasks");
}

TEST(doubtful_nodes_are_warnings)
{
    assert_one_finding(INFO_OF("7.0.0", "master", "", "0", "0"), NODE_FOR_LOCKS, true, "does not say");
    assert_one_finding(INFO_OF("7.0.0", "master", "allkeys-lru", "0", "0"), NODE_FOR_LOCKS, true,
                       "could delete locks that are held");
    assert_one_finding(INFO_OF("7.0.0", "master", "noeviction", "0", "0"), NODE_FOR_QUEUES, true, "appendonly is off");
}

TEST(replicas_have_to_be_needed_for_writes)
{
    struct findings findings = judged(GOOD_INFO "connected_slaves:2\r\nmin_slaves_good_slaves:2\r\n", NODE_FOR_QUEUES);
    assert_int_equal(findings.count, 0);
    findings = judged(GOOD_INFO "connected_slaves:0\r\n", NODE_FOR_QUEUES);
    assert_int_equal(findings.count, 0);
    assert_one_finding(GOOD_INFO "connected_slaves:2\r\n", NODE_FOR_QUEUES, true, "min-replicas-to-write is 0");
}

TEST(sentinels_need_something_to_put_in_its_place)
{
    static const char alone[] = GOOD_INFO "connected_slaves:0\r\n", replicated[] = GOOD_INFO "connected_slaves:1\r\n";
    struct node_facts facts;
    struct findings findings = {0};
    assert_true(node_facts_parse(&facts, replicated, sizeof replicated - 1));
    node_facts_judge_failover(&facts, "n", &findings);
    assert_int_equal(findings.count, 0);
    assert_true(node_facts_parse(&facts, alone, sizeof alone - 1));
    node_facts_judge_failover(&facts, "n", &findings);
    assert_int_equal(findings.warnings, 1);
    assert_non_null(findings_find(&findings, "n: has no replica"));
    findings_fini(&findings);
}

RUN_TESTS
