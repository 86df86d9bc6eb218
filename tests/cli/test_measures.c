/*
 * test_measures.c - the measures of predictions, against sums over pairs and numbers worked by hand
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/measures.h"
#include <math.h>

static struct failure why;

/* The area under the curve as its definition has it: over all pairs. */
static double slow_area(const int64_t *truth, const double *proba, int64_t rows, int64_t classes,
                        int64_t k)
{
    double wins = 0, pairs = 0;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++)
            if (truth[i] == k && truth[j] != k && truth[j] != CLASS_MISSING) {
                const double a = proba[i * classes + k], b = proba[j * classes + k];
                wins += a > b ? 1 : a == b ? 0.5 : 0;
                pairs++;
            }
    return pairs > 0 ? wins / pairs : NAN;
}

/* Probabilities with many ties, unknown and missing labels, and a class (2) that is absent. */
static void areas(struct harness *h)
{
    enum {
        ROWS = 60,
        CLASSES = 4
    };
    int64_t truth[ROWS];
    double proba[ROWS * CLASSES];
    struct class_measures m;
    uint64_t state = 1;

    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            proba[i * CLASSES + k] = 1 + (double)(state >> 62);
            sum += proba[i * CLASSES + k];
        }
        for (int k = 0; k < CLASSES; k++)
            proba[i * CLASSES + k] /= sum;
        truth[i] = (int64_t)(state >> 40) % 6 - 2;
        truth[i] = truth[i] == 2 ? 3 : truth[i];
    }
    CHECK(h, class_measures_make(truth, proba, ROWS, CLASSES, &m, &why) == CLI_OK, "areas");
    for (int k = 0; k < CLASSES; k++) {
        const double expected = slow_area(truth, proba, ROWS, CLASSES, k);
        CHECK(h, k == 2 ? isnan(m.class[k].auc) : fabs(m.class[k].auc - expected) < 1e-12,
              "class %d", k);
    }
    CHECK(h, fabs(m.auc - (m.class[0].auc + m.class[1].auc + m.class[3].auc) / 3) < 1e-12, "areas");
    CHECK(h, m.unknown > 0 && m.rows < ROWS && m.class[2].rows == 0 && isnan(m.class[2].recall),
          "areas");
    class_measures_free(&m);
}

/* Four rows of two classes, worked by hand. */
static void two_classes(struct harness *h)
{
    static const int64_t truth[] = {0, 1, 1, 0, CLASS_MISSING};
    static const double proba[] = {0.9, 0.1, 0.2, 0.8, 0.7, 0.3, 0.5, 0.5, 0.1, 0.9};
    struct class_measures m;

    CHECK(h, class_measures_make(truth, proba, 5, 2, &m, &why) == CLI_OK, "two classes");
    CHECK(h, m.rows == 4 && m.accuracy == 0.75 && m.unknown == 0, "two classes");
    CHECK(h,
          m.confusion[0] == 2 && m.confusion[1] == 0 && m.confusion[2] == 1 && m.confusion[3] == 1,
          "two classes");
    CHECK(h, fabs(m.auc - 0.75) < 1e-15, "two classes"); /* 0.8 wins twice, 0.3 once of two */
    CHECK(h, fabs(m.f1 - (0.8 + 2.0 / 3) / 2) < 1e-15 && m.balanced_accuracy == 0.75,
          "two classes");
    CHECK(h, fabs(m.brier - (0.01 + 0.04 + 0.49 + 0.25) / 4) < 1e-15, "two classes");
    CHECK(h, fabs(m.log_loss + (log(0.9) + log(0.8) + log(0.3) + log(0.5)) / 4) < 1e-15,
          "two classes");
    CHECK(h, fabs(m.calibration_error - (0.1 + 0.2 + 0.7 + 0.5) / 4) < 1e-15, "two classes");
    class_measures_free(&m);
}

static void no_rows(struct harness *h)
{
    struct class_measures m;
    struct number_measures n;

    CHECK(h, class_measures_make(NULL, NULL, 0, 3, &m, &why) == CLI_OK, "no rows");
    CHECK(h, m.rows == 0 && isnan(m.accuracy) && isnan(m.auc) && isnan(m.f1) && isnan(m.brier),
          "no rows");
    CHECK(h, isnan(m.log_loss) && isnan(m.calibration_error) && isnan(m.balanced_accuracy),
          "no rows");
    class_measures_free(&m);
    CHECK(h, number_measures_make(NULL, NULL, 0, &n, &why) == CLI_OK, "no rows");
    CHECK(h, n.rows == 0 && isnan(n.rmse) && isnan(n.median) && isnan(n.r2) && isnan(n.mae),
          "no rows");
}

/* Sizes at both ends of the range, and a target without spread. */
static void numbers(struct harness *h)
{
    static const double scales[] = {1, 1e-300, 1e300};
    struct number_measures m;

    for (int i = 0; i < LENGTH(scales); i++) {
        const double s = scales[i];
        const double truth[] = {1 * s, 2 * s, NAN, 3 * s, 6 * s};
        const double value[] = {1 * s, 4 * s, 0, 2 * s, 3 * s};
        CHECK(h, number_measures_make(truth, value, 5, &m, &why) == CLI_OK, "numbers of any size");
        CHECK(h, m.rows == 4 && fabs(m.mae / s - 1.5) < 1e-14 && fabs(m.median / s - 1.5) < 1e-14,
              "numbers of any size");
        CHECK(h, fabs(m.rmse / s - sqrt(3.5)) < 1e-14 && fabs(m.r2) < 1e-14, "numbers of any size");
    }
    CHECK(h,
          number_measures_make((const double[]){2, 2}, (const double[]){2, 3}, 2, &m, &why) ==
              CLI_OK,
          "numbers of any size");
    CHECK(h, isnan(m.r2) && m.median == 0.5, "numbers of any size");
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    areas(&h);
    two_classes(&h);
    no_rows(&h);
    numbers(&h);
    printf("test_measures: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
