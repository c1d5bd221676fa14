/* The start of a program that holds many tests. Each of them is a cmocka group with a main() of its own, which the
 * Makefile calls main_of_ and its name. A process runs one group: the one by whose name the program was called
 * (BUILD/tests/unit/test_heap is a link to BUILD/tests/unit_tests), or that its argument names. */
#include <stdio.h>
#include <string.h>

#include "worker/plugin/plugin_vetting.h"

#define GROUP(name) int main_of_##name(void);
#include TEST_GROUPS
#undef GROUP

static const struct group {
    const char *name;
    int (*run)(void);
} groups[] = {
#define GROUP(name) {#name, main_of_##name},
#include TEST_GROUPS
#undef GROUP
};

static const struct group *group_find(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], PLUGIN_VETTING_ARGUMENT) == 0)
        plugin_vetting_serve(argc - 2, argv + 2);
    const char *slash = strrchr(argv[0], '/');
    const struct group *group = group_find(slash != NULL ? slash + 1 : argv[0]);
    if (group == NULL && argc > 1)
        group = group_find(argv[1]);
    if (group != NULL)
        return group->run();
    fprintf(stderr, "%s: the argument is one of these tests, or the program is called by such a name:\n", argv[0]);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        fprintf(stderr, "  %s\n", groups[i].name);
    return 2;
}
