/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

/* The kernel gives arguments and environment 6 MiB together, whatever the stack limit (execve(2)). */
#define WORDS_MAX (6 * 1024 * 1024)

static int read_all(int fd, struct words *words)
{
	size_t room = 0;

	for (;;) {
		if (words->size == room) {
			room = room ? room * 2 : 4096;
			char *bytes = room <= 2 * WORDS_MAX ? realloc(words->bytes, room) : NULL;

			if (!bytes) {
				errno = ENOMEM;
				return -1;
			}
			words->bytes = bytes;
		}
		ssize_t got = read(fd, words->bytes + words->size, room - words->size);

		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return -1;
		if (got > 0)
			words->size += (size_t)got;
	}
}

static int split(struct words *words)
{
	/* A process that overwrote its arguments (to change its title) has no argv left to rebuild. */
	if (words->size == 0 || words->bytes[words->size - 1] != '\0') {
		errno = EINVAL;
		return -1;
	}
	for (size_t i = 0; i < words->size; i++)
		words->count += words->bytes[i] == '\0';
	words->word = calloc((size_t)words->count + 1, sizeof(*words->word));
	if (!words->word)
		return -1;
	char *next = words->bytes;

	for (int i = 0; i < words->count; i++) {
		words->word[i] = next;
		next += strlen(next) + 1;
	}
	return 0;
}

int words_read(struct words *words)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	int rc;

	memset(words, 0, sizeof(*words));
	if (fd < 0)
		return -1;
	rc = read_all(fd, words);
	close(fd);
	return rc == 0 ? split(words) : -1;
}

void words_free(struct words *words)
{
	free(words->bytes);
	free(words->word);
}
