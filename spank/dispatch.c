/* SPDX-License-Identifier: Apache-2.0
 *
 * Which code runs in which of Slurm's programs. There is no callback for prolog and epilog, for which slurmd would start
 * a slurmstepd a job. Callbacks return 0 or -1 only: a positive value is ignored, logged or fatal by release.
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
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		return client_post_opt(spank);
	case S_CTX_REMOTE:
		return stepd_begin(spank, count, arguments);
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

EXPORT int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	return stepd_task_exit(spank);
}

EXPORT int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
	(void)spank;
	(void)count;
	(void)arguments;
	return stepd_end();
}

/* What Slurm looks for, in every program that loads the plugin, and does not find. To a name that is unknown dlsym
 * answers NULL after it has made up a message, which nobody reads and every srun pays for; so the names are known, and
 * NULL is what they stand for. (Before 2.28, glibc took them for unknown all the same.) */
#define ABSENT(name) __asm__(".globl " #name "\n.set " #name ", 0")
ABSENT(slurm_spank_init_failure_mode);
ABSENT(slurm_spank_job_prolog);
ABSENT(slurm_spank_local_user_init);
ABSENT(slurm_spank_user_init);
ABSENT(slurm_spank_task_init_privileged);
ABSENT(slurm_spank_task_post_fork);
ABSENT(slurm_spank_job_epilog);
ABSENT(slurm_spank_slurmd_exit);
ABSENT(spank_options);
ABSENT(init);
ABSENT(fini);
