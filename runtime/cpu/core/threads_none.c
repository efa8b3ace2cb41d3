/* Without OpenMP kernels have no threads.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/threads.h"

void ff_cpu_threads_end(void)
{
}
