/* Runs the holdfast program of the build tree and keeps what it prints. */
#ifndef SUPPORT_PROGRAM_RUN_H
#define SUPPORT_PROGRAM_RUN_H

struct program_result {
    int exit_code; /* -1: ended by a signal */
    char *out, *error;
};

/* `line` holds the arguments, separated by single spaces. Ends the program after half a minute. */
struct program_result program_run(const char *line);
void program_result_free(struct program_result *result);

#endif
