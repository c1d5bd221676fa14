#include "tests/support/fenced_witness.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/memory.h"

enum { CLIENTS_MAX = 256, MESSAGE_MAX = 512, WORD_MAX = 63, WORDS_MAX = 6 };

struct fenced_witness {
    pthread_t thread;
    pthread_mutex_t mutex; /* of the register */
    struct fenced_register *all;
    struct pollfd files[2 + CLIENTS_MAX]; /* who ends it, the listener, the clients */
    nfds_t count;
    char path[108];
};

_Noreturn static void give_up(const char *what)
{
    perror(what);
    abort();
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

struct request {
    char words[WORDS_MAX][WORD_MAX + 1];
    int count;
};

static uint64_t number_of(const char *word)
{
    return strtoull(word, NULL, 10);
}

static void read_answer(struct fenced_register *all, const struct request *request, char answer[MESSAGE_MAX])
{
    const char *resource = request->words[1];
    uint64_t fenced = 0, plain = plain_register_read(all, resource);
    if (fenced_register_read(all, resource, number_of(request->words[2]), &fenced) == FENCED_DONE)
        snprintf(answer, MESSAGE_MAX, "%" PRIu64 " %" PRIu64, fenced, plain);
    else
        snprintf(answer, MESSAGE_MAX, "stale %" PRIu64, plain);
}

static void write_answer(struct fenced_register *all, const struct request *request, char answer[MESSAGE_MAX])
{
    static const char *const names[] = {
        [FENCED_DONE] = "done", [FENCED_STALE] = "stale", [FENCED_REPEATED] = "repeated"};
    const char *resource = request->words[1], *jid = request->words[3];
    uint64_t token = number_of(request->words[2]);
    enum fenced_answer fenced = FENCED_DONE;
    if (strcmp(request->words[4], "-") != 0)
        fenced = fenced_register_write(all, resource, token, jid, number_of(request->words[4]));
    plain_register_write(all, resource, token, jid, number_of(request->words[5]));
    snprintf(answer, MESSAGE_MAX, "%s", names[fenced]);
}

static void held_answer(struct fenced_register *all, const struct request *request, char answer[MESSAGE_MAX])
{
    fenced_register_held(all, request->words[1], number_of(request->words[2]), request->words[3],
                         strtoll(request->words[4], NULL, 10), strtoll(request->words[5], NULL, 10));
    snprintf(answer, MESSAGE_MAX, "done");
}

static void request_answer(struct fenced_register *all, const char *message, char answer[MESSAGE_MAX])
{
    struct request request;
    request.count = sscanf(message, "%63s %63s %63s %63s %63s %63s", request.words[0], request.words[1],
                           request.words[2], request.words[3], request.words[4], request.words[5]);
    if (request.count == 3 && strcmp(request.words[0], "read") == 0)
        read_answer(all, &request, answer);
    else if (request.count == 6 && strcmp(request.words[0], "write") == 0)
        write_answer(all, &request, answer);
    else if (request.count == 6 && strcmp(request.words[0], "held") == 0)
        held_answer(all, &request, answer);
    else
        snprintf(answer, MESSAGE_MAX, "what?");
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* False when the client has gone. */
static bool client_serve(struct fenced_witness *witness, int client)
{
    char message[MESSAGE_MAX], answer[MESSAGE_MAX];
    ssize_t length = recv(client, message, sizeof message - 1, 0);
    if (length <= 0)
        return false;
    message[length] = '\0';
    pthread_mutex_lock(&witness->mutex);
    request_answer(witness->all, message, answer);
    pthread_mutex_unlock(&witness->mutex);
    send(client, answer, strlen(answer), MSG_NOSIGNAL); /* or it has died meanwhile */
    return true;
}

static void client_take(struct fenced_witness *witness)
{
    int client = accept4(witness->files[1].fd, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0 || witness->count == sizeof witness->files / sizeof witness->files[0])
        give_up("fenced_witness");
    witness->files[witness->count++] = (struct pollfd){.fd = client, .events = POLLIN};
}

static void *serve(void *context)
{
    struct fenced_witness *witness = context;
    while (poll(witness->files, witness->count, -1) >= 0 && witness->files[0].revents == 0) {
        for (nfds_t i = witness->count; i-- > 2;)
            if (witness->files[i].revents != 0 && !client_serve(witness, witness->files[i].fd)) {
                close(witness->files[i].fd);
                witness->files[i] = witness->files[--witness->count];
            }
        if (witness->files[1].revents != 0)
            client_take(witness);
    }
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct fenced_witness *fenced_witness_start(const char *path)
{
    struct fenced_witness *witness = memory_new(struct fenced_witness);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int end = eventfd(0, EFD_CLOEXEC), listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(witness->path, sizeof witness->path, "%s", path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (end < 0 || listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, CLIENTS_MAX) != 0)
        give_up(path);
    witness->all = fenced_register_create();
    witness->files[0] = (struct pollfd){.fd = end, .events = POLLIN};
    witness->files[1] = (struct pollfd){.fd = listener, .events = POLLIN};
    witness->count = 2;
    pthread_mutex_init(&witness->mutex, NULL);
    if (pthread_create(&witness->thread, NULL, serve, witness) != 0)
        give_up("pthread_create");
    return witness;
}

void fenced_witness_destroy(struct fenced_witness *witness)
{
    uint64_t one = 1;
    if (witness == NULL)
        return;
    if (write(witness->files[0].fd, &one, sizeof one) != sizeof one)
        give_up("eventfd");
    pthread_join(witness->thread, NULL);
    for (nfds_t i = 0; i < witness->count; i++)
        close(witness->files[i].fd);
    unlink(witness->path);
    pthread_mutex_destroy(&witness->mutex);
    fenced_register_destroy(witness->all);
    free(witness);
}

struct fenced_verdict fenced_witness_judge(struct fenced_witness *witness, FILE *out)
{
    pthread_mutex_lock(&witness->mutex);
    struct fenced_verdict verdict = fenced_register_judge(witness->all, out);
    pthread_mutex_unlock(&witness->mutex);
    return verdict;
}

void fenced_verdict_print(const struct fenced_verdict *verdict, const char *what, FILE *out)
{
    fprintf(out,
            "%s: %u runs on %u resources, %u without a token; %u overlaps, %u tokens out of order; fenced: %u added, "
            "%u refused, %u wrong; plain: %u stale writes taken, %u lost; %u repeated\n",
            what, verdict->holds, verdict->resources, verdict->unfenced, verdict->overlaps, verdict->disorder,
            verdict->applied, verdict->refused, verdict->miscounted, verdict->stale, verdict->lost, verdict->repeated);
}
