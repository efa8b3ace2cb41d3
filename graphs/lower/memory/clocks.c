/* Clocks: what is certain to be done when.  A device's lanes run independently of each
 * other but for dependencies, so "over" is told by one count a lane, not by the place in the
 * total order.  SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

static void clock_max(struct ff_clock *a, const struct ff_clock *b)
{
	for (int k = 0; k < FF_DEVICE_LANES; k++)
		if (b->done[k] > a->done[k])
			a->done[k] = b->done[k];
}

const struct ff_clock *ff_clock_before(const struct ff_lowering *l, uint32_t task, uint32_t device)
{
	const uint16_t *list;
	uint16_t one;
	uint32_t n = ff_task_devices(&l->r.tasks[task], &list, &one);

	return &l->clocks.born[l->clocks.first[task] + ff_device_index(list, n, device)];
}

/* What is known to be done on the devices of task `me`, in `now`, once `dep` is.  Of the two lists
 * of devices the shorter is gone through: an update waits for one transfer among many devices, and
 * that for many tasks of one. */
static void wait_for(struct ff_lowering *l, uint32_t dep, uint32_t n, const uint16_t *device,
		struct ff_clock *now)
{
	const struct ff_clock *done = l->clocks.done + l->clocks.first[dep];
	const uint16_t *other;
	uint16_t one;
	uint32_t count = ff_task_devices(&l->r.tasks[dep], &other, &one);
	bool own = n <= count;

	for (uint32_t i = 0; i < (own ? n : count); i++) {
		uint32_t at = own ? ff_device_index(other, count, device[i])
				  : ff_device_index(device, n, other[i]);

		if (at != FF_NONE)
			clock_max(&now[own ? i : at], &done[own ? at : i]);
	}
}

void ff_clock_tick(struct ff_lowering *l)
{
	uint32_t me = l->r.n_tasks - 1;
	const struct ff_task *t = &l->r.tasks[me];
	enum ff_lane_class own = ff_task_lane(l, t);
	const uint16_t *device;
	uint16_t one;
	uint32_t n = ff_task_devices(t, &device, &one);
	struct ff_clock *now = l->clocks.born + l->clocks.n;

	l->clocks.first[me] = l->clocks.n;
	for (uint32_t i = 0; i < n; i++)
		now[i] = l->clocks.lane[own][device[i]];
	for (uint32_t k = 0; k < t->n_deps && !l->failed; k++)
		wait_for(l, l->deps.v[t->first_dep + k], n, device, now);
	for (uint32_t i = 0; i < n; i++) {
		struct ff_clock *lane = &l->clocks.lane[own][device[i]], done = now[i];

		done.done[own] = lane->done[own] + 1;
		l->clocks.done[l->clocks.n++] = *lane = done;
	}
}
