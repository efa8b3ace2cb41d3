/* Dims of an operator's iteration space, and access maps: which elements of a tensor a box of it
 * touches.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERAND_H
#define FF_OPERAND_H

#include "ff/reduce.h"
#include "ff/region.h"

/* The dimension labels of SOAP, and the reduction. */
enum ff_label {
	FF_DIM_SAMPLE = 'S',
	FF_DIM_ATTRIBUTE = 'A',
	FF_DIM_PARAMETER = 'P',
	FF_DIM_REDUCTION = 'R'
};

/* One axis of an operator's iteration space. */
struct ff_dim {
	enum ff_label label;
	const char *name; /* unique in the node; the key of a strategy's "degrees" */
	int32_t extent;
	uint8_t placed; /* where a part lies along it changes its work: row->flops says how */
};

/* Which elements along one tensor axis the iteration box [lo, hi) touches:
 *   first = offset + sum_t floor(lo[dim_t] / div_t) * step_t
 *   end   = offset + sum_t floor((hi[dim_t] - 1) / div_t) * step_t + window
 * clamped to the axis.  Where `over` is not 0 those sums, and `from` for the first, `to` for the
 * last, are divided by it, rounded down: elements that lie between others.  A plain axis has one
 * term with div = step = window = 1; an axis that is always whole has no term, offset 0 and window
 * = its size.  `only`: of the box's own elements the first or the last stands for all. */
struct ff_term {
	int32_t dim, div, step;
};
enum ff_only { FF_ONLY_NONE, FF_ONLY_FIRST, FF_ONLY_LAST };
struct ff_axis_map {
	uint32_t n_terms;
	struct ff_term term[2];
	int32_t offset, window;
	int32_t from, to, over;
	int32_t only; /* enum ff_only */
};

/* One tensor as one node sees it. */
struct ff_operand {
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	struct ff_axis_map axis[FF_MAX_RANK];
	uint8_t order[FF_MAX_RANK]; /* in memory */
	uint8_t gradient;      /* enum ff_dtype of its gradient: its own, of a parameter float32 */
	uint8_t lead_only;     /* used only by parts whose R coordinates are all 0 (a bias) */
	uint8_t backward_only; /* of an input: forward does not look at it */
	uint8_t reduce;        /* enum ff_reduce; of an output: what makes its elements of what
				* parts cut along R write */
};

/* A sum of the terms of a map that has `over`: the element that it stands for. */
static inline int64_t ff_axis_over(const struct ff_axis_map *m, int64_t sum)
{
	return m->offset + (sum >= 0 ? sum / m->over : -((m->over - 1 - sum) / m->over));
}
/* Positions of one axis that an iteration box [lo, hi) touches (clamped). */
void ff_axis_interval(const struct ff_axis_map *m, int32_t extent, const int32_t *lo,
		const int32_t *hi, int32_t *first, int32_t *end);

#endif
