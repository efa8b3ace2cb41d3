/* Local response normalisation of a part.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_RESPONSE_H
#define FF_RUNTIME_RESPONSE_H

#include "ff/work.h"

/* Of every position (all axes but the channels) the channels of two shards: what is read and what
 * is written, or of that the gradient.  Without padding, as kernels of devices take it as it is. */
struct ff_response {
	uint32_t rank, unused;
	int64_t n[FF_MAX_RANK], in[FF_MAX_RANK], out[FF_MAX_RANK]; /* loops over positions */
	int64_t positions, in_step, out_step; /* steps from channel to channel */
	int64_t in_lo, in_n, out_lo, out_n;   /* channels of the shards */
	int64_t before, behind;               /* channels next to one that it is normalised by */
	float scale, beta, k, unused_too;     /* scale: alpha / size */
};

#ifdef __cplusplus
extern "C" {
#endif
void ff_response_fill(const struct ff_work *w, struct ff_response *ret);
#ifdef __cplusplus
}
#endif

#endif
