/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes messages of random fields, with hostile names and sizes: after each call a message is one that
 * python/stepguard/records/wire.py decodes.
 *
 * Usage: fuzz_wire SEED ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "wire.h"

static const char *const names[] = {
	"a", "b9", "time_ns", "environment", "environment_size", "kind", "", "_a", "9a", "A", "a-b", "a b", "\xff",
	"a234567890123456789012345678901", "a2345678901234567890123456789012", "a23456789012345678901234567890123",
	"a234567890123456789012345678901234567890",
};
static char *lists[] = { "A=1", "", "LONG=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "B", NULL };

static size_t u32(const unsigned char *at)
{
	return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static void check(const struct wire *wire)
{
	const unsigned char *at = wire->bytes + 8, *end = wire->bytes + wire->size;
	const unsigned char *seen[WIRE_FIELDS_MAX];
	int count = 0;

	MUST(wire->size <= wire->room && wire->size >= 8);
	MUST(memcmp(wire->bytes, "SGR1", 4) == 0 && u32(wire->bytes + 4) == wire->size - 8);
	while (at < end) {
		size_t length = at[0];

		MUST(count < WIRE_FIELDS_MAX && length >= 1 && length <= 32 && (size_t)(end - at) >= 5 + length);
		MUST(at[1] >= 'a' && at[1] <= 'z');
		for (size_t i = 1; i <= length; i++)
			MUST(at[i] && strchr("abcdefghijklmnopqrstuvwxyz0123456789_", at[i]));
		for (int i = 0; i < count; i++)
			MUST(seen[i][0] != at[0] || memcmp(seen[i], at, 1 + length) != 0);
		seen[count++] = at;
		at += 5 + length;
		MUST(u32(at - 4) <= (size_t)(end - at));
		at += u32(at - 4);
	}
	MUST(count >= 1 && memcmp(wire->bytes + 8, "\4kind", 5) == 0 && count == wire->field_count);
}

static void add(struct wire *wire)
{
	static const char bytes[300] = "value";
	char many[8];
	const char *name = names[below(sizeof(names) / sizeof(names[0]))];
	bool was_full = wire->full, added;
	int count = wire->field_count;

	if (below(32) > 0) {
		snprintf(many, sizeof(many), "f%u", below(4000));
		name = many;
	}
	switch (below(60)) {
	case 0: /* nothing of this may be looked at */
		added = wire_add(wire, name, bytes, (size_t)-1 - below(64));
		MUST(!added);
		break;
	case 1:
		added = wire_add(wire, name, bytes, wire->room - 8 + below(8));
		MUST(!added);
		break;
	case 2 ... 20:
		added = wire_add_number(wire, name, (uint64_t)-1);
		break;
	case 21 ... 30:
		added = wire_add_list(wire, name, below(4) ? lists : NULL, NULL, below(100),
				      below(2) ? WIRE_LONG_ENDS : WIRE_LONG_LEFT_OUT);
		break;
	case 31 ... 35:
		added = wire_add(wire, name, NULL, 0);
		break;
	default:
		added = wire_add(wire, name, bytes, below(sizeof(bytes)));
	}
	MUST(!(was_full && added) && added != wire->full);
	MUST(!was_full || wire->field_count == count);
}

int main(int argc, char **argv)
{
	unsigned long fields = 0;

	begin_fuzzing(argc, argv);
	for (; fuzzing.round_number < fuzzing.rounds; fuzzing.round_number++) {
		struct wire wire;

		MUST(wire_begin(&wire, "prolog", below(64) ? 32 + below(4000) : (size_t)-1 - below(2)));
		check(&wire);
		for (unsigned i = below(70); i > 0; i--) {
			add(&wire);
			check(&wire);
		}
		fields += (unsigned long)wire.field_count;
		wire_free(&wire);
	}
	printf("%lu fields in %lu messages\n", fields, fuzzing.rounds);
	return 0;
}
