// SPDX-License-Identifier: Apache-2.0
// What the GPUs are now: the file $LAB_NVML, read anew by each call of NVML's where it has changed.
//
// A line is `key = value`; `#` begins a comment. A key that is missing is a value that the GPU does not support.
#ifndef LAB_NVML_STATE_H
#define LAB_NVML_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum { STATE_KEY_MAX = 128, STATE_VALUE_MAX = 1024 };

// To be called as a call of NVML's begins, and not for each of its keys: a call of the true library asks the driver a few
// times, and this one should cost about as much.
void state_refresh(void);

// Copies the value of PREFIX.KEY, or of KEY where PREFIX is "". False: there is none.
bool state_text(const char *prefix, const char *key, char value[static STATE_VALUE_MAX]);

// The same as a number (decimal, 0x…, with a sign). False: there is none, or it is no number.
bool state_number(const char *prefix, const char *key, long long *value);

// Whether WORD is one of the blank-separated words of PREFIX.KEY; `*` there is every word.
bool state_has_word(const char *prefix, const char *key, const char *word);

#endif
