/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "node_list.h"

#define DIGITS "0123456789"
#define DIGITS_MAX 18 /* of a number: it fits into 63 bits */
#define BETWEEN ", \t\n" /* elements */

static bool read_number(const char **at, uint64_t *number)
{
	size_t digits = strspn(*at, DIGITS);

	if (digits == 0 || digits > DIGITS_MAX)
		return false;
	for (*number = 0; digits > 0; digits--)
		*number = *number * 10 + (uint64_t)(*(*at)++ - '0');
	return true;
}

/* 7 or 01-03: the first number says how many digits all have. */
static bool begin_range(struct node_bracket *bracket, const char *at)
{
	const char *start = at;

	if (!read_number(&at, &bracket->value))
		return false;
	bracket->width = (int)(at - start);
	bracket->last = bracket->value;
	if (*at == '-' && (at++, !read_number(&at, &bracket->last)))
		return false;
	bracket->next_range = *at == ',' ? at + 1 : NULL;
	return (*at == ',' || *at == ']') && bracket->last >= bracket->value;
}

static const char *begin_element(struct node_list *list)
{
	const char *at = list->at;

	for (;;) {
		size_t length = strcspn(at, "[]" BETWEEN);

		if (length > NODE_NAME_MAX)
			return "too long a name";
		if (at[length] == ']')
			return "a ] without a [";
		if (at[length] != '[') {
			if (length > 0 && list->bracket_count > 0)
				return "a text behind the last bracket";
			if (list->bracket_count == 0) {
				memcpy(list->name, at, length);
				list->name[length] = '\0';
			}
			list->at = at + length;
			return NULL;
		}
		if (list->bracket_count == NODE_LIST_BRACKETS_MAX)
			return "too many brackets";
		struct node_bracket *bracket = &list->bracket[list->bracket_count++];

		bracket->prefix = at;
		bracket->prefix_length = (int)length;
		bracket->inside = at + length + 1;
		at = bracket->inside + strcspn(bracket->inside, "[]");
		if (*at != ']' || !begin_range(bracket, bracket->inside))
			return "no numbers between brackets";
		at++;
	}
}

static const char *put_name(struct node_list *list)
{
	size_t length = 0;

	for (int i = 0; i < list->bracket_count; i++) {
		const struct node_bracket *bracket = &list->bracket[i];
		size_t room = sizeof(list->name) - length;
		int size = snprintf(list->name + length, room, "%.*s%0*llu", bracket->prefix_length, bracket->prefix,
				    bracket->width, (unsigned long long)bracket->value);

		if (size < 0 || (size_t)size >= room)
			return "too long a name";
		length += (size_t)size;
	}
	return NULL;
}

/* Turns the brackets on as Slurm does: the last one fastest, then the first, then the second. The element is over when
 * all have come round. */
static const char *turn(struct node_list *list)
{
	for (int turned = 0; turned < list->bracket_count; turned++) {
		struct node_bracket *bracket = &list->bracket[turned == 0 ? list->bracket_count - 1 : turned - 1];

		if (bracket->value < bracket->last) {
			bracket->value++;
			return NULL;
		}
		const char *next = bracket->next_range;

		if (!begin_range(bracket, next ? next : bracket->inside))
			return "no numbers between brackets";
		if (next)
			return NULL;
	}
	list->bracket_count = 0;
	return NULL;
}

void node_list_begin(struct node_list *list, const char *text)
{
	list->at = text;
	list->count = 0;
	list->wrong = NULL;
	list->bracket_count = 0;
}

const char *node_list_next(struct node_list *list)
{
	if (!list->wrong && list->bracket_count > 0)
		list->wrong = turn(list);
	if (list->wrong)
		return NULL;
	if (list->bracket_count == 0) {
		list->at += strspn(list->at, BETWEEN);
		if (*list->at == '\0')
			return NULL;
		list->wrong = begin_element(list);
	}
	if (!list->wrong && list->bracket_count > 0)
		list->wrong = put_name(list);
	if (!list->wrong && ++list->count > NODE_LIST_NAMES_MAX)
		list->wrong = "too many names";
	return list->wrong ? NULL : list->name;
}
