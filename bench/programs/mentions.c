/* SPDX-License-Identifier: Apache-2.0
 *
 * Times how long sbatch looks at a job script: `mentions FILE ROUNDS` prints what is mentioned, then the milliseconds of
 * processor time of each round, from the opening of the file to its closing. It waits for nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mentions.h"

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static unsigned look(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned found = mentions_in(fd, 4u << 20);

	close(fd);
	return found;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	printf("%u\n", look(argv[1]));
	for (int round = atoi(argv[2]); round > 0; round--) {
		double began_ms = now_ms();

		look(argv[1]);
		printf("%f\n", now_ms() - began_ms);
	}
	return 0;
}
