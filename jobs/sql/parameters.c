/* Numbers stay what they are: a whole one is bound as such or not at all, never rounded. */
#include "jobs/sql/parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(char *reason, size_t reason_size, const char *why)
{
    snprintf(reason, reason_size, "%s", why);
    return 0;
}

static int is_whole(struct argument number)
{
    return memchr(number.text, '.', number.length) == NULL && memchr(number.text, 'e', number.length) == NULL &&
           memchr(number.text, 'E', number.length) == NULL;
}

static int number_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    int64_t whole;
    double number;
    if (is_whole(value))
        return argument_whole(value, &whole) && sqlite3_bind_int64(statement, index, whole) == SQLITE_OK;
    return argument_number(value, &number) && sqlite3_bind_double(statement, index, number) == SQLITE_OK;
}

static int text_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    char *text = argument_text(value);
    return text != NULL && sqlite3_bind_text(statement, index, text, -1, free) == SQLITE_OK;
}

static int value_bind(sqlite3_stmt *statement, int index, struct argument value)
{
    switch (argument_kind(value)) {
    case 'n':
        return sqlite3_bind_null(statement, index) == SQLITE_OK;
    case 't':
    case 'f':
        return sqlite3_bind_int(statement, index, argument_kind(value) == 't') == SQLITE_OK;
    case '0':
        return number_bind(statement, index, value);
    case '"':
        return text_bind(statement, index, value);
    default:
        return sqlite3_bind_text64(statement, index, value.text, value.length, SQLITE_TRANSIENT, SQLITE_UTF8) ==
               SQLITE_OK;
    }
}

/* 0: the statement has none of that name. */
static int index_of(sqlite3_stmt *statement, struct argument key)
{
    char *name = argument_text(key), *whole = name != NULL ? malloc(strlen(name) + 2) : NULL;
    int index = 0;
    for (const char *mark = ":@$"; whole != NULL && index == 0 && *mark != '\0'; mark++) {
        whole[0] = *mark;
        memcpy(whole + 1, name, strlen(name) + 1);
        index = sqlite3_bind_parameter_index(statement, whole);
    }
    free(name);
    free(whole);
    return index;
}

static int listed_bind(sqlite3_stmt *statement, struct argument array, int count, char *reason, size_t reason_size)
{
    struct argument value;
    for (int i = 1; i <= count; i++) {
        if (!argument_element(array, (unsigned)(i - 1), &value))
            return refuse(reason, reason_size, "there are fewer values than the statement has parameters");
        if (!value_bind(statement, i, value))
            return refuse(reason, reason_size, "a value is beyond 64 bits, too long, or has a NUL in it");
    }
    return !argument_element(array, (unsigned)count, &value) ||
           refuse(reason, reason_size, "there are more values than the statement has parameters");
}

static int named_bind(sqlite3_stmt *statement, struct argument object, int count, char *reason, size_t reason_size)
{
    char is_bound[SQL_PARAMETERS_MAX + 1] = {0};
    struct argument key, value;
    for (size_t position = 0; argument_member(object, &position, &key, &value);) {
        int index = index_of(statement, key);
        if (index == 0)
            return refuse(reason, reason_size, "a value has a name that is no parameter of the statement");
        if (is_bound[index])
            return refuse(reason, reason_size, "a value is there twice");
        if (!value_bind(statement, index, value))
            return refuse(reason, reason_size, "a value is beyond 64 bits, too long, or has a NUL in it");
        is_bound[index] = 1;
    }
    for (int i = 1; i <= count; i++)
        if (!is_bound[i])
            return refuse(reason, reason_size, "a parameter of the statement has no value");
    return 1;
}

int sql_parameters_check(struct argument parameters, char *reason, size_t reason_size)
{
    char kind = argument_kind(parameters);
    return kind == '[' || kind == '{' || refuse(reason, reason_size, "the values are to be an array or an object");
}

int sql_parameters_bind(sqlite3_stmt *statement, struct argument parameters, char *reason, size_t reason_size)
{
    int count = sqlite3_bind_parameter_count(statement);
    if (count > SQL_PARAMETERS_MAX)
        return refuse(reason, reason_size, "the statement has more than 256 parameters");
    if (argument_kind(parameters) == '{')
        return named_bind(statement, parameters, count, reason, reason_size);
    return listed_bind(statement, parameters, count, reason, reason_size);
}
