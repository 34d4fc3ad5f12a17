/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "shim.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* What a key of plugstack.conf allows; the first is the default. */
static const struct key {
	const char *name;
	const char *allowed[4];
} keys[] = {
	{ "misplaced", { "reject", "warn" } },
	{ "lint", { "warn", "reject", "off" } },
	{ "on_broken", { "run", "refuse" } },
};
enum { MISPLACED, LINT, ON_BROKEN };

static const char *const all_keys = "misplaced=reject|warn, lint=warn|reject|off, on_broken=run|refuse, config=PATH";

static const char *find(const char *const *allowed, const char *value)
{
	for (; *allowed; allowed++)
		if (strcmp(*allowed, value) == 0)
			return *allowed;
	return NULL;
}

static const struct key *find_key(const char *argument, size_t length)
{
	for (size_t i = 0; i < LENGTH(keys); i++)
		if (strlen(keys[i].name) == length && memcmp(keys[i].name, argument, length) == 0)
			return &keys[i];
	return NULL;
}

static void read_config(struct settings *settings, const char *path)
{
	if (path[0] == '/')
		settings->config = path;
	else
		slurm_error("stepguard: plugstack.conf: config=%s: an absolute path is needed; /etc/stepguard/stepguard.toml is used",
			    path);
}

const char *settings_config(int count, char **arguments)
{
	static const char key[] = "config=";
	const char *path = NULL;

	for (int i = 0; i < count; i++)
		if (strncmp(arguments[i], key, sizeof(key) - 1) == 0 && arguments[i][sizeof(key) - 1] == '/')
			path = arguments[i] + sizeof(key) - 1;
	return path;
}

void settings_read(struct settings *settings, int count, char **arguments)
{
	const char *chosen[LENGTH(keys)];

	for (size_t i = 0; i < LENGTH(keys); i++)
		chosen[i] = keys[i].allowed[0];
	for (int i = 0; i < count; i++) {
		const char *equals = strchr(arguments[i], '=');
		size_t length = equals ? (size_t)(equals - arguments[i]) : strlen(arguments[i]);
		const char *value = equals ? equals + 1 : "";
		const struct key *key = find_key(arguments[i], length);

		if (equals && length == strlen("config") && memcmp(arguments[i], "config", length) == 0) {
			read_config(settings, value);
		} else if (!key) {
			slurm_error("stepguard: plugstack.conf: unknown argument %s: ignored; known: %s", arguments[i], all_keys);
		} else if (find(key->allowed, value)) {
			chosen[key - keys] = find(key->allowed, value);
		} else {
			slurm_error("stepguard: plugstack.conf: %s=%s: not allowed, %s is used; known: %s", key->name, value,
				    key->allowed[0], all_keys);
		}
	}
	settings->misplaced_warns = chosen[MISPLACED] != keys[MISPLACED].allowed[0];
	settings->broken_refuses = chosen[ON_BROKEN] != keys[ON_BROKEN].allowed[0];
	for (int i = LINT_WARN; i <= LINT_OFF; i++)
		if (chosen[LINT] == keys[LINT].allowed[i])
			settings->lint = (enum lint)i;
}
