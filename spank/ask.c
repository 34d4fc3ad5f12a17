/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>

#include "shim.h"

int ask(const struct stepguard_question *question, struct stepguard_answer *answer)
{
	answer->guard[0] = answer->text[0] = '\0';
	/* Never closed: a running interpreter cannot be unloaded. */
	void *bridge = dlopen(STEPGUARD_BRIDGE, RTLD_NOW | RTLD_LOCAL);
	/* POSIX has no other way from an object pointer to a function pointer. */
	union {
		void *object;
		stepguard_ask_f *function;
	} entry = { bridge ? dlsym(bridge, STEPGUARD_ASK_NAME) : NULL };

	if (!entry.object) {
		snprintf(answer->text, sizeof(answer->text), "cannot load the bridge: %s", dlerror());
		return STEPGUARD_BROKEN;
	}
	return entry.function(question, answer);
}
