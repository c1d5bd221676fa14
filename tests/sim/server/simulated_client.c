#include "tests/sim/server/simulated_client.h"

static void hear(void *context, const char *bytes, size_t length)
{
    struct simulated_client *client = context;
    buffer_append(&client->said, bytes, length);
    (void)buffer_text(&client->said); /* a NUL behind it, for whoever reads numbers there */
}

static void hung_up(void *context)
{
    struct simulated_client *client = context;
    client->connection = NULL;
}

void simulated_client_connect(struct simulated_client *client, struct server *server)
{
    *client = (struct simulated_client){.connection = NULL};
    client->connection = server_accept(server, client, hear, hung_up);
}

void simulated_client_end(struct simulated_client *client)
{
    if (client->connection != NULL)
        server_hang_up(client->connection);
    buffer_fini(&client->said);
}

void simulated_client_say(struct simulated_client *client, const char *line, int64_t now_us)
{
    struct buffer bytes = {0};
    buffer_format(&bytes, "%s\r\n", line);
    server_receive(client->connection, bytes.bytes, bytes.length, now_us);
    buffer_fini(&bytes);
}

const char *simulated_client_heard(struct simulated_client *client)
{
    struct buffer told = {0};
    for (size_t i = 0; i < client->said.length; i++)
        if (client->said.bytes[i] != '\r')
            buffer_append(&told, client->said.bytes[i] == '\n' ? "|" : &client->said.bytes[i], 1);
    buffer_fini(&client->said);
    /* What was told is kept behind an empty `said`. */
    client->said = told;
    const char *text = buffer_text(&client->said);
    client->said.length = 0;
    return text;
}
