/*
 * failure.h - how a command ends, and the one message that says why
 *
 * Everything below a command returns an exit status and, unless that is CLI_OK, has written one
 * line into the failure it was given; main() prints it.  The numbers follow sysexits.h where it
 * has one, so that scripts can tell a bad file from a full disk.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FAILURE_H
#define GRAM_CLI_FAILURE_H
#include <gram/gram.h>

enum exit_status {
    CLI_OK = 0,
    CLI_FAILURE = 1,      /* a check failed, or a factorisation broke down */
    CLI_USAGE = 2,        /* unknown command or option, missing or malformed argument */
    CLI_BAD_DATA = 65,    /* an input file or a shape that cannot be used */
    CLI_NO_INPUT = 66,    /* an input file that cannot be opened */
    CLI_UNSUPPORTED = 69, /* valid, but not offered by this build or device */
    CLI_NO_MEMORY = 71,
    CLI_NO_OUTPUT = 73,    /* an output file that cannot be created */
    CLI_IO = 74,           /* reading or writing failed half-way, as on a full disk */
    CLI_INTERRUPTED = 130, /* Ctrl-C */
    CLI_TERMINATED = 143,  /* SIGTERM */
};

struct failure {
    char text[1024];
};

__attribute__((cold, format(printf, 2, 3))) void failure_write(struct failure *why,
                                                               const char *format, ...);

/*
 * Records the message and is the status, so that callers write: return fail(...).  A macro, so
 * that static analysis sees that the status is not CLI_OK.
 */
#define fail(why, status, ...) (failure_write((why), __VA_ARGS__), (status))

static inline enum exit_status fail_memory(struct failure *why, const char *what)
{
    return fail(why, CLI_NO_MEMORY, "out of memory for %s", what);
}

/* The failure of a library call: its message, and the exit status that its status means. */
__attribute__((cold)) enum exit_status fail_gram(struct failure *why, gram_status status,
                                                 const gram_context *g);

/* Leaves the enclosing function with the exit status of a call that failed. */
#define TRY(call)                      \
  do {                                 \
    enum exit_status status_ = (call); \
    if (status_ != CLI_OK)             \
      return status_;                  \
  } while (0)

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))
#endif
