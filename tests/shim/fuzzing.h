/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs of random inputs share: rounds that a seed repeats, and a claim that names the round in which it fails.
 */
#ifndef STEPGUARD_FUZZING_H
#define STEPGUARD_FUZZING_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                           \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "round %lu: not " #condition "\n", fuzzing.round_number); \
			abort();                                                                  \
		}                                                                                 \
	} while (0)

static struct {
	unsigned long rounds, round_number;
	unsigned long long state;
} fuzzing;

/* The program's arguments: SEED ROUNDS. */
static inline void begin_fuzzing(int argc, char **argv)
{
	fuzzing.rounds = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	fuzzing.state = argc == 3 ? strtoull(argv[1], NULL, 10) * 2654435761 + 1 : 1;
}

/* A number from 0 up to `bound`, without it (xorshift64). */
static inline unsigned below(unsigned bound)
{
	fuzzing.state ^= fuzzing.state << 13;
	fuzzing.state ^= fuzzing.state >> 7;
	fuzzing.state ^= fuzzing.state << 17;
	return (unsigned)(fuzzing.state >> 16) % bound;
}

#endif
