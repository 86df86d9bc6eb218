/*
 * test_cli_json.c - JSON as it is written, and members as they are found
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/json.h"
#include "cli/json_member.h"
#include <math.h>
#include <string.h>

static const char written[] =
    "{\n"
    "  \"text\": \"a\\\"b\\\\c\\u000a\\u007f\xc3\xa9\\ufffd\\ufffd!\",\n"
    "  \"nothing\": null,\n"
    "  \"numbers\": [0.1, -3, null, null, 0.1, 9007199254740993],\n"
    "  \"yes\": true,\n"
    "  \"empty\": {},\n"
    "  \"list\": [\n"
    "    {\"a\": 1, \"b\": [2]},\n"
    "    false\n"
    "  ],\n"
    "  \"raw\": [1]\n"
    "}\n";

static void test_writer(struct harness *h)
{
    char text[1024] = "";
    struct output out = {.stream = fmemopen(text, sizeof text, "wb"), .slot = -1};
    struct json j = json_to(&out);

    h->where = "a document";
    json_object(&j, NULL);
    json_string(&j, "text", "a\"b\\c\n\x7f\xc3\xa9\xff\xc3!");
    json_string(&j, "nothing", NULL);
    json_flat_array(&j, "numbers");
    json_number(&j, NULL, 0.1);
    json_number(&j, NULL, -3);
    json_number(&j, NULL, NAN);
    json_number(&j, NULL, INFINITY);
    json_float(&j, NULL, 0.1f);
    json_integer(&j, NULL, 9007199254740993);
    json_end(&j);
    json_bool(&j, "yes", 1);
    json_object(&j, "empty");
    json_end(&j);
    json_array(&j, "list");
    json_flat_object(&j, NULL);
    json_number(&j, "a", 1);
    json_array(&j, "b"); /* inside what is on one line */
    json_number(&j, NULL, 2);
    json_end(&j);
    json_end(&j);
    json_bool(&j, NULL, 0);
    json_end(&j);
    json_raw(&j, "raw", "[1] ", 3);
    json_end(&j);
    fclose(out.stream);
    CHECK(h, strcmp(text, written) == 0, "wrote\n%s", text);
}

/* clang-format off */
static const struct {
    const char *text, *name, *value; /* NULL: not found */
} members[] = {
    {"{\"a\": 1, \"b\": {\"c\": 2}}", "a", "1"},
    {"{\"a\": 1, \"b\": {\"c\": 2}}", "b", "{\"c\": 2}"},
    {"{\"a\": 1, \"b\": {\"c\": 2}}", "c", NULL},
    {" {\"x\":[1,{\"a\":2},\"]\"],\"a\":\"q\\\"}\",\"z\":0}", "a", "\"q\\\"}\""},
    {"{\"ab\": 1, \"a\": 2}", "a", "2"},
    {"{\"a\": 1}", "ab", NULL},
    {"{}", "a", NULL},
    {"[1]", "a", NULL},
    {"", "a", NULL},
    {"{\"a", "a", NULL},
    {"{\"a\"", "a", NULL},
    {"{\"a\":", "a", ""},
    {"{\"b\": [[[", "a", NULL},
    {"{\"b\": \"\\", "a", NULL},
    {"{\"b\": 1]", "a", NULL},
};
/* clang-format on */

static void test_members(struct harness *h)
{
    for (int i = 0; i < LENGTH(members); i++) {
        size_t size = 0;
        const char *value = json_member(members[i].text, members[i].name, &size);
        h->where = members[i].text;
        if (!members[i].value) {
            CHECK(h, value == NULL, "found %s", value);
            continue;
        }
        CHECK(h,
              value && size == strlen(members[i].value) &&
                  memcmp(value, members[i].value, size) == 0,
              "found %.*s, expected %s", (int)size, value ? value : "nothing", members[i].value);
    }
}

/* clang-format off */
static const struct {
    const char *text, *elements[3];
} arrays[] = {
    {"[]", {NULL}},
    {" [ ] ", {NULL}},
    {"[1]", {"1"}},
    {"[{\"a\": [1, 2]}, \"],\",[3]]", {"{\"a\": [1, 2]}", "\"],\"", "[3]"}},
    {"{\"a\": 1}", {NULL}},
    {"", {NULL}},
    {"[", {NULL}},
    {"[[[", {"[["}},
    {"[\"", {"\""}},
};
/* clang-format on */

static void test_elements(struct harness *h)
{
    for (int i = 0; i < LENGTH(arrays); i++) {
        const char *at = NULL;
        size_t size = 0;

        h->where = arrays[i].text;
        for (int k = 0; k <= 3; k++) {
            const char *expected = k < 3 ? arrays[i].elements[k] : NULL;

            at = json_element(arrays[i].text, at, &size);
            CHECK(h,
                  expected ? at && size == strlen(expected) && memcmp(at, expected, size) == 0
                           : at == NULL,
                  "element %d is %s, expected %s", k, at ? at : "none",
                  expected ? expected : "none");
            if (!at)
                break;
        }
    }
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    test_writer(&h);
    test_members(&h);
    test_elements(&h);
    printf("test_cli_json: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
