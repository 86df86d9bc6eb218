/*
 * test_cli_output.c - where an output goes: through links, for the effective user, whole or not at
 * all
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/output.h"
#include "tests/core/scratch_folder.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NOBODY = 65534
};

/* Writes "new" to path as a command does. */
static enum exit_status save(const char *path, struct failure *why)
{
    struct output out;
    enum exit_status status = output_open(&out, path, why);

    if (status != CLI_OK)
        return status;
    output_text(&out, "new");
    return output_close(&out, why);
}

static bool is_link(const char *path)
{
    struct stat about;

    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

static void a_link_to_nothing_is_not_replaced(struct harness *h)
{
    char link[SCRATCH_BYTES], target[SCRATCH_BYTES], text[SCRATCH_BYTES];
    struct failure why = {""};

    scratch_path("missing", target);
    CHECK(h, symlink("missing", scratch_path("dangling", link)) == 0, "%s", strerror(errno));
    CHECK(h, save(link, &why) == CLI_NO_OUTPUT, "%s", why.text);
    CHECK(h, strstr(why.text, "dangling: it is a link to a file that does not exist"), "%s",
          why.text);
    CHECK(h, is_link(link) && access(target, F_OK) != 0, "the link is another");
    scratch_put(h, target, "old"); /* now it leads somewhere */
    CHECK(h, save(link, &why) == CLI_OK, "%s", why.text);
    CHECK(h, is_link(link) && strcmp(scratch_get(target, text), "new") == 0, "%s", text);
}

static void a_link_to_itself_is_refused(struct harness *h)
{
    char link[SCRATCH_BYTES];
    struct failure why = {""};

    CHECK(h, symlink("circle", scratch_path("circle", link)) == 0, "%s", strerror(errno));
    CHECK(h, save(link, &why) == CLI_NO_OUTPUT && is_link(link), "%s", why.text);
}

static void links_are_followed_to_the_file(struct harness *h)
{
    char first[SCRATCH_BYTES], second[SCRATCH_BYTES], target[SCRATCH_BYTES], text[SCRATCH_BYTES];
    struct failure why = {""};
    struct stat about;

    scratch_put(h, scratch_path("kept", target), "old");
    CHECK(h, chmod(target, 0640) == 0, "%s", strerror(errno));
    CHECK(h, symlink("kept", scratch_path("second", second)) == 0, "%s", strerror(errno));
    CHECK(h, symlink(second, scratch_path("first", first)) == 0, "%s", strerror(errno));
    CHECK(h, save(first, &why) == CLI_OK, "%s", why.text);
    CHECK(h, is_link(first) && is_link(second), "a link was replaced");
    CHECK(h, strcmp(scratch_get(target, text), "new") == 0, "%s", text);
    CHECK(h, stat(target, &about) == 0 && (about.st_mode & 07777) == 0640, "mode %o",
          (unsigned)about.st_mode);
}

static void a_file_of_another_user_is_refused_to_the_effective_user(struct harness *h)
{
    char open_folder[SCRATCH_BYTES], path[SCRATCH_BYTES], text[SCRATCH_BYTES];
    struct failure why = {""};
    enum exit_status status;

    if (geteuid() != 0) {
        CHECK(h, true, "only root can be another user");
        return;
    }
    CHECK(h, chmod(scratch_path("", open_folder), 0755) == 0, "%s", strerror(errno));
    CHECK(h, mkdir(scratch_path("open", open_folder), 0777) == 0 && chmod(open_folder, 0777) == 0,
          "%s", strerror(errno));
    scratch_put(h, scratch_path("open/root", path), "old");
    CHECK(h, chmod(path, 0644) == 0, "%s", strerror(errno));
    CHECK(h, seteuid(NOBODY) == 0, "%s", strerror(errno)); /* access() would ask for root */
    status = save(path, &why);
    CHECK(h, seteuid(0) == 0, "%s", strerror(errno));
    CHECK(h, status == CLI_NO_OUTPUT && strstr(why.text, strerror(EACCES)), "%d %s", (int)status,
          why.text);
    CHECK(h, strcmp(scratch_get(path, text), "old") == 0, "%s", text);
}

/* fs.protected_symlinks: in a sticky folder that all may write to, links of others are not
 * followed. */
static void a_planted_link_is_not_followed(struct harness *h)
{
    char sticky[SCRATCH_BYTES], link[SCRATCH_BYTES], target[SCRATCH_BYTES], text[SCRATCH_BYTES];
    struct failure why = {""};
    int descriptor;

    scratch_put(h, scratch_path("precious", target), "old");
    CHECK(h, mkdir(scratch_path("sticky", sticky), 0777) == 0 && chmod(sticky, 01777) == 0, "%s",
          strerror(errno));
    CHECK(h, symlink(target, scratch_path("sticky/planted", link)) == 0, "%s", strerror(errno));
    if (geteuid() != 0 || lchown(link, NOBODY, NOBODY) != 0)
        return; /* the others' links are out of reach */
    descriptor = open(link, O_WRONLY | O_CLOEXEC);
    if (descriptor >= 0) { /* this system follows it, and so does a command */
        close(descriptor);
        return;
    }
    CHECK(h, save(link, &why) == CLI_NO_OUTPUT, "%s", why.text);
    CHECK(h, strcmp(scratch_get(target, text), "old") == 0, "%s", text);
}

static void what_is_dropped_leaves_nothing(struct harness *h)
{
    char path[SCRATCH_BYTES], text[SCRATCH_BYTES];
    struct failure why = {""};
    struct output out;

    scratch_put(h, scratch_path("old", path), "old");
    CHECK(h, output_open(&out, path, &why) == CLI_OK, "%s", why.text);
    output_text(&out, "half");
    CHECK(h, strcmp(scratch_get(path, text), "old") == 0, "%s", text);
    CHECK(h, out.temporary && access(out.temporary, F_OK) == 0, "it is written beside");
    (void)snprintf(text, sizeof text, "%s", out.temporary ? out.temporary : "");
    output_discard(&out);
    CHECK(h, access(text, F_OK) != 0, "%s is left", text);
    CHECK(h, strcmp(scratch_get(path, text), "old") == 0, "%s", text);
}

static const struct test_function tests[] = {
    {                      "a_link_to_nothing_is_not_replaced",a_link_to_nothing_is_not_replaced                                                               },
    {                            "a_link_to_itself_is_refused",       a_link_to_itself_is_refused},
    {                         "links_are_followed_to_the_file",    links_are_followed_to_the_file},
    {"a_file_of_another_user_is_refused_to_the_effective_user",
     a_file_of_another_user_is_refused_to_the_effective_user                                     },
    {                         "a_planted_link_is_not_followed",    a_planted_link_is_not_followed},
    {                         "what_is_dropped_leaves_nothing",    what_is_dropped_leaves_nothing},
};

int main(void)
{
    return scratch_run_tests(tests, LENGTH(tests));
}
