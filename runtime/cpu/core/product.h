/* Products of two matrices by oneDNN's matmul.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_PRODUCT_H
#define FF_CPU_PRODUCT_H

#include "dnnl.h"

/* C = A B: `rows` x `inner`, `inner` x `columns`; C is row-major, and so are the others
 * unless they are transposed. */
struct ff_product {
	int64_t rows, inner, columns;
	bool a_transposed, b_transposed, has_bias; /* one a column */
	enum ff_dtype type, sink;                  /* of A, B and bias; of C */
};

/* Arguments of the call: A, B, C, bias. */
int ff_product_prepare(struct ff_kernel *k, const struct ff_product *p, struct ff_call **ret,
		struct ff_error *err);

/* The same for a B that many products share: `pack`'s arguments are B and where it is put as
 * oneDNN likes it best, `packed_bytes` long, which then stands for B; NULL where it is as it is. */
int ff_product_prepare_packed(struct ff_kernel *k, const struct ff_product *p,
		struct ff_call **pack, int64_t *packed_bytes, struct ff_call **ret,
		struct ff_error *err);

/* Of a matrix of `columns`: what its rows add up to, one behind the other, in float32. */
void ff_column_sums(enum ff_dtype type, int64_t rows, int64_t columns, const void *x, float *sum);

#endif
