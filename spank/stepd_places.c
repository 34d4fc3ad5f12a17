/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "places.h"
#include "stepd.h"

/* One call leaves the second of two neighbours that have the same name (unsetenvp in env.c, 22.05 and 24.11). */
static void forget(spank_t spank, const char *name)
{
	while (stepd_variable(spank, name) && spank_unsetenv(spank, name) == ESPANK_SUCCESS)
		;
}

static void set_number(spank_t spank, const char *name, uint32_t number)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%u", (unsigned)number);
	spank_setenv(spank, name, digits, 1);
}

static void put_in_place(spank_t spank, const struct places *places)
{
	for (int i = 0; i < places->variable_count; i++)
		spank_setenv(spank, places->variable[i].name, places->variable[i].value, 1);
	if (!places->has_rows)
		return;
	set_number(spank, "SLURM_PROCID", places->rank);
	set_number(spank, "SLURM_NODEID", places->node_id);
	spank_setenv(spank, "SLURM_GTIDS", places->node_ranks, 1);
}

/* Cuts up `text`. Says what is wrong with it, to the one who put it there: at this level, the task's stderr gets it. */
static bool read_places(spank_t spank, struct places *places, char *text)
{
	const char *node = stepd_variable(spank, "SLURMD_NODENAME"); /* slurmstepd's own word, whatever the user had there */
	int local_id = -1;

	spank_get_item(spank, S_TASK_ID, &local_id);
	const char *wrong = places_read(places, text, node ? node : "", local_id);

	if (wrong)
		slurm_spank_log("stepguard: " PLACES_NAME " changes nothing: field %d: %s", places->field, wrong);
	return !wrong;
}

void stepd_take_place(spank_t spank)
{
	const char *entry = stepd_variable(spank, PLACES_NAME);

	if (!entry)
		return;
	char *text = strdup(entry);
	struct places *places = malloc(sizeof(*places));
	bool good = text && places && read_places(spank, places, text);

	forget(spank, PLACES_NAME);
	if (good)
		put_in_place(spank, places);
	free(places);
	free(text);
}
