/*
 * median_loops.h - template: the median of the upper half of a square matrix
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */
static void CAT(swap, SOURCE)(real *a, real *b)
{
    real t = *a;

    *a = *b, *b = t;
}

/*
 * Puts the k-th smallest of n numbers at v[k], smaller or equal ones before it, larger or equal
 * ones behind (Hoare's selection).  The pivot, the median of three, ends every run of equal numbers
 * in its middle, so that ties do not make it quadratic.
 */
static void CAT(select, SOURCE)(real *v, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        int64_t middle = low + (high - low) / 2, i = low, j = high;
        real pivot;
        if (v[middle] < v[low])
            CAT(swap, SOURCE)(&v[middle], &v[low]);
        if (v[high] < v[low])
            CAT(swap, SOURCE)(&v[high], &v[low]);
        if (v[high] < v[middle])
            CAT(swap, SOURCE)(&v[high], &v[middle]);
        pivot = v[middle];
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (pivot < v[j])
                j--;
            if (i <= j)
                CAT(swap, SOURCE)(&v[i++], &v[j--]);
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            return;
    }
}

/* Of the elements above the diagonal that are numbers; destroys the matrix.  NaN if there is none.
 */
static double CAT(median, SOURCE)(real *matrix, int64_t rows)
{
    int64_t n = 0, middle;
    double above, below;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i + 1; j < rows; j++) {
            real value = matrix[i * rows + j];
            matrix[n] = value;
            n += value == value;
        }
    if (n == 0)
        return NAN;
    middle = n / 2;
    CAT(select, SOURCE)(matrix, n, middle);
    above = below = (double)matrix[middle];
    if (n % 2 == 0) {
        /* In real, not by fmax in double, on which GCC 12 fails for NEON. */
        real largest = matrix[0];
        for (int64_t i = 1; i < middle; i++)
            largest = matrix[i] > largest ? matrix[i] : largest;
        below = (double)largest;
    }
    return above == below ? above : below / 2 + above / 2;
}
