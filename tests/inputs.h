/* Inputs of graphs that tests build.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_INPUTS_H
#define FF_TEST_INPUTS_H

#include <string.h>

#include "ff/builder.h"

/* Real numbers, or (`classes` more than 0) so many classes. */
static inline uint32_t add_input(struct ff_builder *b, const char *name, int32_t rank,
		const int32_t *shape, int32_t classes)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);

	a.input.rank = rank;
	memcpy(a.input.shape, shape, (size_t)rank * sizeof(*shape));
	a.input.dtype = classes ? FF_I32 : FF_F32;
	a.input.classes = classes;
	return ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
}

#endif
