/* SPDX-License-Identifier: Apache-2.0
 *
 * What Slurm looks for before it calls anything: name, type and the release that this was built for. The only object
 * that depends on the release: since 21.08 Slurm refuses a plugin whose major.minor is not its own, up to 20.11 the
 * second argument of SPANK_PLUGIN was that version.
 */
#pragma GCC visibility push(default)

#include <slurm/spank.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "stepguard needs Slurm 22.05 or newer: point SLURM_INCLUDE at its headers"
#endif

SPANK_PLUGIN(stepguard, 1)
