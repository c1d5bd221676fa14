/* Runs the holdfast program of the build tree and keeps what it prints. */
#ifndef SUPPORT_PROGRAM_RUN_H
#define SUPPORT_PROGRAM_RUN_H

#include <sys/types.h>

struct program_result {
    int exit_code; /* -1: ended by a signal, */
    int signal;    /* this one; else 0. SIGALRM: it hung */
    char *out, *error;
};

/* `line` holds the arguments, separated by single spaces. Ends a program that hangs after two minutes. */
struct program_result program_run(const char *line);
void program_result_free(struct program_result *result);

/* The same with arguments that hold anything (a list that ends with NULL) and an open file as standard input, which is
 * closed here (-1: nothing). */
struct program_result program_run_arguments(const char *const *arguments, int input);

/* And in two steps, for what happens meanwhile. */
struct program {
    pid_t pid;
    int out, error;
};
struct program program_start(const char *const *arguments, int input);
/* With another file than one in memory as standard output: open for reading and writing, closed by program_wait. */
struct program program_start_to(const char *const *arguments, int input, int out);
struct program_result program_wait(struct program *program);
/* What it has printed to standard error so far. The caller frees it. */
char *program_error_text(const struct program *program);

#endif
