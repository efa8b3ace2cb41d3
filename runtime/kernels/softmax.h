/* Rows of a part of a softmax, of its logarithm and of their preludes, for the kernels of every
 * backend.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_SOFTMAX_H
#define FF_RUNTIME_SOFTMAX_H

#include "ff/work.h"

/* `length` elements each, `inner` apart; as they lie n[] of them along each axis, and from one to
 * the next of those so many numbers of pairs.  Without padding, as kernels of devices take it as
 * it is. */
struct ff_soft {
	int64_t rows, length, inner;
	int64_t n[FF_MAX_RANK], step[FF_MAX_RANK];
	uint32_t axes;
	int32_t log;   /* its logarithm */
	int32_t all;   /* of the axis: nothing is exchanged */
	int32_t leads; /* its part is the first along the axis */
};

#ifdef __cplusplus
extern "C" {
#endif
/* `pairs`: the operand that has them, and its region. */
void ff_soft_fill(const struct ff_work *w, bool log, const struct ff_operand *pairs,
		const struct ff_region *region, struct ff_soft *ret);
#ifdef __cplusplus
}
#endif

#endif
