/* SPDX-License-Identifier: Apache-2.0
 *
 * The little of stepguard.toml that C needs, line by line: no TOML parser belongs into slurmstepd or a hook. `stepguard
 * agent --check` says what is wrong with the file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

#ifndef STEPGUARD_CONFIG
#define STEPGUARD_CONFIG "/etc/stepguard/stepguard.toml"
#endif
#define FILE_SIZE_MAX (1 << 20) /* as config.py */
#define LINE_MAX_SIZE 1024
#define DIGITS_MAX 9
#define DEADLINE_MAX_MS 60000 /* as config.py */
#define BLANKS " \t\r"

static char *skip_blanks(char *at)
{
	return at + strspn(at, BLANKS);
}

static bool is_end(char *at)
{
	at = skip_blanks(at);
	return *at == '\0' || *at == '#';
}

/* The text between quotes: an absolute path that fits. One with an escape is not understood. */
static void read_path(char *value, char *to, size_t to_size)
{
	char quote = *value;
	char *end = quote == '"' || quote == '\'' ? strchr(value + 1, quote) : NULL;

	if (!end || !is_end(end + 1) || value[1] != '/' || (size_t)(end - value) > to_size)
		return;
	*end = '\0';
	if (quote == '"' && strchr(value, '\\'))
		return;
	memset(to, 0, to_size);
	memcpy(to, value + 1, (size_t)(end - value) - 1);
}

static void read_number(char *value, unsigned max, unsigned *to)
{
	size_t digits = strspn(value, "0123456789");
	unsigned number = 0;

	if (digits == 0 || digits > DIGITS_MAX || !is_end(value + digits))
		return;
	for (size_t i = 0; i < digits; i++)
		number = number * 10 + (unsigned)(value[i] - '0');
	if (number > 0 && number <= max)
		*to = number;
}

static void read_flag(char *value, bool *to)
{
	size_t length = strcspn(value, BLANKS "#");
	bool is_true = length == 4 && memcmp(value, "true", 4) == 0;

	if ((is_true || (length == 5 && memcmp(value, "false", 5) == 0)) && is_end(value + length))
		*to = is_true;
}

static void read_key(struct agent_settings *settings, char *line)
{
	size_t length = strcspn(line, "=" BLANKS);
	char *equals = skip_blanks(line + length);

	if (*equals != '=')
		return;
	char *value = skip_blanks(equals + 1);

	line[length] = '\0';
	if (strcmp(line, "socket") == 0)
		read_path(value, settings->socket, sizeof(settings->socket));
	else if (strcmp(line, "spool") == 0)
		read_path(value, settings->spool, sizeof(settings->spool));
	else if (strcmp(line, "deadline_ms") == 0)
		read_number(value, DEADLINE_MAX_MS, &settings->deadline_ms);
	else if (strcmp(line, "gate") == 0)
		read_flag(value, &settings->gate);
	else if (strcmp(line, "repair_nodelist") == 0)
		read_flag(value, &settings->repair_nodelist);
}

static bool is_agent_section(char *line)
{
	char *name = skip_blanks(line + 1);
	char *end = skip_blanks(name + strcspn(name, "]" BLANKS));

	return strncmp(name, "agent", 5) == 0 && strchr("]" BLANKS, name[5]) && *end == ']' && is_end(end + 1);
}

static void read_lines(struct agent_settings *settings, const char *text, size_t size)
{
	bool in_section = false;

	for (const char *at = text, *next; at < text + size; at = next) {
		const char *newline = memchr(at, '\n', (size_t)(text + size - at));
		size_t length = (size_t)((newline ? newline : text + size) - at);
		char line[LINE_MAX_SIZE];

		next = at + length + 1;
		if (length >= sizeof(line) || memchr(at, '\0', length))
			continue;
		memcpy(line, at, length);
		line[length] = '\0';
		char *first = skip_blanks(line);

		if (*first == '[')
			in_section = is_agent_section(first);
		else if (in_section)
			read_key(settings, first);
	}
}

void agent_settings_read(struct agent_settings *settings, const char *path)
{
	int fd = open(path ? path : STEPGUARD_CONFIG, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	*settings = (struct agent_settings){
		.socket = "/run/stepguard/agent.sock",
		.spool = "/var/spool/stepguard",
		.deadline_ms = 500,
	};
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 && status.st_size <= FILE_SIZE_MAX) {
		char *text = malloc((size_t)status.st_size);
		ssize_t size = text ? read(fd, text, (size_t)status.st_size) : -1;

		if (size > 0)
			read_lines(settings, text, (size_t)size);
		free(text);
	}
	close(fd);
}
