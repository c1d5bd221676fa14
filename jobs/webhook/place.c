/* libcurl's own parser of URLs does the reading: what is judged here is what it will connect to. */
#include "jobs/webhook/place.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int refuse(char *reason, size_t reason_size, const char *why)
{
    snprintf(reason, reason_size, "%s", why);
    return 0;
}

static char *part_copy(CURLU *parsed, CURLUPart part, unsigned flags)
{
    char *text = NULL, *copy = NULL;
    if (curl_url_get(parsed, part, &text, flags) == CURLUE_OK)
        copy = strdup(text);
    curl_free(text);
    return copy;
}

static int has_part(CURLU *parsed, CURLUPart part)
{
    char *text = part_copy(parsed, part, 0);
    free(text);
    return text != NULL;
}

static int parts_read(struct webhook_place *place, CURLU *parsed, const char *url, char *reason, size_t reason_size)
{
    if (parsed == NULL || curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK)
        return refuse(reason, reason_size, "the url is none");
    place->url = strdup(url);
    place->scheme = part_copy(parsed, CURLUPART_SCHEME, 0);
    place->host = part_copy(parsed, CURLUPART_HOST, 0);
    place->port = part_copy(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    if (place->url == NULL || place->scheme == NULL || place->host == NULL || place->port == NULL)
        return refuse(reason, reason_size, "the url has no host, or there is no memory for it");
    if (strcmp(place->scheme, "http") != 0 && strcmp(place->scheme, "https") != 0)
        return refuse(reason, reason_size, "the url is neither http nor https");
    if (has_part(parsed, CURLUPART_USER) || has_part(parsed, CURLUPART_PASSWORD))
        return refuse(reason, reason_size, "the url has a user or a password in it: write a header instead");
    return 1;
}

int webhook_place_read(struct webhook_place *place, const char *url, char *reason, size_t reason_size)
{
    *place = (struct webhook_place){0};
    if (strlen(url) > WEBHOOK_URL_MAX)
        return refuse(reason, reason_size, "the url is longer than 8192 bytes");
    for (const char *at = url; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return refuse(reason, reason_size, "the url has a blank or a control character in it");
    if (strstr(url, "://") == NULL)
        return refuse(reason, reason_size, "the url does not begin with http:// or https://");
    CURLU *parsed = curl_url();
    int is_good = parts_read(place, parsed, url, reason, reason_size);
    curl_url_cleanup(parsed);
    return is_good;
}

void webhook_place_fini(struct webhook_place *place)
{
    free(place->url);
    free(place->scheme);
    free(place->host);
    free(place->port);
    *place = (struct webhook_place){0};
}

int webhook_place_is_same(const struct webhook_place *a, const struct webhook_place *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

int webhook_place_is_among(const struct webhook_place *place, const char *list)
{
    size_t length = strlen(place->host);
    while (*list != '\0') {
        size_t name = strcspn(list, " ,");
        if (name == length && strncasecmp(list, place->host, length) == 0)
            return 1;
        list += name + strspn(list + name, " ,");
    }
    return 0;
}
