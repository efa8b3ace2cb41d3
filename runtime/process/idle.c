/* Waiting for other ranks.  SPDX-License-Identifier: Apache-2.0 */
#include "idle.h"

#include <sched.h>

#include "fiber.h"

bool ff_idle_may_block(void)
{
	return !ff_fiber_is_here();
}

void ff_idle(void)
{
	if (ff_fiber_is_here())
		ff_fiber_yield();
	else
		sched_yield();
}
