/* Turns: first come, first served, for sets of keys, without deadlock. */
#include "tests/support/test.h"

#include "redlock/local_waiters.h"
#include "tests/sim/world/chance.h"

/* Names of keys in their order; a set of keys is a mask of their numbers. */
enum { KEYS = 5, CLAIMS = 6 };
static const struct local_key names[KEYS] = {{"a", 1}, {"aa", 2}, {"b\0c", 3}, {"b\0d", 3}, {"z", 1}};

struct person {
    struct local_waiter claim;
    struct local_key keys[KEYS];
    char bytes[KEYS][4];
    unsigned told;
};

static struct local_waiters *waiters;
static struct person people[CLAIMS];
static char order[64]; /* who was told, a letter each */

static bool has_all(const struct local_waiter *waiter)
{
    return waiter->count > 0 && waiter->had == waiter->count;
}

static void told(struct local_waiter *claim)
{
    struct person *person = list_owner(claim, struct person, claim);
    size_t length = strlen(order);
    assert_true(has_all(claim));
    assert_null(local_waiter_blocker(claim));
    person->told++;
    if (length < sizeof order - 1)
        snprintf(order + length, 2, "%c", (char)('A' + (person - people)));
}

static bool want(unsigned who, unsigned mask)
{
    struct person *person = &people[who];
    unsigned count = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        if (!(mask >> key & 1u))
            continue;
        memcpy(person->bytes[count], names[key].bytes, names[key].length);
        person->keys[count] = (struct local_key){person->bytes[count], names[key].length};
        count++;
    }
    person->told = 0;
    return local_waiters_want(waiters, &person->claim, person->keys, count);
}

static void leave(unsigned who)
{
    local_waiters_leave(waiters, &people[who].claim);
    memset(people[who].bytes, 'x', sizeof people[who].bytes); /* nobody may look at them any more */
}

static int who_has(unsigned key)
{
    struct local_waiter *claim = local_waiters_owner(waiters, names[key]);
    return claim == NULL ? -1 : (int)(list_owner(claim, struct person, claim) - people);
}

static void set_up(void)
{
    waiters = local_waiters_create(42);
    for (unsigned i = 0; i < CLAIMS; i++)
        local_waiter_init(&people[i].claim, told);
    order[0] = '\0';
}

static void tear_down(void)
{
    for (unsigned i = 0; i < CLAIMS; i++)
        local_waiters_leave(waiters, &people[i].claim);
    local_waiters_destroy(waiters);
}

enum { A, B, C, D, E };

TEST(test_first_come_first_served)
{
    assert_true(want(A, 1));
    assert_false(want(B, 1));
    assert_false(want(C, 1));
    assert_false(want(D, 1));
    assert_ptr_equal(local_waiter_blocker(&people[C].claim), &people[A].claim);
    leave(C); /* one who waits gives up */
    leave(A);
    assert_string_equal(order, "B");
    assert_int_equal(who_has(0), B);
    assert_ptr_equal(local_waiter_blocker(&people[D].claim), &people[B].claim);
    leave(B);
    leave(D);
    assert_string_equal(order, "BD");
    assert_int_equal(who_has(0), -1);
    assert_true(want(C, 1));
    leave(C);
    leave(C); /* twice is harmless */
}

TEST(test_other_keys_do_not_wait)
{
    for (unsigned key = 0; key < KEYS; key++)
        assert_true(want(key, 1u << key));
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(who_has(key), (int)key);
}

TEST(test_a_set_is_told_once_when_it_is_complete)
{
    assert_true(want(A, 1));
    assert_true(want(B, 2));
    assert_true(want(C, 4));
    assert_false(want(D, 7));
    leave(B);
    leave(A);
    assert_int_equal(people[D].told, 0);
    assert_int_equal(who_has(0), D);
    assert_int_equal(who_has(1), D);
    assert_int_equal(who_has(2), C);
    assert_ptr_equal(local_waiter_blocker(&people[D].claim), &people[C].claim);
    leave(C);
    assert_int_equal(people[D].told, 1);
}

TEST(test_who_gives_up_hands_on_what_it_had)
{
    assert_true(want(A, 4));
    assert_false(want(B, 7)); /* has two, waits for the third */
    assert_false(want(C, 1));
    assert_false(want(D, 2));
    leave(B);
    assert_string_equal(order, "CD");
    assert_int_equal(who_has(2), A);
}

TEST(test_hand_overs_in_a_row_are_counted)
{
    assert_true(want(A, 1));
    assert_int_equal(local_waiter_handed(&people[A].claim), 0);
    assert_false(want(B, 3));
    leave(A);
    assert_int_equal(local_waiter_handed(&people[B].claim), 1);
    assert_false(want(C, 3));
    leave(B);
    assert_int_equal(local_waiter_handed(&people[C].claim), 2); /* of the second key it is the first */
    assert_false(want(D, 2));
    leave(C);
    assert_int_equal(local_waiter_handed(&people[D].claim), 2);
    leave(D);
    assert_true(want(A, 3)); /* it was free between */
    assert_int_equal(local_waiter_handed(&people[A].claim), 0);
}

/* --- callbacks that do something ---------------------------------------------------------------------------------- */

static void leave_at_once(struct local_waiter *claim)
{
    told(claim);
    leave((unsigned)(list_owner(claim, struct person, claim) - people));
}

static void take_away_from_the_next(struct local_waiter *claim)
{
    told(claim);
    leave(D); /* which was to be told as well */
    assert_true(want(E, 2));
}

TEST(test_whoever_is_told_may_leave_and_make_others_leave)
{
    assert_true(want(A, 7));
    assert_false(want(B, 1));
    assert_false(want(C, 1));
    assert_false(want(D, 2));
    people[B].claim.ready = leave_at_once;
    people[C].claim.ready = take_away_from_the_next;
    leave(A);
    assert_string_equal(order, "BC");
    assert_int_equal(people[D].told, 0);
    assert_int_equal(who_has(0), C);
    assert_int_equal(who_has(1), E);
}

/* --- many --------------------------------------------------------------------------------------------------------- */

enum { MANY = 5000 };

TEST(test_thousands_of_keys_and_waiters)
{
    static struct local_waiter owners[MANY], crowd[MANY];
    static struct local_key keys[MANY];
    static char texts[MANY][8];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%u", i);
        keys[i] = (struct local_key){texts[i], strlen(texts[i])};
        local_waiter_init(&owners[i], NULL);
        assert_true(local_waiters_want(waiters, &owners[i], &keys[i], 1));
    }
    for (unsigned i = 0; i < MANY; i++) {
        local_waiter_init(&crowd[i], NULL);
        assert_false(local_waiters_want(waiters, &crowd[i], &keys[7], 1));
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(local_waiters_owner(waiters, keys[i]), &owners[i]);
        if (i != 7)
            local_waiters_leave(waiters, &owners[i]);
    }
    for (unsigned i = MANY; i-- > 0;) /* from the back: nobody is ever told */
        local_waiters_leave(waiters, &crowd[i]);
    local_waiters_leave(waiters, &owners[7]);
    assert_null(local_waiters_owner(waiters, keys[7]));
}

/* --- a naive model ------------------------------------------------------------------------------------------------ */

/* For each key the line of all who want it now, the owner first; for each claim how many of its keys it stands for. */
static struct {
    unsigned lines[KEYS][CLAIMS], length[KEYS];
    unsigned wants[CLAIMS];   /* mask; 0 = has left */
    unsigned entered[CLAIMS]; /* mask of the lines that it stands in */
    bool is_complete[CLAIMS];
} model;

static bool model_is_first(unsigned who, unsigned key)
{
    return model.length[key] > 0 && model.lines[key][0] == who;
}

/* Enters the lines of its keys in order, up to the first that somebody else has. */
static void model_go_on(unsigned who)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (!(model.wants[who] >> key & 1u))
            continue;
        if (!(model.entered[who] >> key & 1u)) {
            model.lines[key][model.length[key]++] = who;
            model.entered[who] |= 1u << key;
        }
        if (!model_is_first(who, key))
            return;
    }
    model.is_complete[who] = true;
}

static void model_want(unsigned who, unsigned mask)
{
    model.wants[who] = mask;
    model_go_on(who);
}

static void model_leave(unsigned who)
{
    unsigned entered = model.entered[who];
    model.wants[who] = model.entered[who] = 0;
    model.is_complete[who] = false;
    for (unsigned key = 0; key < KEYS; key++) {
        unsigned place = 0;
        if (!(entered >> key & 1u))
            continue;
        while (model.lines[key][place] != who)
            place++;
        model.length[key]--;
        memmove(&model.lines[key][place], &model.lines[key][place + 1],
                (model.length[key] - place) * sizeof model.lines[key][0]);
        if (place == 0 && model.length[key] > 0)
            model_go_on(model.lines[key][0]);
    }
}

static void assert_like_model(void)
{
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(who_has(key), model.length[key] > 0 ? (int)model.lines[key][0] : -1);
    for (unsigned who = 0; who < CLAIMS; who++) {
        assert_int_equal(has_all(&people[who].claim), model.is_complete[who]);
        assert_int_equal(local_waiter_blocker(&people[who].claim) != NULL,
                         model.wants[who] != 0 && !model.is_complete[who]);
    }
}

TEST(test_random_claims_behave_like_the_model)
{
    unsigned waits = 0;
    for (unsigned seed = 0; seed < 500; seed++) {
        struct chance chance = {seed};
        memset(&model, 0, sizeof model);
        for (unsigned step = 0; step < 300; step++) {
            unsigned who = chance_pick(&chance, CLAIMS);
            bool was_complete[CLAIMS];
            unsigned told_before[CLAIMS];
            memcpy(was_complete, model.is_complete, sizeof was_complete);
            for (unsigned i = 0; i < CLAIMS; i++)
                told_before[i] = people[i].told;
            if (model.wants[who] != 0) {
                leave(who);
                model_leave(who);
                for (unsigned i = 0; i < CLAIMS; i++) /* each that became complete by it was told, once */
                    assert_int_equal(people[i].told - told_before[i],
                                     i != who && model.is_complete[i] && !was_complete[i]);
            } else {
                unsigned mask = 1 + chance_pick(&chance, (1u << KEYS) - 1);
                model_want(who, mask);
                assert_int_equal(want(who, mask), model.is_complete[who]);
                waits += !model.is_complete[who];
            }
            assert_like_model();
        }
        for (unsigned who = 0; who < CLAIMS; who++)
            leave(who);
    }
    assert_true(waits > 10000);
}

/* --- every order of a few ----------------------------------------------------------------------------------------- */

enum { FEW = 4, FEW_KEYS = 3 };

/* Each of the few comes once and leaves once it has all; whatever the order, everybody gets all and nobody is left. */
static unsigned schedules;

struct few {
    unsigned masks[FEW];
    unsigned moves[2 * FEW], count;
};

static void few_replay(const struct few *few)
{
    bool came[FEW] = {false};
    for (unsigned i = 0; i < few->count; i++) {
        unsigned who = few->moves[i];
        if (came[who])
            leave(who);
        else
            (void)want(who, few->masks[who]);
        came[who] = true;
    }
}

static void few_explore(struct few *few, unsigned came, unsigned gone)
{
    bool can_move = false;
    for (unsigned who = 0; who < FEW; who++) {
        bool comes = !(came >> who & 1u);
        for (unsigned i = 0; i < FEW; i++)
            leave(i);
        few_replay(few); /* what was explored before has changed it */
        if (!comes && ((gone >> who & 1u) || !has_all(&people[who].claim)))
            continue;
        can_move = true;
        few->moves[few->count++] = who;
        few_explore(few, came | 1u << who, comes ? gone : gone | 1u << who);
        few->count--;
    }
    if (!can_move) {
        assert_int_equal(gone, (1u << FEW) - 1);
        schedules++;
    }
}

TEST(test_no_order_of_four_claims_ends_in_a_deadlock)
{
    enum { SETS = (1 << FEW_KEYS) - 1 };
    schedules = 0;
    for (unsigned number = 0; number < SETS * SETS * SETS; number++) {
        struct few few = {.masks = {1 + number % SETS, 1 + number / SETS % SETS, 1 + number / SETS / SETS, 7}};
        few_explore(&few, 0, 0);
    }
    assert_true(schedules > 10000);
}

RUN_TESTS_BETWEEN(set_up, tear_down)
