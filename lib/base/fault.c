#include "base/fault.h"

#ifdef HOLDFAST_FAULTS

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = 256, EXIT_USAGE = 2 };

enum fault_act { FAULT_KILL, FAULT_STOP, FAULT_PAUSE };

static struct {
    const char *const *names;
    size_t count;
    bool is_set;
    char name[TEXT_MAX], key[TEXT_MAX];
    enum fault_side side;
    unsigned long left; /* times until it happens */
    enum fault_act act;
    unsigned long pause_ms;
} faults;

_Noreturn static void refuse(const char *text, const char *why)
{
    fprintf(stderr, "HOLDFAST_FAULT=%s: %s\n", text, why);
    _exit(EXIT_USAGE);
}

static bool name_exists(const char *name)
{
    for (size_t i = 0; i < faults.count; i++)
        if (strcmp(faults.names[i], name) == 0)
            return true;
    return false;
}

static bool act_read(const char *word)
{
    char *rest = NULL;
    if (strcmp(word, "kill") == 0)
        faults.act = FAULT_KILL;
    else if (strcmp(word, "stop") == 0)
        faults.act = FAULT_STOP;
    else if (strncmp(word, "pause=", 6) != 0)
        return false;
    else
        faults.act = FAULT_PAUSE;
    if (faults.act != FAULT_PAUSE)
        return true;
    faults.pause_ms = strtoul(word + 6, &rest, 10);
    return rest != word + 6 && *rest == '\0';
}

static bool side_read(const char *word)
{
    faults.side = strcmp(word, "before") == 0 ? FAULT_BEFORE : FAULT_AFTER;
    return faults.side == FAULT_BEFORE || strcmp(word, "after") == 0;
}

static void fault_read(const char *text)
{
    char copy[2 * TEXT_MAX], *rest = copy, *words[4] = {NULL};
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", text);
    while (count < 4 && (words[count] = strsep(&rest, ":")) != NULL)
        count++;
    if (count < 3 || rest != NULL)
        refuse(text, "expected NAME[@KEY]:before|after[:N]:kill|stop|pause=MS");
    char *key = words[0];
    snprintf(faults.name, sizeof faults.name, "%s", strsep(&key, "@"));
    snprintf(faults.key, sizeof faults.key, "%s", key != NULL ? key : "");
    faults.left = count == 4 ? strtoul(words[2], NULL, 10) : 1;
    if (!name_exists(faults.name))
        refuse(text, "there is no such name; HOLDFAST_FAULT=list prints them");
    if (!side_read(words[1]) || faults.left == 0 || !act_read(words[count - 1]))
        refuse(text, "expected NAME[@KEY]:before|after[:N]:kill|stop|pause=MS");
    faults.is_set = true;
}

void faults_read(const char *const *names, size_t count)
{
    const char *text = getenv("HOLDFAST_FAULT");
    faults.names = names;
    faults.count = count;
    if (text == NULL || text[0] == '\0')
        return;
    if (strcmp(text, "list") != 0) {
        fault_read(text);
        return;
    }
    for (size_t i = 0; i < count; i++)
        printf("%s\n", names[i]);
    exit(EXIT_SUCCESS);
}

static bool is_meant(const char *name, const char *key, size_t key_length, enum fault_side side)
{
    if (!faults.is_set || faults.left == 0 || side != faults.side || strcmp(name, faults.name) != 0)
        return false;
    bool same_key = key != NULL && strlen(faults.key) == key_length && memcmp(key, faults.key, key_length) == 0;
    return faults.key[0] == '\0' ? key == NULL : same_key;
}

void fault_point(const char *name, const char *key, size_t key_length, enum fault_side side)
{
    if (faults.count > 0 && !name_exists(name))
        refuse(name, "the list lacks the name of this request");
    if (!is_meant(name, key, key_length, side) || --faults.left > 0)
        return;
    if (faults.act == FAULT_PAUSE) {
        struct timespec time = {.tv_sec = (time_t)(faults.pause_ms / 1000),
                                .tv_nsec = (long)(faults.pause_ms % 1000) * 1000000};
        nanosleep(&time, NULL);
    } else {
        kill(getpid(), faults.act == FAULT_KILL ? SIGKILL : SIGSTOP);
    }
}

#endif
