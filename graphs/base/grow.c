/* Growing arrays.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/grow.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 64 /* elements */

/* Room that doubles until there is some behind `n`. */
static uint32_t enough(uint32_t n, uint32_t cap)
{
	do
		cap = cap ? 2 * cap : LEAST;
	while (cap <= n);
	return cap;
}

int ff_grow(void *array, uint32_t n, uint32_t *cap, size_t size, struct ff_error *err)
{
	uint32_t more = enough(n, *cap);
	void *old, *new;

	if (n < *cap)
		return FF_OK;
	memcpy(&old, array, sizeof(old));
	new = realloc(old, more * size);
	if (!new)
		return ff_fail_memory(err);
	memcpy(array, &new, sizeof(new));
	*cap = more;
	return FF_OK;
}

void *ff_grow_in(struct ff_arena *a, void *array, uint32_t n, uint32_t *cap, size_t size)
{
	uint32_t more = enough(n, *cap);
	void *new;

	if (n < *cap)
		return array;
	new = ff_arena_array(a, more, size);
	if (!new)
		return NULL;
	if (n)
		memcpy(new, array, n * size);
	*cap = more;
	return new;
}
