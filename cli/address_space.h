/*
 * address_space.h - the command where the address space is limited, as by ulimit -v
 *
 * OpenBLAS makes a thread for every processor before main() begins, each with a buffer of 128 MiB.
 * Where they cannot be had it ends the program, or the threads ask for them for ever.  So where
 * they would take more than half of what there is the program is started again, with one thread
 * of OpenBLAS; the library makes more when it needs them and there is room.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ADDRESS_SPACE_H
#define GRAM_CLI_ADDRESS_SPACE_H

/* Before the constructors of libraries: the C library is not ready, which leaves system calls. */
void address_space_before_libraries(int argc, char **argv, char **environment);

/* At the beginning of main(): the environment becomes what the user has set. */
void address_space_restore(void);
#endif
