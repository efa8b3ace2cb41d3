/* cuBLASLt behind a few verbs; only blas.c calls it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_BLAS_H
#define FF_CUDA_BLAS_H

#include "cuda/core/device.h"
#include "cuda/core/epilogue.h"

struct ff_blas;
struct ff_product;
struct ff_kernel;

void ff_blas_close(struct ff_blas *b);

/* C = A B + bias: `rows` x `inner`, `inner` x `columns`, all row-major unless transposed;
 * bias is one number a column, of all matrices or, where those of C lie beside each other, of each.
 * Sums are float32. */
struct ff_product_shape {
	int64_t rows, inner, columns;
	int64_t batch; /* so many of each, one behind the other; 0: one */
	bool a_shared; /* one A for all of a batch */
	/* Matrices of a batch lie beside each other instead: their rows are pieces of longer rows.
	 */
	bool a_beside, b_beside, c_beside;
	bool a_transposed, b_transposed, has_bias;
	bool gives_sums; /* instead of taking a bias: the sum of each row of A, of type `sink` */
	enum ff_epilogue epilogue;
	enum ff_dtype type, sink; /* of A, B and bias; of C */
};

/* Chooses how; the kernel's scratchpad is as large as that needs.  Where there is none with the
 * epilogue, or with one A for a batch, the kernel is declined. */
int ff_product_create(struct ff_kernel *k, const struct ff_product_shape *shape,
		struct ff_product **ret, struct ff_error *err);
void ff_product_destroy(struct ff_product *p);
/* Whether it does give the sums that it was asked for. */
bool ff_product_gives_sums(const struct ff_product *p);
/* Where the next run of one with FF_EPILOGUE_GELU_KEEPS writes what its epilogue is of; where that
 * of one with FF_EPILOGUE_GELU_SLOPE reads it. */
int ff_product_keep(const struct ff_kernel *k, const struct ff_product *p, const void *kept,
		struct ff_error *err);
/* From now on it adds to what C has. */
void ff_product_add(struct ff_product *p);
/* `bias` is written where that is the place of the sums. */
int ff_product_run(const struct ff_kernel *k, const struct ff_product *p, cudaStream_t queue,
		const void *a, const void *b, const void *bias, void *c, void *scratch,
		struct ff_error *err);

#endif
