/* What somebody who mistyped a name may have meant, and which names there are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NEAREST_H
#define FF_NEAREST_H

#include <stdint.h>

#define FF_NEAREST_KNOWN 320 /* bytes of names that are listed, the NUL included */
#define FF_NEAREST_LENGTH 64 /* names are looked at up to here, the NUL included */

struct ff_nearest {
	char word[FF_NEAREST_LENGTH]; /* what was typed */
	char name[FF_NEAREST_LENGTH]; /* the nearest so far; "": none is near */
	uint32_t apart;               /* letters between the two */
	char known[FF_NEAREST_KNOWN]; /* all, as far as there is room */
	char hint[FF_NEAREST_KNOWN + FF_NEAREST_LENGTH + 32];
};

void ff_nearest_init(struct ff_nearest *n, const char *word);
/* One of those that there are.  The first of two that are as near is kept. */
void ff_nearest_try(struct ff_nearest *n, const char *name);
/* Each of "a|b|c". */
void ff_nearest_try_choices(struct ff_nearest *n, const char *choices);
/* Each in a folder, by the alphabet, those only that end with `suffix`, and without it; a folder
 * that cannot be read has none. */
void ff_nearest_try_folder(struct ff_nearest *n, const char *folder, const char *suffix);
/* "; did you mean NAME?", or "" where nothing is near.  Lies in `n`. */
const char *ff_nearest_hint(struct ff_nearest *n);
/* ", only A, B, C" and then what ff_nearest_hint says; ", as there are none".  Lies in `n`. */
const char *ff_nearest_known(struct ff_nearest *n);

#endif
