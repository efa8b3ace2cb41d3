/* Sums of many blocks in one launch: each block leaves its share in memory and draws a ticket; the
 * one that draws the last adds up all shares, in their own order.  So who comes last is left to
 * chance, and the sums are not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_TICKET_CUH
#define FF_CUDA_TICKET_CUH

#include <launch.cuh>

#include "cuda/core/rows.h"

/* Whether this block is the last of `n`; then its threads see all that the others wrote before they
 * asked.  All threads of all blocks ask, once a counter.
 *
 * As barriers of whole grids have it: what the block's threads wrote comes before its barrier, that
 * before the fence of the thread that draws, which is for all of it, and the fence before the
 * ticket; the last block's ticket comes after all others, its fences after that and before all that
 * it reads ("Memory Fence Functions", CUDA C++ Programming Guide; "Memory Consistency Model", PTX
 * ISA, where fences are cumulative).  The counter wraps to 0 with the last ticket, which the next
 * launch on the stream finds. */
FF_DEVICE bool is_last(uint32_t *counter, uint32_t n)
{
	FF_SHARED uint32_t ticket;

	__syncthreads();
	if (threadIdx.x == 0 && threadIdx.y == 0) {
		__threadfence();
		ticket = atomicInc(counter, n - 1);
	}
	__syncthreads();
	if (ticket != n - 1)
		return false;
	__threadfence();
	return true;
}

/* Of `wanted` shares, so many: each of the `columns` that are added up by themselves has a counter
 * of its own, and where there are more, these are blocks enough. */
static inline int64_t shares_for(int64_t columns, int64_t wanted)
{
	return columns > FF_TICKETS ? 1 : wanted;
}

#endif
