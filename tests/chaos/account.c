#include "tests/chaos/account.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "tests/support/test.h"

enum { COMPLAINTS_MAX = 20 };

/* What one process had to do with one task. */
struct share {
    struct share *next;
    unsigned process, begins, recoveries;
};

struct entry {
    struct share *shares;
    enum account_fate fate;
    unsigned ends, retries, dead;
    bool is_poisoned;
};

struct account {
    unsigned first, count, complaints;
    struct entry *entries;
    struct account_sums sums;
};

struct account *account_create(unsigned first, unsigned count)
{
    struct account *account = memory_new(struct account);
    account->first = first;
    account->count = count;
    account->entries = memory_zeroed(count, sizeof account->entries[0]);
    return account;
}

void account_free(struct account *account)
{
    for (unsigned i = 0; i < account->count; i++)
        for (struct share *share = account->entries[i].shares, *next; share != NULL; share = next) {
            next = share->next;
            free(share);
        }
    free(account->entries);
    free(account);
}

void account_expect(struct account *account, unsigned number, enum account_fate fate)
{
    account->entries[number - account->first].fate = fate;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* "k17", and what stands before the number of a process: "host3:...". */
static struct entry *entry_of(struct account *account, const char *jid)
{
    char *rest = NULL;
    unsigned long number = jid[0] == 'k' ? strtoul(jid + 1, &rest, 10) : 0;
    bool is_ours = rest != NULL && rest != jid + 1 && number - account->first < account->count;
    return is_ours ? &account->entries[number - account->first] : NULL;
}

static struct share *share_of(struct entry *entry, const char *process)
{
    unsigned number = (unsigned)strtoul(process + strlen("host"), NULL, 10);
    for (struct share *share = entry->shares; share != NULL; share = share->next)
        if (share->process == number)
            return share;
    struct share *share = memory_new(struct share);
    *share = (struct share){.next = entry->shares, .process = number};
    entry->shares = share;
    return share;
}

static void journal_read(struct account *account, struct fleet *fleet)
{
    char *journal = fleet_journal(fleet), *rest = journal, *line, what[16], jid[32], process[32];
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (sscanf(line, "%15s %31s %31s", what, jid, process) != 3)
            continue;
        struct entry *entry = entry_of(account, jid);
        if (entry == NULL)
            fail_msg("the ledger has a jid that was not pushed: %s", line);
        bool begins = strcmp(what, "begin") == 0;
        share_of(entry, process)->begins += begins;
        entry->ends += !begins && strcmp(what, "fail") != 0;
        account->sums.runs += begins;
    }
    free(journal);
}

static struct entry *entry_in(struct account *account, const char *payload)
{
    const char *jid = strstr(payload, "\"jid\":\"");
    return jid != NULL ? entry_of(account, jid + strlen("\"jid\":\"")) : NULL;
}

/* "recovered from 3 processes that died with it, the last one host3:...". */
static void dead_read(struct account *account, struct fleet *fleet)
{
    char *all = fleet_ask(fleet, "ZRANGE dead 0 -1"), *rest = all, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        struct entry *entry = entry_in(account, line);
        const char *poison = strstr(line, "the last one host");
        if (entry == NULL && line[0] != '\0')
            fail_msg("in dead, but was not pushed: %s", line);
        if (entry == NULL)
            continue;
        entry->dead++;
        entry->is_poisoned = poison != NULL;
    }
    free(all);
}

/* --- the append-only file ----------------------------------------------------------------------------------------- */

enum { WORDS_MAX = 6, WORD_KEPT = 400 };

/* A command of the file: its first words, cut off after so many bytes. */
struct command {
    unsigned count;
    char words[WORDS_MAX][WORD_KEPT + 1];
};

static const char *number_read(const char *at, const char *end, char mark, size_t *number)
{
    char *rest = NULL;
    if (at >= end || *at != mark)
        return NULL;
    *number = strtoul(at + 1, &rest, 10);
    return rest + 2 <= end ? rest + 2 : NULL;
}

static const char *command_read(const char *at, const char *end, struct command *command)
{
    size_t words = 0, length = 0;
    command->count = 0;
    at = number_read(at, end, '*', &words);
    for (size_t i = 0; at != NULL && i < words; i++) {
        at = number_read(at, end, '$', &length);
        if (at == NULL || length + 2 > (size_t)(end - at))
            return NULL;
        size_t kept = length < WORD_KEPT ? length : WORD_KEPT;
        if (i < WORDS_MAX) {
            memcpy(command->words[i], at, kept);
            command->words[i][kept] = '\0';
            command->count = (unsigned)i + 1;
        }
        at += length + 2;
    }
    return at;
}

static void command_count(struct account *account, const struct command *command)
{
    static const char recovered[] = "hf:2:recovered:";
    struct entry *entry = NULL;
    if (command->count == 4 && strcmp(command->words[0], "HSET") == 0 &&
        strncmp(command->words[1], recovered, sizeof recovered - 1) == 0) {
        entry = entry_of(account, command->words[1] + sizeof recovered - 1);
        if (entry != NULL)
            share_of(entry, command->words[2])->recoveries++;
        account->sums.recoveries += entry != NULL;
    }
    if (command->count == 5 && strcmp(command->words[0], "ZADD") == 0 && strcmp(command->words[1], "retry") == 0) {
        entry = entry_in(account, command->words[4]); /* ZADD retry NX TIME TASK */
        if (entry != NULL)
            entry->retries++;
        account->sums.retries += entry != NULL;
    }
}

/* The words of a script's commands are as the script wrote them: upper case here. */
static void history_read(struct account *account, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    assert_true(file >= 0 && fstat(file, &status) == 0);
    const char *bytes = mmap(NULL, (size_t)status.st_size + 1, PROT_READ, MAP_PRIVATE, file, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    const char *end = bytes + status.st_size;
    struct command command;
    for (const char *at = bytes; at != NULL && at < end;)
        if ((at = command_read(at, end, &command)) != NULL)
            command_count(account, &command);
    munmap((void *)bytes, (size_t)status.st_size + 1);
    close(file);
}

static void histories_read(struct account *account, struct fleet *fleet)
{
    char *reply = fleet_ask(fleet, "CONFIG GET dir"), pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/{appendonlydir/*.incr.aof,appendonly.aof}", strchr(reply, '\n') + 1);
    free(reply);
    assert_int_equal(glob(pattern, GLOB_BRACE, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        history_read(account, found.gl_pathv[i]);
    globfree(&found);
}

void account_hasten(struct fleet *fleet)
{
    free(fleet_ask(fleet, "EVAL \"for _, entry in ipairs(redis.call('ZRANGEBYSCORE', 'retry', 1000000000, '+inf')) do "
                          "redis.call('ZINCRBY', 'retry', -1000000000, entry) end return 1\" 0"));
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static void complain(struct account *account, unsigned place, const char *what, FILE *out)
{
    const struct entry *entry = &account->entries[place];
    if (account->complaints++ >= COMPLAINTS_MAX)
        return;
    fprintf(out, "k%u: %s; ends=%u retries=%u dead=%u;", account->first + place, what, entry->ends, entry->retries,
            entry->dead);
    for (const struct share *share = entry->shares; share != NULL; share = share->next)
        fprintf(out, " host%u: %u runs, %u times recovered from it;", share->process, share->begins, share->recoveries);
    fprintf(out, "\n");
}

static void entry_judge(struct account *account, unsigned place, FILE *out)
{
    const struct entry *entry = &account->entries[place];
    struct account_sums *sums = &account->sums;
    unsigned runs = 0, unexplained = 0;
    for (const struct share *share = entry->shares; share != NULL; share = share->next) {
        runs += share->begins;
        unexplained += share->begins > share->recoveries ? share->begins - share->recoveries : 0;
    }
    bool has_ended = entry->ends > 0 || entry->dead > 0, is_once = entry->fate == ACCOUNT_ONCE;
    bool is_lost = (!has_ended && !is_once) || (entry->fate == ACCOUNT_DIES && entry->dead == 0);
    bool is_doubled = unexplained > 1 + entry->retries || (is_once && runs > 1) || entry->dead > 1;
    sums->tasks++;
    sums->ended += has_ended && entry->dead == 0;
    sums->dead += entry->dead;
    sums->poisoned += entry->is_poisoned;
    sums->once_lost += is_once && !has_ended;
    sums->rerun += runs > 1;
    sums->lost += is_lost;
    sums->doubled += is_doubled;
    if (is_lost)
        complain(account, place, "lost", out);
    if (is_doubled)
        complain(account, place, "ran again without a record", out);
}

struct account_sums account_settle(struct account *account, struct fleet *fleet, FILE *out)
{
    journal_read(account, fleet);
    dead_read(account, fleet);
    histories_read(account, fleet);
    for (unsigned i = 0; i < account->count; i++)
        entry_judge(account, i, out);
    return account->sums;
}

bool account_is_settled(const struct account_sums *sums)
{
    return sums->lost == 0 && sums->doubled == 0;
}
