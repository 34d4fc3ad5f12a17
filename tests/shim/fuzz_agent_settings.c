/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes a good file at random and has it read: nothing may be overrun, and what is taken is usable.
 *
 * Usage: fuzz_agent_settings SEED ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzzing.h"
#include "wire.h"

static const char seed[] = "# a comment\n[archive]\ndir = \"/a\"\n[agent] # here\n  socket = \"/run/s.sock\"\r\nspool='/var/s'\n"
			   "deadline_ms = 70 # ms\ngate = true\nrepair_nodelist=false\n[resume]\nsocket = 1\n";
static const char *const words[] = { "\n", "[agent]", "[[agent]]", "=", "\"", "'", "\\", "#", " ", "\t", "]", "[",
				     "socket = \"/", "spool", "deadline_ms = 99999999", "4294967296", "true", "\xff", "\r" };

/* Returns the size of what it wrote into the file. */
static size_t write_mutated(int fd)
{
	static char text[4096];
	size_t size = sizeof(seed) - 1;

	memcpy(text, seed, size);
	for (unsigned changes = below(6); changes > 0; changes--) {
		size_t at = below((unsigned)size + 1), part = below((unsigned)(size - at) + 1);
		const char *word = words[below(sizeof(words) / sizeof(words[0]))];

		switch (below(5)) {
		case 0:
			if (at < size)
				text[at] = (char)below(256);
			break;
		case 1: /* a piece less */
			part = part < 8 ? part : 8;
			memmove(text + at, text + at + part, size - at - part);
			size -= part;
			break;
		case 2: /* the end less */
			size = at;
			break;
		case 3: /* a word more, once or often */
			for (unsigned times = below(8) ? 1 : 300; times > 0 && size + strlen(word) <= sizeof(text); times--) {
				memmove(text + at + strlen(word), text + at, size - at);
				memcpy(text + at, word, strlen(word));
				size += strlen(word);
			}
			break;
		default: /* a part of itself once more */
			if (size + part <= sizeof(text)) {
				memcpy(text + size, text + at, part);
				size += part;
			}
		}
	}
	MUST(ftruncate(fd, 0) == 0 && pwrite(fd, text, size, 0) == (ssize_t)size);
	return size;
}

int main(int argc, char **argv)
{
	unsigned long changed = 0;
	struct agent_settings settings, defaults;
	char path[64];
	int fd = memfd_create("settings", MFD_CLOEXEC);

	begin_fuzzing(argc, argv);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	agent_settings_read(&defaults, "/nonexistent");
	for (; fuzzing.round_number < fuzzing.rounds; fuzzing.round_number++) {
		write_mutated(fd);
		memset(&settings, 0xff, sizeof(settings));
		agent_settings_read(&settings, path);
		MUST(settings.socket[0] == '/' && strnlen(settings.socket, sizeof(settings.socket)) < sizeof(settings.socket));
		MUST(settings.spool[0] == '/' && strnlen(settings.spool, sizeof(settings.spool)) < sizeof(settings.spool));
		MUST(settings.deadline_ms >= 1 && settings.deadline_ms <= 60000);
		MUST(!strpbrk(settings.socket, "\n\"\\") || !strpbrk(settings.socket, "\n'"));
		changed += settings.deadline_ms != defaults.deadline_ms;
	}
	printf("%lu of %lu took something\n", changed, fuzzing.rounds);
	return 0;
}
