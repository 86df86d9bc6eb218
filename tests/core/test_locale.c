/*
 * test_locale.c - a host with decimal commas: descriptions and model files stay as they are
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "comma_locale.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ROWS = 60
};

static gram_machine *fit(struct harness *h, const gram_table *table, const gram_column *target)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m = NULL;

    o.bandwidth = 1.25, o.regularization = 0.0625;
    CHECK(h, gram_machine_fit(h->g, table, target, &o, &m) == GRAM_OK, "%s", gram_message(h->g));
    return m;
}

static gram_machine *load(struct harness *h, const char *path)
{
    gram_machine *m = NULL;

    CHECK(h, gram_machine_load(h->g, path, &m) == GRAM_OK, "%s: %s", path, gram_message(h->g));
    return m;
}

/* A description without its seconds, which are those of this process and not in the file: numbers,
 * and one object, which is its last member. */
static void without_seconds(const char *text, char *out, size_t size)
{
    static const char mark[] = ", \"seconds\": ";
    size_t used = 0;

    while (*text && used + 1 < size) {
        if (strncmp(text, mark, strlen(mark)) == 0) {
            text += strlen(mark);
            text += *text == '{' ? strcspn(text, "}") + 1 : strcspn(text, ",}");
        } else {
            out[used++] = *text++;
        }
    }
    out[used] = '\0';
}

static void check_alike(struct harness *h, const gram_table *table, const gram_machine *machines[2])
{
    double predictions[2][ROWS];
    static char text[2][1 << 14];

    for (int i = 0; i < 2; i++) {
        gram_tensor out = gram_vector(predictions[i], ROWS, GRAM_F64);
        CHECK(h, gram_machine_predict(h->g, machines[i], table, &out) == GRAM_OK, "%s",
              gram_message(h->g));
    }
    for (int i = 0; i < ROWS; i++)
        CHECK(h, predictions[0][i] == predictions[1][i], "row %d", i);
    for (int i = 0; i < 2; i++)
        without_seconds(gram_machine_describe(machines[i]), text[i], sizeof text[i]);
    CHECK(h, strcmp(text[0], text[1]) == 0, "\"%s\" and \"%s\"", text[0], text[1]);
}

/* Fitted and saved under commas, loaded under points, and the other way. */
static void models_cross_locales(struct harness *h)
{
    double x[ROWS], y[ROWS];
    gram_column column = {"x", x, NULL}, target = {"y", y, NULL};
    gram_table table = {ROWS, 1, &column};
    char path[] = "/tmp/gram-test-XXXXXX";
    int file = mkstemp(path);

    CHECK(h, file >= 0, "no temporary file");
    close(file);
    for (int i = 0; i < ROWS; i++) {
        x[i] = test_uniform(h);
        y[i] = x[i] * x[i] + 0.1 * test_uniform(h);
    }
    for (int way = 0; way < 2; way++) {
        gram_machine *first, *second = NULL;
        CHECK(h, way ? setlocale(LC_ALL, "C") != NULL : comma_locale(), "no locale");
        first = fit(h, &table, &target);
        if (!first)
            break;
        CHECK(h, strstr(gram_machine_describe(first), "0.0625"), "%s",
              gram_machine_describe(first));
        CHECK(h, gram_machine_save(h->g, first, path) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, way ? comma_locale() : setlocale(LC_ALL, "C") != NULL, "no locale");
        second = load(h, path);
        if (second)
            check_alike(h, &table, (const gram_machine *[]){first, second});
        gram_machine_destroy(first);
        gram_machine_destroy(second);
    }
    unlink(path);
}

static const struct test_function tests[] = {
    {"models_cross_locales", models_cross_locales},
};

int main(void)
{
    if (!comma_locale())
        return 77;
    return harness_run_tests(tests, LENGTH(tests));
}
