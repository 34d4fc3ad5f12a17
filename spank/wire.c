/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define MAGIC "SGR1"
#define HEADER_SIZE (sizeof(MAGIC) - 1 + sizeof(uint32_t))
#define FIELD_NAME_MAX 32
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static void put_u32(unsigned char *at, size_t number)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(number >> 8 * i);
}

static size_t get_u32(const unsigned char *at)
{
	return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static bool has_field(const struct wire *wire, const char *name, size_t length)
{
	const unsigned char *end = wire->bytes + wire->size, *value;

	for (const unsigned char *field = wire->bytes + HEADER_SIZE; field < end; field = value + get_u32(value - 4)) {
		value = field + 1 + field[0] + 4;
		if (field[0] == length && memcmp(field + 1, name, length) == 0)
			return true;
	}
	return false;
}

/* Begins a field whose value gets `size` bytes at least. Returns where the value goes, or NULL: it is full now. */
static unsigned char *begin_field(struct wire *wire, const char *name, size_t size)
{
	size_t length = strnlen(name, FIELD_NAME_MAX + 1);
	size_t left = wire->room - wire->size, header = 1 + length + 4;

	if (wire->full || length > FIELD_NAME_MAX || strspn(name, LOWER DIGITS "_") != length || !strchr(LOWER, name[0]) ||
	    length == 0 || wire->field_count == WIRE_FIELDS_MAX || header > left || size > left - header ||
	    has_field(wire, name, length)) {
		wire->full = true;
		return NULL;
	}
	unsigned char *field = wire->bytes + wire->size;

	field[0] = (unsigned char)length;
	memcpy(field + 1, name, length);
	return field + header;
}

static void end_field(struct wire *wire, unsigned char *value, size_t size)
{
	put_u32(value - 4, size);
	wire->size = (size_t)(value - wire->bytes) + size;
	wire->field_count++;
	put_u32(wire->bytes + sizeof(MAGIC) - 1, wire->size - HEADER_SIZE);
}

bool wire_begin(struct wire *wire, const char *kind, size_t body_max)
{
	memset(wire, 0, sizeof(*wire));
	wire->room = HEADER_SIZE + (body_max < WIRE_BODY_MAX ? body_max : WIRE_BODY_MAX);
	wire->bytes = malloc(wire->room);
	if (!wire->bytes) {
		wire->room = 0;
		wire->full = true;
		return false;
	}
	memcpy(wire->bytes, MAGIC, sizeof(MAGIC) - 1);
	put_u32(wire->bytes + sizeof(MAGIC) - 1, 0);
	wire->size = HEADER_SIZE;
	return wire_add_text(wire, "kind", kind);
}

bool wire_add(struct wire *wire, const char *name, const void *value, size_t size)
{
	unsigned char *to = begin_field(wire, name, size);

	if (!to)
		return false;
	if (size > 0)
		memcpy(to, value, size);
	end_field(wire, to, size);
	return true;
}

bool wire_add_text(struct wire *wire, const char *name, const char *text)
{
	return wire_add(wire, name, text, strlen(text));
}

bool wire_add_number(struct wire *wire, const char *name, uint64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	return wire_add_text(wire, name, digits);
}

uint64_t wire_clock_ns(int clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool wire_add_times(struct wire *wire)
{
	char boot_id[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, boot_id, sizeof(boot_id));

	if (fd >= 0)
		close(fd);
	while (size > 0 && boot_id[size - 1] == '\n')
		size--;
	return wire_add_number(wire, "time_ns", wire_clock_ns(CLOCK_REALTIME)) &&
	       wire_add_number(wire, "boottime_ns", wire_clock_ns(CLOCK_BOOTTIME)) &&
	       (size <= 0 || wire_add(wire, "boot_id", boot_id, (size_t)size));
}

static size_t list_size(char *const *list, bool (*wanted)(const char *entry))
{
	size_t size = 0;

	for (; list && *list; list++)
		if (!wanted || wanted(*list))
			size += strlen(*list) + 1;
	return size;
}

bool wire_add_list(struct wire *wire, const char *name, char *const *list, bool (*wanted)(const char *entry),
		   size_t size_max, enum wire_long overlong)
{
	char size_name[FIELD_NAME_MAX + 1];
	size_t size = 0;

	snprintf(size_name, sizeof(size_name), "%.*s_size", (int)(FIELD_NAME_MAX - strlen("_size")), name);
	if (!wire_add_number(wire, size_name, list_size(list, wanted)))
		return false;
	unsigned char *value = begin_field(wire, name, 0);

	if (!value)
		return false;
	size_t room = (size_t)(wire->bytes + wire->room - value);

	if (room > size_max)
		room = size_max;
	for (; list && *list; list++) {
		size_t entry_size = strlen(*list) + 1;

		if (wanted && !wanted(*list))
			continue;
		if (entry_size <= room - size) {
			memcpy(value + size, *list, entry_size);
			size += entry_size;
		} else if (overlong == WIRE_LONG_ENDS) {
			break;
		}
	}
	end_field(wire, value, size);
	return true;
}

void wire_free(struct wire *wire)
{
	free(wire->bytes);
	memset(wire, 0, sizeof(*wire));
}
