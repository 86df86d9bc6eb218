/*
 * metric_series.h - coefficients of the series in metric_kernels.h, lowest power first
 *
 * Chebyshev interpolants, computed with 80 digits, as those of vmath.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* ((1 + t) log(1 + t) + (1 - t) log(1 - t)) / t^2 in z = t^2 <= 1/4; error 2e-10. */
static const float entropy_series_f32[] = {1.00000000013f,   0.166666615081f,  0.0666699336231f,
                                           0.0356375016809f, 0.0230682252623f, 0.0105040026985f,
                                           0.0227679298588f};

/* The same; error 4e-19. */
static const double entropy_series_f64[] = {
    0x1.0000000000000p+0,  0x1.5555555555569p-3, 0x1.111111110e964p-4, 0x1.249249268b7dbp-5,
    0x1.6c16c09ae10adp-6,  0x1.f07c52c1cd0eap-7, 0x1.6812611d85bc7p-7, 0x1.1149f6b68bf01p-7,
    0x1.a81912114ac4bp-8,  0x1.7529531aed1dbp-8, 0x1.33a394559603dp-9, 0x1.3ea9ba72c9313p-7,
    -0x1.19bbb6ee0423cp-7, 0x1.d03b8197d9754p-7};

/* asin(sqrt(z)) / sqrt(z) for z <= 1/2; error 3e-09. */
static const float arc_series_f32[] = {1.00000000162f,   0.166666142378f, 0.0750275731635f,
                                       0.0440916167337f, 0.035814239284f, -0.00702057915229f,
                                       0.107400021302f,  -0.13591627124f, 0.123913494905f};

/* The same; error 5e-19. */
static const double arc_series_f64[] = {
    0x1.0000000000000p+0, 0x1.5555555555543p-3,  0x1.3333333335dfcp-4, 0x1.6db6db6b4ab56p-5,
    0x1.f1c71d9a9fbdfp-6, 0x1.6e8b7786b4a18p-6,  0x1.1c52fd40999cdp-6, 0x1.c905a28e8c2c3p-7,
    0x1.81f121ad68a57p-7, 0x1.f0e1059b81cf8p-8,  0x1.90e68713ae221p-6, -0x1.5a71d0e599b93p-4,
    0x1.aa265c1fc0efap-2, -0x1.6bfc443b9c908p+0, 0x1.f06c87a312036p+1, -0x1.031bf446b47afp+3,
    0x1.9a94c03108fa1p+3, -0x1.dc4ce72b89f4ep+3, 0x1.7fb29470096fcp+3, -0x1.8083c640382f0p+2,
    0x1.6ebf599f234f9p+0};
