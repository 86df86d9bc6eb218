/*
 * median_loops.h - template: the median of the upper half of a square matrix of distances
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

/* The leading bits of a number that is not negative, which are in the order of the numbers. */
static int CAT(leading, SOURCE)(real value)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;

    if (sizeof value == sizeof wide) {
        memcpy(&wide, &value, sizeof value);
        return (int)(wide >> (63 - LEADING_BITS)) & ((1 << LEADING_BITS) - 1);
    }
    memcpy(&narrow, &value, sizeof narrow);
    return (int)(narrow >> (31 - LEADING_BITS)) & ((1 << LEADING_BITS) - 1);
}

/*
 * Keeps of n numbers those with the leading bits of the k-th smallest, a few per cent of distances,
 * which spares the selection most of its steps.  Returns how many they are; *k becomes the place
 * among them, and *below the largest of those that were smaller, if there are any.
 */
static int64_t CAT(narrow, SOURCE)(real *v, int64_t n, int64_t *k, real *below)
{
    int64_t count[1 << LEADING_BITS] = {0}, kept = 0;
    int at = 0;

    for (int64_t i = 0; i < n; i++)
        count[CAT(leading, SOURCE)(v[i])]++;
    for (; *k >= count[at]; at++)
        *k -= count[at];
    for (int64_t i = 0; i < n; i++) {
        const real value = v[i];
        const int leading = CAT(leading, SOURCE)(value);

        if (leading < at && value > *below)
            *below = value;
        v[kept] = value;
        kept += leading == at;
    }
    return kept;
}

/* Of the elements above the diagonal that are numbers; destroys the matrix.  NaN if there is none.
 */
static double CAT(median, SOURCE)(real *matrix, int64_t rows)
{
    int64_t n = 0, middle, kept;
    real largest = 0;
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
    kept = CAT(narrow, SOURCE)(matrix, n, &middle, &largest);
    CAT(select, SOURCE)(matrix, kept, middle);
    above = below = (double)matrix[middle];
    if (n % 2 == 0) {
        /* In real, not by fmax in double, on which GCC 12 fails for NEON. */
        for (int64_t i = 0; i < middle; i++)
            largest = matrix[i] > largest ? matrix[i] : largest;
        below = (double)largest;
    }
    return above == below ? above : below / 2 + above / 2;
}
