/* What all rows of the operator table have, and access maps along one axis.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/op.h"

#include <stdbool.h>

void ff_op_count(enum ff_op op, const union ff_attrs *attrs, struct ff_op_counts *ret)
{
	const struct ff_op_row *row = ff_op_rows[op];

	*ret = (struct ff_op_counts){.out = 1};
	if (row->count) {
		row->count(attrs, ret);
		return;
	}
	while (ret->params < FF_MAX_PARAMS && row->param[ret->params])
		ret->params++;
}

static int32_t clamp(int64_t v, int32_t max)
{
	return v < 0 ? 0 : v > max ? max : (int32_t)v;
}

/* Most terms divide by one, and dividing takes time. */
static int64_t term_at(const struct ff_term *t, int32_t at)
{
	return (int64_t)(t->div == 1 ? at : at / t->div) * t->step;
}

void ff_axis_interval(const struct ff_axis_map *m, int32_t extent, const int32_t *lo,
		const int32_t *hi, int32_t *first, int32_t *end)
{
	int64_t a = m->over ? m->from : m->offset;
	int64_t b = m->over ? m->to : (int64_t)m->offset + m->window;
	bool empty = false;

	for (uint32_t t = 0; t < m->n_terms; t++) {
		const struct ff_term *term = &m->term[t];
		int32_t from = lo[term->dim], to = hi[term->dim] - 1;

		a += term_at(term, m->only == FF_ONLY_LAST ? to : from);
		b += term_at(term, m->only == FF_ONLY_FIRST ? from : to);
		empty = empty || hi[term->dim] <= lo[term->dim];
	}
	if (m->over) {
		a = ff_axis_over(m, a);
		b = ff_axis_over(m, b) + m->window;
	}
	if (empty) /* an empty box touches nothing */
		b = INT32_MIN;
	*first = clamp(a, extent);
	*end = clamp(b, extent);
	if (*end < *first)
		*end = *first;
}
