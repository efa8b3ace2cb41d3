/* The dims of an operator's iteration space, and its access maps: which elements of a tensor an
 * iteration box touches.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERAND_H
#define FF_OPERAND_H

#include "ff/reduce.h"
#include "ff/region.h"

/* Labels of dims: the S, A and P of SOAP, and reduction. */
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
	uint8_t placed; /* a part's work depends on its position along it (row->flops) */
};

/* The elements along one tensor axis that the iteration box [lo, hi) touches:
 *   first = offset + sum_t floor(lo[dim_t] / div_t) * step_t
 *   end   = offset + sum_t floor((hi[dim_t] - 1) / div_t) * step_t + window
 * clamped to the axis.
 *   an axis cut as a dim is:  one term, div = step = window = 1
 *   an axis that is never cut:  no term, offset = 0, window = its size
 * With `over` != 0 (resampling) the sums, plus `from` in the first line and `to` in the second, are
 * divided by `over`, rounded down.  `only`: the box touches only its first or its last element. */
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

/* A tensor as one node reads or writes it. */
struct ff_operand {
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	struct ff_axis_map axis[FF_MAX_RANK];
	uint8_t order[FF_MAX_RANK]; /* in memory */
	uint8_t gradient;           /* enum ff_dtype of its gradient; a parameter's is float32 */
	uint8_t lead_only;          /* used only by parts whose R coordinates are all 0 (a bias) */
	uint8_t backward_only;      /* an input that forward does not read */
	uint8_t reduce; /* enum ff_reduce: combines the partial outputs of parts cut along R */
};

/* Of a map with `over`: the element that a sum of terms means. */
static inline int64_t ff_axis_over(const struct ff_axis_map *m, int64_t sum)
{
	return m->offset + (sum >= 0 ? sum / m->over : -((m->over - 1 - sum) / m->over));
}
/* The interval [*first, *end) of an axis that the iteration box [lo, hi) touches, clamped. */
void ff_axis_interval(const struct ff_axis_map *m, int32_t extent, const int32_t *lo,
		const int32_t *hi, int32_t *first, int32_t *end);

#endif
