/* A plan as JSON: nothing is lost on the way, and nothing is believed that would not fit. */
#include "tests/support/popularity_share.h"
#include "tests/support/test.h"

#include "base/memory.h"
#include "base/random.h"
#include "tests/unit/plan_text.h"

/* Written, read and written again: the same bytes. `again` is the caller's. */
static void assert_survives(const struct dry_run_plan *plan, struct dry_run_plan *again)
{
    struct buffer first = {0}, second = {0};
    struct error error = ERROR_NONE;
    plan_json_write(&(struct json_writer){.out = &first}, NULL, plan);
    if (!plan_text_read(first.bytes, first.length, again, &error))
        fail_msg("%s: %s", error.text, buffer_text(&first));
    plan_json_write(&(struct json_writer){.out = &second}, NULL, again);
    assert_string_equal(buffer_text(&first), buffer_text(&second));
    buffer_fini(&first);
    buffer_fini(&second);
}

static struct dry_run_plan full_plan(void)
{
    struct dry_run_plan plan;
    plan_init(&plan);
    memcpy(plan.id, "0123456789ab", DRY_RUN_ID_BYTES + 1);
    memcpy(plan.run_id, "ba9876543210", DRY_RUN_ID_BYTES + 1);
    plan.kind = DRY_RUN_SHADOW;
    plan.is_local = true;
    plan.local_nodes = 3;
    plan.seed = DRY_RUN_SEED_MAX;
    plan.warm_up_ns = 1234567891;
    plan.for_ns = 86399999999999;
    plan.processes = 2;
    plan.threads = 48;
    plan.hosts = 3;
    plan.arrivals = DRY_RUN_OPEN;
    plan.rate = 1.0 / 3;
    plan.population = 17;
    plan.is_population_given = true;
    plan.resources_per_task = 2;
    plan.failures = 0.1;
    snprintf(plan.class_name, sizeof plan.class_name, "%s", "Überweisung \"x\"");
    plan.node_share = 0.07;
    plan.speed = 3;
    struct popular resources[] = {{"a \"b\"", 0.1}, {"ü", 7}};
    popularity_weigh(&plan.popularity, resources, 2);
    distribution_measure(&plan.hold, (double[]){0.1, 0.001, 1.0 / 3}, 3);
    plan.faults[0] = (struct dry_run_fault){DRY_RUN_FAULT_SLOW, 1, 2, 3, false, 4};
    plan.faults[1] = (struct dry_run_fault){DRY_RUN_FAULT_CLOCK, 5, 0, -1500000001, false, 2};
    plan.faults[2] = (struct dry_run_fault){DRY_RUN_FAULT_KILL, 5, 0, 0, true, 1};
    plan.fault_count = 3;
    plan.points[0] = 8;
    plan.points[1] = 1024;
    plan.point_count = 2;
    plan_complete(&plan);
    return plan;
}

TEST(nothing_is_lost)
{
    struct dry_run_plan plan = full_plan(), again;
    assert_survives(&plan, &again);
    assert_string_equal(again.id, plan.id);
    assert_string_equal(again.run_id, plan.run_id);
    assert_int_equal(again.kind, DRY_RUN_SHADOW);
    assert_true(again.is_local && again.is_population_given);
    assert_int_equal(again.local_nodes, 3);
    assert_true(again.seed == plan.seed);
    assert_int_equal(again.warm_up_ns, plan.warm_up_ns);
    assert_int_equal(again.for_ns, plan.for_ns);
    assert_int_equal(again.processes, 2);
    assert_int_equal(again.threads, 48);
    assert_int_equal(again.hosts, 3);
    assert_int_equal(again.arrivals, DRY_RUN_OPEN);
    assert_true(again.rate == plan.rate && again.failures == plan.failures && again.node_share == plan.node_share);
    assert_true(again.speed == plan.speed);
    assert_int_equal(again.population, 17);
    assert_int_equal(again.resources_per_task, 2);
    assert_string_equal(again.class_name, plan.class_name);
    assert_int_equal(again.hold.kind, DISTRIBUTION_MEASURED);
    assert_int_equal(again.hold.quantile_count, 3);
    assert_memory_equal(again.hold.quantiles, plan.hold.quantiles, 3 * sizeof(double));
    assert_string_equal(again.popularity.names[0], "ü");
    assert_string_equal(again.popularity.names[1], "a \"b\"");
    assert_memory_equal(again.popularity.cumulative, plan.popularity.cumulative, 2 * sizeof(double));
    assert_int_equal(again.fault_count, 3);
    assert_int_equal(again.faults[1].amount_ns, -1500000001);
    assert_memory_equal(again.faults, plan.faults, 3 * sizeof plan.faults[0]);
    assert_int_equal(again.point_count, 2);
    assert_int_equal(again.points[1], 1024);
    plan_fini(&plan);
    plan_fini(&again);
}

TEST(every_kind_of_load_survives)
{
    static const struct distribution holds[] = {{.kind = DISTRIBUTION_FIXED, .mean_s = 0},
                                                {.kind = DISTRIBUTION_EXPONENTIAL, .mean_s = 0.0015},
                                                {.kind = DISTRIBUTION_LOGNORMAL, .mean_s = 0.1, .sigma = 0.8}};
    static const struct popularity popularities[] = {{POPULARITY_UNIFORM, .count = 1000000},
                                                     {POPULARITY_ZIPF, .count = 9, .exponent = 1.1},
                                                     {POPULARITY_HOT, .count = 100, .hot = 10, .hot_share = 0.9}};
    for (size_t i = 0; i < 3; i++) {
        struct dry_run_plan plan, again;
        plan_init(&plan);
        plan.hold = holds[i];
        plan.popularity = popularities[i];
        plan_complete(&plan);
        assert_survives(&plan, &again);
        assert_int_equal(again.hold.kind, holds[i].kind);
        assert_true(again.hold.mean_s == holds[i].mean_s && again.hold.sigma == holds[i].sigma);
        assert_int_equal(again.popularity.kind, popularities[i].kind);
        assert_int_equal(again.popularity.count, popularities[i].count);
        assert_true(popularity_share(&again.popularity, 8) == popularity_share(&plan.popularity, 8));
        plan_fini(&plan);
        plan_fini(&again);
    }
}

TEST(what_is_not_there_is_as_usual)
{
    static const char text[] = "{\"threads\":4,\"a later version\":{\"knows\":[\"more\"]}}";
    struct dry_run_plan plan, usual;
    struct error error = ERROR_NONE;
    plan_init(&usual);
    if (!plan_text_read(text, sizeof text - 1, &plan, &error))
        fail_msg("%s", error.text);
    assert_int_equal(plan.threads, 4);
    assert_int_equal(plan.population, 8); /* it is complete */
    assert_int_equal(plan.for_ns, usual.for_ns);
    assert_string_equal(plan.class_name, DRY_RUN_CLASS);
    assert_string_equal(plan.id, "");
    plan_fini(&plan);
}

static const struct {
    const char *text, *reason;
} hostile[] = {
    {"", "the plan is no JSON"},
    {"{", "the plan is no JSON"},
    {"{\"threads\":1,\"threads\":2}", "the plan is no JSON"},
    {"[]", "the plan: it is no object"},
    {"{\"threads\":0}", "the plan: threads is not a whole number from 1 to 1024"},
    {"{\"threads\":1.5}", "threads is not a whole number"},
    {"{\"threads\":\"4\"}", "threads is not a whole number"},
    {"{\"threads\":null}", "threads is not a whole number"},
    {"{\"threads\":9223372036854775807}", "threads is not a whole number"},
    {"{\"processes\":65}", "processes is not"},
    {"{\"local_nodes\":16}", "local_nodes is not"},
    {"{\"seed\":-1}", "seed is not"},
    {"{\"seed\":9007199254740992}", "seed is not"},
    {"{\"warm_up\":-1}", "warm_up is not a number"},
    {"{\"for\":1e300}", "for is not a number from 1 to 86400"},
    {"{\"for\":0}", "for is not a number"},
    {"{\"local\":1}", "local is neither true nor false"},
    {"{\"rate\":-1}", "rate is not"},
    {"{\"failures\":1.1}", "failures is not"},
    {"{\"speed\":0}", "speed is not"},
    {"{\"resources_per_task\":17}", "resources_per_task is not"},
    {"{\"resources_per_task\":2,\"popularity\":{\"resources\":1}}", "fewer resources than a task takes"},
    {"{\"arrivals\":\"open\"}", "the rate is 0"},
    {"{\"arrivals\":\"sometimes\"}", "arrivals is nothing that this version knows"},
    {"{\"kind\":3}", "kind is nothing that this version knows"},
    {"{\"id\":\"0123456789a\"}", "id is not 12 hexadecimal digits"},
    {"{\"id\":\"0123456789abc\"}", "id is not a text of at most 12 bytes"},
    {"{\"id\":\"0123456789AB\"}", "id is not 12 hexadecimal digits"},
    {"{\"id\":7}", "id is not a text"},
    {"{\"run\":\"0123456789AB\"}", "id is not 12 hexadecimal digits"},
    {"{\"class\":7}", "class is not a text"},
    {"{\"class\":\"a\\u0000b\"}", "the plan is no JSON"},
    {"{\"hold\":7}", "the plan: hold is no object"},
    {"{\"hold\":{\"kind\":\"exponential\"}}", "the plan: hold.mean is missing"},
    {"{\"popularity\":[]}", "the plan: popularity is no object"},
    {"{\"hold\":{\"kind\":\"short\"}}", "the plan: hold.kind is nothing"},
    {"{\"hold\":{\"kind\":\"fixed\",\"mean\":-1}}", "hold.mean is not"},
    {"{\"hold\":{\"kind\":\"lognormal\",\"mean\":1,\"sigma\":6}}", "hold.sigma is not"},
    {"{\"hold\":{\"kind\":\"measured\"}}", "hold.quantiles is missing"},
    {"{\"hold\":{\"kind\":\"measured\",\"quantiles\":[]}}", "hold.quantiles is empty"},
    {"{\"hold\":{\"kind\":\"measured\",\"quantiles\":[2,1]}}", "hold.quantiles[1] is out of order"},
    {"{\"hold\":{\"kind\":\"measured\",\"quantiles\":[-1]}}", "hold.quantiles[0] is not a number"},
    {"{\"hold\":{\"kind\":\"measured\",\"quantiles\":[1,null]}}", "hold.quantiles[1] is not a number"},
    {"{\"popularity\":{\"resources\":0}}", "the plan: popularity.resources is not"},
    {"{\"popularity\":{\"resources\":1000001}}", "popularity.resources is not"},
    {"{\"popularity\":{\"kind\":\"zipf\",\"exponent\":21}}", "popularity.exponent is not"},
    {"{\"popularity\":{\"kind\":\"hot\"}}", "popularity.hot is 0"},
    {"{\"popularity\":{\"kind\":\"weights\"}}", "popularity.weights is missing"},
    {"{\"popularity\":{\"kind\":\"weights\",\"resources\":2,\"weights\":[1]}}",
     "popularity.weights is not a list of as many"},
    {"{\"popularity\":{\"kind\":\"weights\",\"resources\":2,\"weights\":[1,2]}}",
     "popularity.weights[1] is out of order"},
    {"{\"popularity\":{\"kind\":\"weights\",\"resources\":2,\"weights\":[1,0]}}",
     "popularity.weights[1] is not a number"},
    {"{\"popularity\":{\"resources\":2,\"names\":[\"a\"]}}", "popularity.names is not a list of as many"},
    {"{\"popularity\":{\"resources\":1,\"names\":[7]}}", "popularity.names[0] is no text"},
    {"{\"popularity\":{\"resources\":1,\"names\":[\"hf:x\"]}}", "popularity.names[0] cannot be"},
    {"{\"popularity\":{\"resources\":2,\"names\":[\"a\",\"\"]}}", "popularity.names[1] cannot be"},
    {"{\"faults\":{}}", "faults is no list"},
    {"{\"faults\":[{}]}", "faults[0].kind is missing"},
    {"{\"faults\":[{\"kind\":\"freeze\"}]}", "faults[0].kind does not fit"},
    {"{\"faults\":[7]}", "faults[0] is no object"},
    {"{\"faults\":[{\"kind\":\"melt\"}]}", "faults[0].kind is nothing that this version knows"},
    {"{\"faults\":[{\"kind\":\"stop\",\"at\":-1}]}", "faults[0].at is not"},
    {"{\"faults\":[{\"kind\":\"stop\"},{\"kind\":\"stop\",\"number\":65}]}", "faults[1].number is not"},
    {"{\"what_if\":7}", "what_if is no list"},
    {"{\"what_if\":[0]}", "what_if[0] is not a whole number from 1 to 1024"},
    {"{\"what_if\":[8,1025]}", "what_if[1] is not"},
    {"{\"what_if\":[\"8\"]}", "what_if[0] is not"},
    {"{\"what_if\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "what_if is a list of more than 16"},
};

TEST(what_would_not_fit_is_refused)
{
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct dry_run_plan plan;
        struct error error = ERROR_NONE;
        if (plan_text_read(hostile[i].text, strlen(hostile[i].text), &plan, &error))
            fail_msg("taken: %s", hostile[i].text);
        assert_true(error_is_set(&error));
        assert_contains(error.text, hostile[i].reason);
        plan_fini(&plan); /* also of what was refused half way */
    }
}

TEST(nothing_at_all_is_refused)
{
    struct dry_run_plan plan;
    struct error error = ERROR_NONE;
    assert_false(plan_from_json(NULL, &plan, &error));
    assert_contains(error.text, "is no object");
    plan_fini(&plan);
}

TEST(too_many_names_are_refused)
{
    json_t *object = json_object(), *popularity = json_object(), *weights = json_array();
    for (int i = 0; i <= DRY_RUN_NAMED_MAX; i++)
        json_array_append_new(weights, json_integer(1));
    json_object_set_new(popularity, "kind", json_string("weights"));
    json_object_set_new(popularity, "resources", json_integer(DRY_RUN_NAMED_MAX + 1));
    json_object_set_new(popularity, "weights", weights);
    json_object_set_new(object, "popularity", popularity);
    struct dry_run_plan plan;
    struct error error = ERROR_NONE;
    assert_false(plan_from_json(object, &plan, &error));
    assert_contains(error.text, "popularity.weights is a list of more than 100000");
    plan_fini(&plan);
    json_decref(object);
}

/* A plan with bytes exchanged: it is refused, or what was read survives. */
TEST(damaged_plans_are_answered)
{
    struct dry_run_plan plan = full_plan();
    struct buffer text = {0}, damaged = {0};
    plan_json_write(&(struct json_writer){.out = &text}, NULL, &plan);
    unsigned taken = 0;
    for (int i = 0; i < 20000; i++) {
        struct dry_run_plan read, again;
        struct error error = ERROR_NONE;
        buffer_clear(&damaged);
        buffer_append(&damaged, text.bytes, text.length);
        for (int64_t left = random_between(1, 3); left > 0; left--)
            damaged.bytes[random_between(0, (int64_t)text.length - 1)] = "0129.-eE\"[]{}, ntf"[random_between(0, 17)];
        if (plan_text_read(damaged.bytes, damaged.length, &read, &error)) {
            assert_survives(&read, &again);
            plan_fini(&again);
            taken++;
        } else {
            assert_true(error_is_set(&error));
        }
        plan_fini(&read);
    }
    assert_true(taken > 100);
    buffer_fini(&text);
    buffer_fini(&damaged);
    plan_fini(&plan);
}

RUN_TESTS
