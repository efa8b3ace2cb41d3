/* How kernels report.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_REPORT_CUH
#define FF_CUDA_REPORT_CUH

#include "rows.h"
#include <launch.cuh>

/* The host may look while the kernel runs: what was found is there before it is said to be ("Memory
 * Fence Functions", CUDA C++ Programming Guide). */
FF_DEVICE void tell(struct ff_trouble *t)
{
	__threadfence_system();
	t->found = 1;
}

#endif
