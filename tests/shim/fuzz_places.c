/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes good texts at random and has them read: nothing may be overrun, and what is accepted keeps to places.h.
 *
 * Usage: fuzz_places SEED ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "places.h"

static const char *const seeds[] = {
	"1;SLURM_NTASKS=6;STEPGUARD_HELPER_JOB_ID=75;@n1=0:0-3,4;@n2=1:5",
	"1;SLURM_NTASKS=400000;SLURM_STEP_NODELIST=n[1,4,3];@n1=7:0-999,399999;@n.4_x-y=0:10000-75535",
	"1;SLURM_JOB_ID=71;SLURM_X=",
	"1",
};
static const char *const words[] = { ";",      "=",  "@",  ":",        ",",          "-",
				     "@n1=0:0", "0-", "-0", "99999999", "4294967296", "SLURM_NTASKS=9",
				     "\n",     "\xff", "SLURM_PROCID=1" };

/* Exactly as large as needed: one byte more would be seen. */
static char *mutated(void)
{
	static char text[512];

	snprintf(text, sizeof(text), "%s", seeds[below(sizeof(seeds) / sizeof(seeds[0]))]);
	for (unsigned changes = below(5); changes > 0; changes--) {
		size_t length = strlen(text), at = below((unsigned)length + 1);
		const char *word = words[below(sizeof(words) / sizeof(words[0]))];
		size_t cut = below(4), size = strlen(word);

		switch (below(4)) {
		case 0:
			if (at < length)
				text[at] = (char)(1 + below(255));
			break;
		case 1: /* a piece less */
			cut = cut < length - at ? cut : length - at;
			memmove(text + at, text + at + cut, length - at - cut + 1);
			break;
		case 2: /* a word more */
			if (length + size < sizeof(text)) {
				memmove(text + at + size, text + at, length - at + 1);
				memcpy(text + at, word, size);
			}
			break;
		default: /* a part of itself once more */
			if (2 * length - at < sizeof(text))
				memmove(text + length, text + at, length - at + 1), text[2 * length - at] = '\0';
		}
	}
	return strdup(text);
}

static void check(const struct places *places, int local_id)
{
	unsigned long rank = 0;
	const char *at = places->node_ranks;

	MUST(places->variable_count <= PLACES_VARIABLES_MAX);
	for (int i = 0; i < places->variable_count; i++) {
		MUST(strncmp(places->variable[i].name, "SLURM_", 6) == 0 || strncmp(places->variable[i].name, "STEPGUARD_", 10) == 0);
		MUST(strcspn(places->variable[i].value, ";\n\xff") == strlen(places->variable[i].value));
	}
	if (!places->has_rows)
		return;
	/* The task's rank is the one at its place among those of its node. */
	for (int i = 0; i <= local_id; i++) {
		char *end;

		MUST(i == 0 || *at++ == ',');
		rank = strtoul(at, &end, 10);
		MUST(end > at);
		at = end;
	}
	MUST(places->rank == rank);
}

int main(int argc, char **argv)
{
	static struct places places;
	unsigned long accepted = 0;

	begin_fuzzing(argc, argv);
	for (; fuzzing.round_number < fuzzing.rounds; fuzzing.round_number++) {
		int local_id = (int)below(6) - 1;
		char *text = mutated();

		if (!text)
			abort();
		if (!places_read(&places, text, "n1", local_id)) {
			check(&places, local_id);
			accepted++;
		}
		free(text);
	}
	printf("%lu of %lu accepted\n", accepted, fuzzing.rounds);
	return 0;
}
