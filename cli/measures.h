/*
 * measures.h - how good predictions are: the numbers of `gram score` and `gram cv`
 *
 * Arithmetic only: nothing is read, printed or predicted here.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_MEASURES_H
#define GRAM_CLI_MEASURES_H
#include "failure.h"
#include <stdint.h>

/* Instead of the index of a class. */
enum {
    CLASS_UNKNOWN = -1, /* the label is no class of the model: every prediction is wrong */
    CLASS_MISSING = -2, /* there is no label: the row is left out */
};

enum {
    CALIBRATION_BINS = 15
};

/* The index of the largest of `classes` probabilities; of equal ones, the first. */
int64_t class_most_probable(const double *p, int64_t classes);

/* Of one class against all others; NaN where the denominator is 0. */
struct class_measure {
    int64_t rows, predicted, right;
    double precision; /* right / predicted */
    double recall;    /* right / rows */
    double f1;        /* 2 right / (rows + predicted) */
    double auc;
};

/* Sums over rows. */
struct confidence_bin {
    double rows, confidence, right;
};

/*
 * The class that is predicted is the most probable one; of equally probable ones, the first.
 *   balanced_accuracy  the mean recall of the classes that occur
 *   f1                 the mean F1 of the classes that occur or are predicted (macro)
 *   auc                the probability that a row of a class has a larger probability of it than a
 *                      row of another class, with ties as one half (Hanley and McNeil, Radiology
 *                      143, 1982); with more than two classes, the mean over the classes that occur
 *                      and do not occur in every row (one against the rest, macro)
 *   log_loss           the mean of -log p of the true class, over rows whose label is known
 *   brier              the mean of sum_k (p_k - [k is the true class])^2 (Brier, Monthly Weather
 *                      Review 78, 1950); with two classes half of that, as scikit-learn has it
 *   calibration_error  sum over 15 bins of equal width of the largest probability: share of the
 *                      rows in the bin times |mean probability - accuracy| (Guo et al., ICML 2017)
 * A measure of no rows is NaN.
 */
struct class_measures {
    int64_t rows, unknown, classes;
    double accuracy, balanced_accuracy, f1, auc, log_loss, brier, calibration_error;
    struct class_measure *class;
    struct confidence_bin bin[CALIBRATION_BINS]; /* by the probability of the predicted class */
    int64_t *confusion; /* classes + 1 rows by classes: true class, predicted class; the last row
                           has the labels that are no class of the model */
};

/* proba is rows by classes.  Fails: no memory.  Call class_measures_free in any case. */
enum exit_status class_measures_make(const int64_t *truth, const double *proba, int64_t rows,
                                     int64_t classes, struct class_measures *out,
                                     struct failure *why);
void class_measures_free(struct class_measures *m);

/*
 * With e = value - truth:
 *   rmse = sqrt(mean of e^2), mae = mean of |e|, median = median of |e| (of an even number, the
 *   mean of the two in the middle), r2 = 1 - sum of e^2 / sum of (truth - mean of truth)^2, which
 *   is NaN if all of truth is the same.
 * Rows whose truth is NaN are left out.  Nothing overflows on the way to a result that does not.
 */
struct number_measures {
    int64_t rows;
    double rmse, mae, median, r2;
};

/* Fails: no memory. */
enum exit_status number_measures_make(const double *truth, const double *value, int64_t rows,
                                      struct number_measures *out, struct failure *why);

/*
 * How often intervals or sets hold the truth, and how large they are:
 *   share = rows whose truth is between the ends, or among the classes of the set / rows,
 *   size = mean of upper - lower, or mean number of classes.
 * Rows without a truth are left out; a label that is no class of the model is in no set.  Both are
 * NaN if there are no rows.
 */
struct coverage {
    double level; /* what was asked for; NaN: the model has no intervals or sets of it */
    double share, size;
};

/* ends is rows by 2: lower, upper. */
struct coverage interval_coverage(const double *truth, const double *ends, int64_t rows,
                                  double level);
/* place is rows by classes: more than 0 for the classes of a set. */
struct coverage set_coverage(const int64_t *truth, const int32_t *place, int64_t rows,
                             int64_t classes, double level);
#endif
