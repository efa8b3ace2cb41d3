/* What copies move: 16 bytes by one access, as its alignment is its size.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_WORD_CUH
#define FF_CUDA_WORD_CUH

#include <stdint.h>

struct alignas(16) word16 {
	uint64_t lo, hi;
};
static_assert(alignof(struct word16) == sizeof(struct word16), "two accesses");

#endif
