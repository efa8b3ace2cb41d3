/* The products that a matmul and its gradients are, for the kernels of every backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_MATMUL_H
#define FF_RUNTIME_MATMUL_H

#include "loops.h"

/* The output, and the gradients of both operands. */
enum ff_matmul_result { FF_MATMUL_OUT, FF_MATMUL_DA, FF_MATMUL_DB, FF_MATMUL_RESULTS };

/* C = L R for each of `batch`: `rows` x `inner` by `inner` x `columns`.  L and R are operand 0, 1
 * or (2) the output's gradient, each stored row-major, or so that its transpose is. */
struct ff_matmul {
	int64_t batch, rows, inner, columns;
	uint32_t left, right;
	bool left_transposed, right_transposed;
};

static inline struct ff_matmul ff_matmul_of(const struct ff_work *w, enum ff_matmul_result result)
{
	const struct ff_matmul_attrs *t = &w->node->attrs.matmul;
	const struct ff_region *out = &w->out[0];
	uint32_t last = out->rank - 1;
	bool ta = t->transpose_a, tb = t->transpose_b;
	int64_t m = ff_region_size(out, last - 1), n = ff_region_size(out, last);
	int64_t k = ff_region_size(&w->in[0], ta ? last - 1 : last);
	int64_t batch = ff_region_volume(out) / (m * n);

	if (result == FF_MATMUL_OUT)
		return (struct ff_matmul){batch, m, k, n, 0, 1, ta, tb};
	/* dA = dC B^T, or where A is stored as its transpose that one's, B dC^T; B likewise */
	if (result == FF_MATMUL_DA && !ta)
		return (struct ff_matmul){batch, m, n, k, 2, 1, false, !tb};
	if (result == FF_MATMUL_DA)
		return (struct ff_matmul){batch, k, n, m, 1, 2, tb, true};
	if (!tb)
		return (struct ff_matmul){batch, k, m, n, 0, 2, !ta, false};
	return (struct ff_matmul){batch, n, m, k, 2, 0, true, ta};
}

#endif
