/* Operator table: the rows by enumerator and by name, and the one function
 * that turns access maps into regions.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "derive.h"

static const struct ff_op_row *const rows[FF_OP_COUNT] = {
#define FF_OP_ROW(e, row) [e] = &ff_op_##row,
		FF_OPS(FF_OP_ROW)
#undef FF_OP_ROW
};

const struct ff_op_row *ff_op_row(enum ff_op op)
{
	return rows[op];
}

const struct ff_op_row *ff_op_find(const char *name, enum ff_op *ret)
{
	for (uint32_t i = 0; i < FF_OP_COUNT; i++)
		if (!strcmp(rows[i]->name, name)) {
			*ret = (enum ff_op)i;
			return rows[i];
		}
	return NULL;
}

static int32_t clamp(int64_t v, int32_t max)
{
	return v < 0 ? 0 : v > max ? max : (int32_t)v;
}

void ff_operand_region(const struct ff_operand *operand, const struct ff_region *box,
		struct ff_region *ret)
{
	ret->rank = operand->rank;
	for (uint32_t i = 0; i < operand->rank; i++) {
		const struct ff_axis_map *m = &operand->axis[i];
		int64_t first = m->offset, end = (int64_t)m->offset + m->window;
		for (uint32_t t = 0; t < m->n_terms; t++) {
			const struct ff_term *term = &m->term[t];
			int32_t lo = box->lo[term->dim], hi = box->hi[term->dim];
			first += (int64_t)(lo / term->div) * term->step;
			end += (int64_t)((hi - 1) / term->div) * term->step;
			if (hi <= lo) /* an empty box touches nothing */
				end = INT32_MIN;
		}
		ret->lo[i] = clamp(first, operand->shape[i]);
		ret->hi[i] = clamp(end, operand->shape[i]);
		if (ret->hi[i] < ret->lo[i])
			ret->hi[i] = ret->lo[i];
	}
}
