/* Threads of OpenMP.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/threads.h"

#include <omp.h>

void ff_cpu_threads_end(void)
{
	/* it fails within a parallel region alone, where no stream ends */
	(void)omp_pause_resource_all(omp_pause_hard);
}
