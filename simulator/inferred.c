/* What of a predicted step rests on no measurement.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"
#include "ff/simulate.h"

int ff_simulation_inferred(const struct ff_schedule *s, struct ff_pricer *p, struct ff_arena *a,
		struct ff_inferred *ret, struct ff_error *err)
{
	struct ff_inferred *of = ff_arena_array(a, s->machine->n_devices, sizeof(*of));
	struct ff_inferred most = {0, 0}, each;
	int code = of ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < s->n_tasks && code == FF_OK; i++) {
		const struct ff_task *t = &s->tasks[i];
		struct ff_work work;

		if (!ff_task_computes_part(t))
			continue;
		ff_task_work(s, t, &work);
		code = ff_price_inferred(p, &work, t->device, &each, err);
		if (code < 0)
			return code;
		of[t->device].us += each.us;
		of[t->device].classes |= each.classes;
	}
	for (uint32_t i = 0; i < s->machine->n_devices && code == FF_OK; i++)
		if (of[i].us > most.us)
			most = of[i];
	if (code == FF_OK)
		*ret = most;
	return code;
}
