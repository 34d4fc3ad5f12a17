/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_TASK_H
#define HOST_TASK_H

#include <slurm/spank.h>

/* Makes the task `local_id`: its environment is this process's own, without HOST_*, and with `twice` each entry of it
 * stands there twice. */
void task_make(int local_id, int twice);

/* Prints the task's environment, as exec would get it: task=HEX lines. */
void task_report(void);

#endif
