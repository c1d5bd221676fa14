/* The heap of deadlines gives the earliest whatever is done to it; the list keeps its order. */
#include "tests/support/test.h"

#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"

enum { ITEMS = 500 };

static struct instant at(int64_t ns)
{
    return (struct instant){ns};
}

TEST(an_empty_heap_has_no_first)
{
    struct heap heap = {.slots = NULL};
    struct heap_item item = {.position = 0};
    assert_null(heap_first(&heap));
    assert_false(heap_holds(&item));
    heap_remove(&heap, &item);
    heap_fini(&heap);
}

/* Compares the heap with the plain truth: which items are in, what is their smallest deadline, are all in order. */
static void check_first(const struct heap *heap, const struct heap_item *items)
{
    const struct heap_item *smallest = NULL;
    size_t held = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        if (!heap_holds(&items[i]))
            continue;
        held++;
        if (smallest == NULL || items[i].at.ns < smallest->at.ns)
            smallest = &items[i];
    }
    assert_int_equal(heap->count, held);
    for (size_t position = 1; position <= held; position++)
        assert_int_equal(heap->slots[position - 1].at.ns, heap->slots[position - 1].item->at.ns);
    for (size_t position = 2; position <= held; position++)
        assert_true(heap->slots[position / 2 - 1].at.ns <= heap->slots[position - 1].at.ns);
    if (smallest == NULL)
        assert_null(heap_first(heap));
    else
        assert_true(heap_first(heap)->at.ns == smallest->at.ns);
}

TEST(first_is_the_earliest_whatever_is_set_moved_and_removed)
{
    static struct heap_item items[ITEMS];
    struct heap heap = {.slots = NULL};
    for (int round = 0; round < 5000; round++) {
        struct heap_item *item = &items[random_between(0, ITEMS - 1)];
        if (random_between(0, 2) == 0) {
            heap_remove(&heap, item);
            assert_false(heap_holds(item));
        } else {
            heap_set(&heap, item, at(random_between(-50, 50)));
            assert_true(heap_holds(item));
        }
        check_first(&heap, items);
    }
    heap_fini(&heap);
}

TEST(items_leave_in_the_order_of_their_deadlines)
{
    static struct heap_item items[ITEMS];
    struct heap heap = {.slots = NULL};
    for (size_t i = 0; i < ITEMS; i++)
        heap_set(&heap, &items[i], at(random_between(INT64_MIN, INT64_MAX)));

    int64_t before = INT64_MIN;
    for (size_t i = 0; i < ITEMS; i++) {
        struct heap_item *first = heap_first(&heap);
        assert_true(first->at.ns >= before);
        before = first->at.ns;
        heap_remove(&heap, first);
    }
    assert_null(heap_first(&heap));
    heap_fini(&heap);
}

TEST(setting_twice_moves)
{
    struct heap heap = {.slots = NULL};
    struct heap_item a = {.position = 0}, b = {.position = 0};
    heap_set(&heap, &a, at(10));
    heap_set(&heap, &b, at(20));
    heap_set(&heap, &a, at(30));
    assert_int_equal(heap.count, 2);
    assert_ptr_equal(heap_first(&heap), &b);
    heap_set(&heap, &a, at(5));
    assert_ptr_equal(heap_first(&heap), &a);
    heap_fini(&heap);
    assert_false(heap_holds(&a));
}

static void an_item_of_another_heap_aborts(void)
{
    struct heap mine = {.slots = NULL}, other = {.slots = NULL};
    struct heap_item item = {.position = 0};
    heap_set(&other, &item, at(1));
    heap_set(&mine, &item, at(2));
}

TEST(an_item_cannot_be_in_two_heaps)
{
    assert_true(test_aborts(an_item_of_another_heap_aborts));
}

TEST(a_list_keeps_its_order)
{
    struct list list, links[3];
    list_init(&list);
    for (int i = 0; i < 3; i++)
        list_init(&links[i]);
    assert_true(list_is_empty(&list));
    assert_null(list_take_first(&list));

    list_append(&list, &links[1]);
    list_append(&list, &links[2]);
    list_prepend(&list, &links[0]);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(list_take_first(&list), &links[i]);
    assert_true(list_is_empty(&list));
}

TEST(removing_a_link_twice_is_harmless)
{
    struct list list, link, other;
    list_init(&list);
    list_init(&link);
    list_init(&other);
    list_append(&list, &link);
    list_append(&list, &other);
    list_remove(&link);
    list_remove(&link);
    assert_ptr_equal(list_take_first(&list), &other);
    assert_true(list_is_empty(&list));
}

RUN_TESTS
