/* Operator table: the rows by enumerator and by name, and the one function
 * that turns access maps into regions.  SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "derive.h"

const struct ff_op_row *const ff_op_rows[FF_OP_COUNT] = {
#define FF_OP_ROW(e, row) [e] = &ff_op_##row,
		FF_OPS(FF_OP_ROW)
#undef FF_OP_ROW
};

const struct ff_op_row *ff_op_find(const char *name, enum ff_op *ret)
{
	for (uint32_t i = 0; i < FF_OP_COUNT; i++)
		if (!strcmp(ff_op_rows[i]->name, name) &&
				!(ff_op_rows[i]->flags & (FF_OP_UPDATE | FF_OP_PRELUDE))) {
			*ret = (enum ff_op)i;
			return ff_op_rows[i];
		}
	return NULL;
}

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

static bool leads(const struct ff_node *n, const struct ff_region *box)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION && box->lo[d] > 0)
			return false;
	return true;
}

void ff_operand_region(const struct ff_node *node, const struct ff_operand *operand,
		const struct ff_region *box, struct ff_region *ret)
{
	bool used = !operand->lead_only || leads(node, box);

	ret->rank = operand->rank;
	for (uint32_t i = 0; i < operand->rank; i++) {
		ff_axis_interval(&operand->axis[i], operand->shape[i], box->lo, box->hi,
				&ret->lo[i], &ret->hi[i]);
		if (!used)
			ret->hi[i] = ret->lo[i];
	}
}
