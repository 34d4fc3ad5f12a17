/* SPDX-License-Identifier: Apache-2.0
 *
 * Which code runs in which of Slurm's programs. No callback for prolog and epilog is exported, for which slurmd would
 * start a slurmstepd a job. Callbacks return 0 or -1 only: a positive value is ignored, logged or fatal by release.
 */
#include "shim.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		return client_init(spank, count, arguments);
	case S_CTX_REMOTE:
		return client_register_remote(spank);
	default:
		return 0;
	}
}

EXPORT int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;

	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		return client_post_opt(spank);
	default:
		return 0;
	}
}

EXPORT int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	return stepd_task_init(spank);
}
