/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin with one option that does nothing, written as spank(8) says and linked by gcc's defaults: what others cost.
 * An anchor for `make bench`.
 */
#include <slurm/spank.h>

SPANK_PLUGIN(bare, 1);

static int take(int value, const char *optarg, int remote)
{
	(void)value, (void)optarg, (void)remote;
	return 0;
}

static struct spank_option option = {
	.name = "bare",
	.arginfo = "0|1",
	.usage = "does nothing",
	.has_arg = 1,
	.cb = take,
};

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	(void)count, (void)arguments;
	return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}
