/*
 * test_whole_file.c - an output of the library is there whole or not at all, whatever goes wrong
 *
 * fsync and rename are this file's, so that they can fail.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "core/model_file.h"
#include "scratch_folder.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NOBODY = 65534
};

static int fsync_fails, rename_fails; /* with this error; 0: not */

int fsync(int descriptor)
{
    int (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (!fsync_fails)
        return real(descriptor);
    errno = fsync_fails;
    return -1;
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);

    *(void **)&real = dlsym(RTLD_NEXT, "rename");
    if (!rename_fails)
        return real(from, to);
    errno = rename_fails;
    return -1;
}

/* Writes text to path as gram_machine_save does; error: what writing came to. */
static gram_status save(struct harness *h, const char *path, const char *text, int error)
{
    struct gram_whole_file f;
    gram_status status = gram_whole_file_open(h->g, path, &f);
    size_t size = strlen(text);

    if (status != GRAM_OK) {
        CHECK(h, f.descriptor == -1 && !f.path && !f.temporary, "something is left to close");
        return status;
    }
    CHECK(h, write(f.descriptor, text, size) == (ssize_t)size, "%s", strerror(errno));
    return gram_whole_file_close(h->g, path, &f, error);
}

static void check_holds(struct harness *h, const char *path, const char *expected)
{
    char text[SCRATCH_BYTES];

    CHECK(h, access(path, F_OK) == 0 && strcmp(scratch_get(path, text), expected) == 0,
          "%s holds \"%s\", expected \"%s\"", path, text, expected);
}

static mode_t mode_of(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 ? about.st_mode & 07777 : 0;
}

static void a_new_file_has_the_mode_that_umask_leaves(struct harness *h)
{
    char path[SCRATCH_BYTES];
    const mode_t before = umask(027);

    CHECK(h, save(h, scratch_path("new", path), "text", 0) == GRAM_OK, "%s", gram_message(h->g));
    (void)umask(before);
    check_holds(h, path, "text");
    CHECK(h, mode_of(path) == 0640, "mode %o", (unsigned)mode_of(path));
    CHECK(h, save(h, scratch_path("empty", path), "", 0) == GRAM_OK, "%s", gram_message(h->g));
    check_holds(h, path, "");
    CHECK(h, scratch_count() == 2, "%d files", scratch_count());
}

static void an_old_file_is_whole_until_the_new_one_is(struct harness *h)
{
    char path[SCRATCH_BYTES];
    struct gram_whole_file f;

    scratch_put(h, scratch_path("old", path), "something longer");
    CHECK(h, chmod(path, 0600) == 0, "%s", strerror(errno));
    if (!CHECK(h, gram_whole_file_open(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g)))
        return;
    CHECK(h, write(f.descriptor, "new", 3) == 3, "%s", strerror(errno));
    check_holds(h, path, "something longer");
    CHECK(h, gram_whole_file_close(h->g, path, &f, 0) == GRAM_OK, "%s", gram_message(h->g));
    check_holds(h, path, "new");
    CHECK(h, mode_of(path) == 0600, "mode %o", (unsigned)mode_of(path));
}

/* What replaces a private file is private from its first byte. */
static void what_replaces_a_private_file_is_private_at_once(struct harness *h)
{
    char path[SCRATCH_BYTES];
    struct gram_whole_file f;
    struct stat about;

    scratch_put(h, scratch_path("private", path), "old");
    CHECK(h, chmod(path, 0600) == 0, "%s", strerror(errno));
    if (!CHECK(h, gram_whole_file_open(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g)))
        return;
    CHECK(h, fstat(f.descriptor, &about) == 0 && (about.st_mode & 07777) == 0600, "mode %o",
          (unsigned)about.st_mode);
    CHECK(h, gram_whole_file_close(h->g, path, &f, ECANCELED) == GRAM_IO, "no error");
    check_holds(h, path, "old");
}

static void what_cannot_be_written_leaves_the_old_file_alone(struct harness *h)
{
    static const struct {
        int *fails, error, given;
        gram_status status;
        const char *message;
    } rows[] = {
        {         NULL,      0, ENOSPC,            GRAM_IO,   "No space left on device"},
        {         NULL,      0, ENOMEM, GRAM_OUT_OF_MEMORY,    "Cannot allocate memory"},
        { &fsync_fails,    EIO,      0,            GRAM_IO,        "Input/output error"},
        { &fsync_fails, EDQUOT,      0,            GRAM_IO,       "Disk quota exceeded"},
        {&rename_fails,  EXDEV,      0,            GRAM_IO, "Invalid cross-device link"},
        {&rename_fails, EACCES, ENOSPC,            GRAM_IO,   "No space left on device"},
    };
    char path[SCRATCH_BYTES], fresh[SCRATCH_BYTES];
    int files;

    scratch_put(h, scratch_path("stays", path), "old");
    scratch_path("never", fresh);
    files = scratch_count();
    for (int i = 0; i < LENGTH(rows); i++) {
        for (int exists = 0; exists < 2; exists++) {
            gram_status status;
            if (rows[i].fails)
                *rows[i].fails = rows[i].error;
            status = save(h, exists ? path : fresh, "new", rows[i].given);
            fsync_fails = rename_fails = 0;
            CHECK(h, status == rows[i].status, "row %d: %s", i, gram_status_name(status));
            CHECK(h, strstr(gram_message(h->g), rows[i].message), "row %d: %s", i,
                  gram_message(h->g));
            check_holds(h, path, "old");
            CHECK(h, access(fresh, F_OK) != 0, "row %d: a file that failed is there", i);
            CHECK(h, scratch_count() == files, "row %d: %d files", i, scratch_count() - files);
        }
    }
}

static void what_is_no_file_is_refused(struct harness *h)
{
    char path[SCRATCH_BYTES];
    struct gram_whole_file f;

    CHECK(h, mkdir(scratch_path("folder", path), 0700) == 0, "%s", strerror(errno));
    CHECK(h, gram_whole_file_open(h->g, path, &f) == GRAM_IO, "a folder");
    CHECK(h, strstr(gram_message(h->g), "it is not a regular file"), "%s", gram_message(h->g));
    CHECK(h, mkfifo(scratch_path("fifo", path), 0600) == 0, "%s", strerror(errno));
    alarm(60); /* without anybody who reads it is not waited for */
    CHECK(h, gram_whole_file_open(h->g, path, &f) == GRAM_IO, "a FIFO");
    (void)alarm(0);
    CHECK(h, gram_whole_file_open(h->g, "/dev/null", &f) == GRAM_IO, "a device");
    CHECK(h, save(h, "", "new", 0) == GRAM_IO, "no name");
    CHECK(h, gram_whole_file_open(h->g, scratch_path("none/file", path), &f) == GRAM_IO, "%s",
          path);
    CHECK(h, strstr(gram_message(h->g), strerror(ENOENT)), "%s", gram_message(h->g));
    scratch_put(h, scratch_path("plain", path), "old");
    CHECK(h, gram_whole_file_open(h->g, scratch_path("plain/file", path), &f) == GRAM_IO, "%s",
          path);
    CHECK(h, strstr(gram_message(h->g), strerror(ENOTDIR)), "%s", gram_message(h->g));
}

static void links_are_followed_and_one_to_nothing_is_refused(struct harness *h)
{
    char link[SCRATCH_BYTES], target[SCRATCH_BYTES];
    struct stat about;

    CHECK(h, symlink("target", scratch_path("link", link)) == 0, "%s", strerror(errno));
    CHECK(h, save(h, link, "new", 0) == GRAM_IO, "a link to nothing");
    CHECK(h, access(scratch_path("target", target), F_OK) != 0, "it was made");
    scratch_put(h, target, "old");
    CHECK(h, save(h, link, "new", 0) == GRAM_OK, "%s", gram_message(h->g));
    check_holds(h, target, "new");
    CHECK(h, lstat(link, &about) == 0 && S_ISLNK(about.st_mode), "the link is gone");
}

/* For the effective user, in a folder where he could replace it. */
static void a_file_that_may_not_be_written_is_not_replaced(struct harness *h)
{
    char open_folder[SCRATCH_BYTES], path[SCRATCH_BYTES];
    const bool root = geteuid() == 0;
    gram_status status;

    CHECK(h, !root || chmod(scratch_path("", path), 0755) == 0, "%s", strerror(errno));
    CHECK(h, mkdir(scratch_path("open", open_folder), 0700) == 0, "%s", strerror(errno));
    CHECK(h, chmod(open_folder, 0777) == 0, "%s", strerror(errno));
    scratch_put(h, scratch_path("open/kept", path), "old");
    CHECK(h, chmod(path, 0444) == 0, "%s", strerror(errno));
    CHECK(h, !root || seteuid(NOBODY) == 0, "%s", strerror(errno));
    status = save(h, path, "new", 0);
    CHECK(h, !root || seteuid(0) == 0, "%s", strerror(errno));
    CHECK(h, status == GRAM_IO && strstr(gram_message(h->g), strerror(EACCES)), "%s",
          gram_message(h->g));
    check_holds(h, path, "old");
}

/* Signals that interrupt do not: what is left after a process is killed is what was there. */
static void a_process_that_is_killed_leaves_the_old_file(struct harness *h)
{
    char path[SCRATCH_BYTES];
    struct gram_whole_file f;
    int status = 0, files;
    pid_t child;

    scratch_put(h, scratch_path("survives", path), "old");
    files = scratch_count();
    child = fork();
    if (child == 0) {
        if (gram_whole_file_open(h->g, path, &f) == GRAM_OK && write(f.descriptor, "half", 4) == 4)
            (void)raise(SIGKILL);
        _exit(1);
    }
    CHECK(h, child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status), "status %d",
          status);
    check_holds(h, path, "old");
#ifdef O_TMPFILE /* elsewhere, and on file systems without it, the temporary file has a name */
    child = open(scratch_path("", path), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (child >= 0) {
        CHECK(h, scratch_count() == files, "%d files are left", scratch_count() - files);
        (void)close(child);
    }
#endif
}

static void names_that_are_taken_are_passed_over(struct harness *h)
{
    char path[SCRATCH_BYTES], taken[SCRATCH_BYTES], name[64];

    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, ".gram-%ld-%d.tmp", (long)getpid(), i);
        scratch_put(h, scratch_path(name, taken), "somebody's");
    }
    CHECK(h, save(h, scratch_path("beside", path), "new", 0) == GRAM_OK, "%s", gram_message(h->g));
    check_holds(h, path, "new");
    check_holds(h, taken, "somebody's");
}

static void a_file_of_the_current_folder_needs_no_slash(struct harness *h)
{
    char path[SCRATCH_BYTES], before[4096];

    CHECK(h, getcwd(before, sizeof before) && chdir(scratch_path("", path)) == 0, "%s",
          strerror(errno));
    CHECK(h, save(h, "here", "new", 0) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, save(h, "here", "newer", 0) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, chdir(before) == 0, "%s", strerror(errno));
    check_holds(h, scratch_path("here", path), "newer");
}

/* A limit of the process ends a write in the middle, as a full disk does. */
static void a_file_that_is_cut_short_is_not_the_file(struct harness *h)
{
    const struct rlimit small = {.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
    char path[SCRATCH_BYTES];
    struct gram_whole_file f;
    struct rlimit before;
    ssize_t written;

    scratch_put(h, scratch_path("cut", path), "old");
    if (!CHECK(h, gram_whole_file_open(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g)))
        return;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(h, getrlimit(RLIMIT_FSIZE, &before) == 0, "%s", strerror(errno));
    CHECK(h, setrlimit(RLIMIT_FSIZE, &(struct rlimit){small.rlim_cur, before.rlim_max}) == 0, "%s",
          strerror(errno));
    written = write(f.descriptor, "12345678", 8);
    CHECK(h, written == 4, "%zd bytes were written", written);
    written = write(f.descriptor, "5678", 4);
    CHECK(h, written == -1 && errno == EFBIG, "%zd bytes more were written", written);
    CHECK(h, setrlimit(RLIMIT_FSIZE, &before) == 0, "%s", strerror(errno));
    CHECK(h, gram_whole_file_close(h->g, path, &f, EFBIG) == GRAM_IO, "it is taken for whole");
    check_holds(h, path, "old");
}

static const struct test_function tests[] = {
    {       "a_new_file_has_the_mode_that_umask_leaves",a_new_file_has_the_mode_that_umask_leaves                                                        },
    {       "an_old_file_is_whole_until_the_new_one_is",    an_old_file_is_whole_until_the_new_one_is},
    { "what_replaces_a_private_file_is_private_at_once",
     what_replaces_a_private_file_is_private_at_once                                                 },
    {"what_cannot_be_written_leaves_the_old_file_alone",
     what_cannot_be_written_leaves_the_old_file_alone                                                },
    {                      "what_is_no_file_is_refused",                   what_is_no_file_is_refused},
    {"links_are_followed_and_one_to_nothing_is_refused",
     links_are_followed_and_one_to_nothing_is_refused                                                },
    {  "a_file_that_may_not_be_written_is_not_replaced",
     a_file_that_may_not_be_written_is_not_replaced                                                  },
    {    "a_process_that_is_killed_leaves_the_old_file", a_process_that_is_killed_leaves_the_old_file},
    {            "names_that_are_taken_are_passed_over",         names_that_are_taken_are_passed_over},
    {     "a_file_of_the_current_folder_needs_no_slash",  a_file_of_the_current_folder_needs_no_slash},
    {        "a_file_that_is_cut_short_is_not_the_file",     a_file_that_is_cut_short_is_not_the_file},
};

int main(void)
{
    return scratch_run_tests(tests, LENGTH(tests));
}
