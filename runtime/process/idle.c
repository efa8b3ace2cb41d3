/* Waiting for other ranks.  SPDX-License-Identifier: Apache-2.0 */
#include "idle.h"

#include <sched.h>
#include <time.h>

#include "fiber.h"

#define SLEEP_NS 50000

static _Thread_local bool sleeps;

void ff_idle_by_sleep(void)
{
	sleeps = true;
}

bool ff_idle_may_block(void)
{
	return !sleeps && !ff_fiber_is_here();
}

void ff_idle(void)
{
	const struct timespec pause = {0, SLEEP_NS};

	if (ff_fiber_is_here())
		ff_fiber_yield();
	else if (sleeps)
		nanosleep(&pause, NULL);
	else
		sched_yield();
}
