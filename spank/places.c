/* SPDX-License-Identifier: Apache-2.0
 *
 * No allocation and nothing of Slurm in here: it is read between fork and exec.
 */
#include <stdio.h>
#include <string.h>

#include "places.h"

#define VERSION "1"
#define NAME_LENGTH_MAX 255
#define DIGITS_MAX 9 /* of any number: it fits into 32 bits without a question */

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* What a row says, or what is the node's own. */
static const char *const not_variables[] = { PLACES_NAME, "SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_GTIDS" };

struct reader {
	struct places *places;
	const char *node;
	int local_id;
	bool has_node;
	uint32_t node_rank_count;
	uint32_t rank_max; /* of all rows */
};

/* Moves *at behind a decimal number without sign and leading zeros. */
static bool read_number(const char **at, uint32_t *number)
{
	size_t digits = strspn(*at, DIGITS);

	if (digits == 0 || digits > DIGITS_MAX || (digits > 1 && **at == '0'))
		return false;
	for (*number = 0; digits > 0; digits--)
		*number = *number * 10 + (uint32_t)(*(*at)++ - '0');
	return true;
}

/* The same for 4 or 4-7. */
static bool read_range(const char **at, uint32_t *first, uint32_t *last)
{
	if (!read_number(at, first))
		return false;
	*last = *first;
	if (**at != '-')
		return true;
	(*at)++;
	return read_number(at, last) && *last >= *first;
}

static bool name_allowed(const char *name)
{
	size_t prefix = strncmp(name, "SLURM_", 6) == 0 ? 6 : strncmp(name, "STEPGUARD_", 10) == 0 ? 10 : 0;
	size_t rest = strspn(name + prefix, UPPER DIGITS "_");

	if (prefix == 0 || rest == 0 || name[prefix + rest] != '\0' || prefix + rest > NAME_LENGTH_MAX)
		return false;
	for (size_t i = 0; i < sizeof(not_variables) / sizeof(not_variables[0]); i++)
		if (strcmp(name, not_variables[i]) == 0)
			return false;
	return true;
}

static const char *find(const struct places *places, const char *name)
{
	for (int i = 0; i < places->variable_count; i++)
		if (strcmp(places->variable[i].name, name) == 0)
			return places->variable[i].value;
	return NULL;
}

static const char *read_variable(struct places *places, char *field)
{
	char *equals = strchr(field, '=');

	if (!equals)
		return "no = in it";
	*equals = '\0';
	if (!name_allowed(field))
		return "no name of a variable that may be set";
	if (find(places, field))
		return "a variable for the second time";
	if (strlen(equals + 1) > PLACES_VALUE_MAX)
		return "too long a value";
	if (places->variable_count == PLACES_VARIABLES_MAX)
		return "too many variables";
	places->variable[places->variable_count].name = field;
	places->variable[places->variable_count++].value = equals + 1;
	return NULL;
}

/* Writes first to last behind what stands in node_ranks. */
static bool add_ranks(struct places *places, size_t *length, uint32_t first, uint32_t last)
{
	for (uint32_t rank = first; rank <= last; rank++) {
		size_t room = sizeof(places->node_ranks) - *length;
		int size = snprintf(places->node_ranks + *length, room, "%s%u", *length > 0 ? "," : "", (unsigned)rank);

		if (size < 0 || (size_t)size >= room)
			return false;
		*length += (size_t)size;
	}
	return true;
}

static const char *read_ranks(struct reader *reader, const char *at, bool own)
{
	uint32_t count = 0, first, last, local_id = (uint32_t)reader->local_id;
	size_t length = 0;

	do {
		if (!read_range(&at, &first, &last))
			return "no ranks where some should be";
		if (last - first >= PLACES_RANKS_MAX - count)
			return "too many ranks on a node";
		if (own && !add_ranks(reader->places, &length, first, last))
			return "too many ranks on this node";
		if (own && local_id >= count && local_id - count <= last - first)
			reader->places->rank = first + (local_id - count);
		count += last - first + 1;
		if (last > reader->rank_max)
			reader->rank_max = last;
	} while (*at++ == ',');
	if (own)
		reader->node_rank_count = count;
	return at[-1] == '\0' ? NULL : "no ranks where some should be";
}

static const char *read_row(struct reader *reader, char *row)
{
	size_t length = strspn(row, UPPER LOWER DIGITS "._-");
	const char *at = row + length;
	uint32_t node_id;

	if (length == 0 || *at++ != '=')
		return "no node where one should be";
	row[length] = '\0';
	bool own = strcmp(row, reader->node) == 0;

	if (own && reader->has_node)
		return "this node for the second time";
	if (!read_number(&at, &node_id) || *at++ != ':')
		return "no number of the node where one should be";
	reader->places->has_rows = true;
	if (own) {
		reader->has_node = true;
		reader->places->node_id = node_id;
	}
	return read_ranks(reader, at, own);
}

/* What only all fields together show. */
static const char *check_rows(const struct reader *reader)
{
	const char *ntasks = find(reader->places, "SLURM_NTASKS");
	uint32_t bound;

	if (!reader->places->has_rows)
		return NULL;
	if (!ntasks || !read_number(&ntasks, &bound) || *ntasks != '\0')
		return "no number in SLURM_NTASKS";
	if (reader->rank_max >= bound)
		return "a rank that is not below SLURM_NTASKS";
	if (!reader->has_node)
		return "no row for this node";
	if (reader->local_id < 0 || (uint32_t)reader->local_id >= reader->node_rank_count)
		return "no rank for this task of the node";
	return NULL;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

const char *places_read(struct places *places, char *text, const char *node, int local_id)
{
	struct reader reader = { .places = places, .node = node, .local_id = local_id };
	const char *wrong = NULL;

	memset(places, 0, sizeof(*places));
	if (strnlen(text, PLACES_TEXT_MAX) == PLACES_TEXT_MAX)
		return "too long";
	if (!is_printable(text))
		return "a character that is not printable ASCII";
	for (char *field = text, *next; field && !wrong; field = next) {
		next = strchr(field, ';');
		if (next)
			*next++ = '\0';
		if (++places->field == 1)
			wrong = strcmp(field, VERSION) == 0 ? NULL : "not version " VERSION;
		else
			wrong = field[0] == '@' ? read_row(&reader, field + 1) : read_variable(places, field);
	}
	return wrong ? wrong : check_rows(&reader);
}
