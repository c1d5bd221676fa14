#include "worker/plugin/program_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool program_file_check(const char *program, const char *where, const char *key, struct findings *findings)
{
    struct stat facts;
    if (stat(program, &facts) != 0)
        findings_error(findings, "%s: %s: %s: %s", where, key, program, strerror(errno));
    else if (!S_ISREG(facts.st_mode))
        findings_error(findings, "%s: %s: %s is no regular file", where, key, program);
    else if (facts.st_uid != 0 && facts.st_uid != geteuid())
        findings_error(
            findings,
            "%s: %s: %s belongs to user %u; it runs with the worker's rights, so it has to belong to root or "
            "to user %u",
            where, key, program, (unsigned)facts.st_uid, (unsigned)geteuid());
    else if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        findings_error(findings,
                       "%s: %s: others may write %s (mode %03o), and it runs with the worker's rights; chmod go-w it",
                       where, key, program, (unsigned)facts.st_mode & 0777);
    else if (access(program, X_OK) != 0)
        findings_error(findings, "%s: %s: %s cannot be executed (mode %03o); chmod +x it", where, key, program,
                       (unsigned)facts.st_mode & 0777);
    else
        return true;
    return false;
}
