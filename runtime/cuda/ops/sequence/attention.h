/* Attention's kernels: their arguments, and what launches them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ATTENTION_H
#define FF_CUDA_ATTENTION_H

#include <cuda_runtime_api.h>

#include "ff/capture.h"
#include "ff/dtype.h"
#include "kernels/attention.h"

/* `mask` may be NULL.  `given`: pairs by row of scores of all keys, or NULL where the part has
 * them all.  `pairs` gets what `given` has, or what is found; `pair_slopes`: (a, b) by row. */
struct ff_attention_values {
	const void *query, *key, *value, *mask;
	const float *given, *pair_slopes;
	float *pairs;
	uint64_t seed, step;              /* of dropped weights, as struct ff_dropout has them */
	const struct ff_figures *figures; /* NULL, or where the step is */
};

#ifdef __cplusplus
extern "C" {
#endif

/* `out` NULL: only the pairs.  Of all `dropped` is 0 where it is not trained, and `first_number`
 * counts micro-batches, too. */
cudaError_t ff_launch_attention(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, void *out, cudaStream_t s);
/* By row, of gradient times output the sum and, of the part with the first key, the logarithm. */
cudaError_t ff_launch_attention_rows(enum ff_dtype type, const struct ff_attention *a,
		const float *pairs, const void *out, const void *dout, float *pair_slopes,
		cudaStream_t s);
/* Gradients of keys and values, either of which may be NULL; then that of the queries, in the
 * place of that of the output, by way of `scratch`. */
cudaError_t ff_launch_attention_keys(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, const void *dout, void *dkey, void *dvalue,
		cudaStream_t s);
int64_t ff_attention_scratch(enum ff_dtype type, const struct ff_attention *a);
cudaError_t ff_launch_attention_queries(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, void *gradient, void *scratch, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
