/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads host lists, one a line, and prints the names of each on one line, or "! what is wrong".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_list.h"

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	while ((length = getline(&line, &room, stdin)) > 0) {
		/* Exactly as large as needed: one byte more would be seen. */
		char *text = strndup(line, (size_t)length - (line[length - 1] == '\n'));
		struct node_list list;
		const char *name;

		node_list_begin(&list, text);
		while ((name = node_list_next(&list)))
			printf("%s ", name);
		if (list.wrong)
			printf("! %s", list.wrong);
		putchar('\n');
		free(text);
	}
	free(line);
	return 0;
}
