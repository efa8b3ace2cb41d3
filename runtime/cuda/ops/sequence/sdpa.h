/* Attention by cuDNN's graphs: a plan of a slice of it, and the kernels around it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_SDPA_H
#define FF_CUDA_SDPA_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

struct ff_error;
struct ff_kernel;
struct ff_dnn_plan;

#define FF_SDPA_ALIGN 16 /* bytes: of what begins at any head of a multiple of 8 elements */

/* Which keys a query looks at: all; as many as its own number; of k keys and q queries as many
 * as its number and k - q. */
enum ff_sdpa_causal { FF_SDPA_ALL, FF_SDPA_FROM_FIRST, FF_SDPA_TO_LAST };

/* What one run does: so many of the samples and heads of a part, bfloat16 that lies as
 * struct ff_attention has it.  The mask is dense, of one head or of all. */
struct ff_sdpa_shape {
	int64_t samples, heads, key_heads, queries, keys, size;
	int64_t all_heads, all_key_heads, all_keys; /* of the part's arrays */
	int64_t mask_heads;                         /* 0: no mask */
	int32_t causal, backward;
};

/* Where the slice begins in each.  `stats`: logarithm of the sum of exponentials, by row.
 * Backward, what is made of `out` is its products with `dout`, summed by row, in `sums`. */
struct ff_sdpa_values {
	const void *query, *key, *value, *mask;
	void *out;
	float *stats;
	float scale;
	const void *dout;
	float *sums;
	void *dquery, *dkey, *dvalue;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Shapes are zeroed before they are filled.  NULL where cuDNN has none, or it is one that is known
 * to be wrong. */
int ff_sdpa_find(struct ff_kernel *k, const struct ff_sdpa_shape *shape,
		const struct ff_dnn_plan **ret, struct ff_error *err);
int ff_sdpa_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan,
		const struct ff_sdpa_shape *shape, const struct ff_sdpa_values *v, void *workspace,
		cudaStream_t queue, struct ff_error *err);

/* A dense mask of the part's first `keys` keys and of `heads`, 1 or all; what lies ahead is masked
 * where the attention is causal.  Infinities become numbers that are large enough. */
cudaError_t ff_launch_sdpa_mask(const struct ff_attention *a, const void *mask, int64_t heads,
		int64_t keys, void *to, cudaStream_t s);
/* Pairs of those logarithms.  Where there was a mask, rows that see nothing get what they ought
 * to: no weight, and zeros in `out`. */
cudaError_t ff_launch_sdpa_pairs(const struct ff_attention *a, const float *stats, float *pairs,
		void *out, cudaStream_t s);
/* Back: of (a, b) by row the logarithms b, and rows whose products with those of `dout` add up
 * to a. */
cudaError_t ff_launch_sdpa_rows(const struct ff_attention *a, const float *pair_slopes,
		const void *dout, float *stats, void *out, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
