#include "tests/support/authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/support/private_directory.h"
#include "tests/support/test.h"

enum { PATHS_MAX = 8, PATH_SIZE = PRIVATE_DIRECTORY_MAX + 32, DAY_S = 86400 };

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
    char directory[PRIVATE_DIRECTORY_MAX];
    char paths[PATHS_MAX][PATH_SIZE];
};

const char *authority_path(struct authority *authority, const char *file, const char *suffix)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s.%s", authority->directory, file, suffix);
    for (unsigned i = 0; i < PATHS_MAX; i++) {
        if (authority->paths[i][0] == '\0')
            memcpy(authority->paths[i], path, sizeof path);
        if (strcmp(authority->paths[i], path) == 0)
            return authority->paths[i];
    }
    fail_msg("more than %d files", PATHS_MAX);
    return NULL;
}

static void extension_add(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);
    assert_non_null(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

static X509 *certificate_make(EVP_PKEY *key, const char *common_name, long ends_in_s)
{
    static long serial = 0;
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -2L * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate), ends_in_s);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)common_name, -1, -1, 0);
    return certificate;
}

/* Written beside the place and moved there: who reads the file meanwhile finds the old or the new one. */
static FILE *file_begin(char beside[PATH_SIZE + 8], const char *path)
{
    snprintf(beside, PATH_SIZE + 8, "%s.new", path);
    FILE *file = fopen(beside, "we");
    if (file != NULL)
        fchmod(fileno(file), 0600);
    assert_non_null(file);
    return file;
}

static void file_end(FILE *file, const char *beside, const char *path)
{
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(beside, path), 0);
}

static void certificate_write(X509 *certificate, const char *path)
{
    char beside[PATH_SIZE + 8];
    FILE *file = file_begin(beside, path);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    file_end(file, beside, path);
}

struct authority *authority_create(void)
{
    struct authority *authority = memory_new(struct authority);
    private_directory_create(authority->directory);
    authority->key = EVP_EC_gen("P-256");
    authority->certificate = certificate_make(authority->key, "authority", DAY_S);
    X509_set_issuer_name(authority->certificate, X509_get_subject_name(authority->certificate));
    extension_add(authority->certificate, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(authority->certificate, authority->key, EVP_sha256()) > 0);
    certificate_write(authority->certificate, authority_path(authority, "authority", "pem"));
    return authority;
}

void authority_destroy(struct authority *authority)
{
    if (authority == NULL)
        return;
    for (unsigned i = 0; i < PATHS_MAX && authority->paths[i][0] != '\0'; i++)
        unlink(authority->paths[i]);
    rmdir(authority->directory);
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

const char *authority_file(const struct authority *authority)
{
    return authority->paths[0];
}

void authority_issue(struct authority *authority, const char *file, const char *name, long ends_in_s)
{
    char names[128] = "IP:127.0.0.1,DNS:localhost", beside[PATH_SIZE + 8];
    if (name != NULL)
        snprintf(names, sizeof names, "DNS:%s", name);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = certificate_make(key, file, ends_in_s);
    X509_set_issuer_name(certificate, X509_get_subject_name(authority->certificate));
    extension_add(certificate, NID_subject_alt_name, names);
    assert_true(X509_sign(certificate, authority->key, EVP_sha256()) > 0);

    const char *path = authority_path(authority, file, "key");
    FILE *out = file_begin(beside, path);
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    file_end(out, beside, path);
    certificate_write(certificate, authority_path(authority, file, "pem"));
    X509_free(certificate);
    EVP_PKEY_free(key);
}
