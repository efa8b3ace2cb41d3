/* Elements of shapes.  SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

int64_t ff_shape_volume(uint32_t rank, const int32_t *shape)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < rank; i++)
		n = ff_sat_mul(n, shape[i]);
	return n;
}
