/* Copies between a whole and its pieces along one axis, several by one launch.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PIECES_H
#define FF_CUDA_PIECES_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FF_MOST_PIECES 16 /* of a launch */

/* Rows of the whole are `step` units apart; a piece has `width` of each row, from `at` on, and lies
 * without gaps. */
struct ff_pieces {
	int64_t rows, step, n;
	int64_t width[FF_MOST_PIECES], at[FF_MOST_PIECES];
	void *piece[FF_MOST_PIECES], *whole;
	int64_t joins; /* the pieces are read */
};

/* Units of 1, 2, 4, 8 or 16 bytes. */
cudaError_t ff_launch_pieces(const struct ff_pieces *p, int64_t bytes, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
