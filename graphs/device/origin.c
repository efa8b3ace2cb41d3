/* What costs were measured on.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "ff/json.h"
#include "ff/nodes.h"
#include "ff/origin.h"

/* One line of the comparison, as text. */
struct trait {
	const char *what;
	char was[160], is[160];
};

static void of_text(struct trait *t, const char *what, const char *was, const char *is)
{
	t->what = what;
	snprintf(t->was, sizeof(t->was), "\"%s\"", was ? was : "");
	snprintf(t->is, sizeof(t->is), "\"%s\"", is ? is : "");
}

static void of_count(struct trait *t, const char *what, uint32_t was, uint32_t is)
{
	t->what = what;
	snprintf(t->was, sizeof(t->was), "%u", was);
	snprintf(t->is, sizeof(t->is), "%u", is);
}

int ff_origin_check(const char *file, const struct ff_origin *was, const struct ff_origin *is,
		struct ff_error *err)
{
	struct trait t[12];
	int n = 10;

	of_text(&t[0], "processor", was->processor, is->processor);
	of_text(&t[1], "kernels", was->kernels, is->kernels);
	of_text(&t[2], "mpi", was->mpi, is->mpi);
	of_count(&t[3], "ranks", was->ranks, is->ranks);
	of_count(&t[4], "hosts", was->hosts, is->hosts);
	of_count(&t[5], "threads a rank", was->threads, is->threads);
	of_count(&t[6], "cores a rank", was->cores, is->cores);
	of_text(&t[7], "driver", was->driver, is->driver);
	of_count(&t[8], "clock in MHz", was->clock_mhz, is->clock_mhz);
	of_count(&t[9], "memory clock in MHz", was->memory_clock_mhz, is->memory_clock_mhz);
	if (was->communication && *was->communication)
		of_text(&t[n++], "communication", was->communication, is->communication);
	if (was->topology && *was->topology && is->topology && *is->topology)
		of_text(&t[n++], "topology", was->topology, is->topology);
	for (int i = 0; i < n; i++)
		if (strcmp(t[i].was, t[i].is) != 0)
			return ff_fail(err, FF_E_INPUT,
					"%.200s: was measured elsewhere (%s: %s, here %s); give "
					"another file, or --replace to measure it anew",
					file, t[i].what, t[i].was, t[i].is);
	return FF_OK;
}

bool ff_origin_is_by_nodes(const struct ff_origin *origin)
{
	const char *name = origin->communication ? origin->communication : "";
	size_t n = strlen(name), end = strlen(FF_BY_NODES);

	return n >= end && !strcmp(name + n - end, FF_BY_NODES);
}

void ff_origin_write(const struct ff_origin *origin, const char *key, struct ff_out *o)
{
	ff_out_object(o, key);
	ff_out_string(o, "processor", origin->processor);
	ff_out_string(o, "kernels", origin->kernels);
	ff_out_string(o, "mpi", origin->mpi);
	ff_out_int(o, "cores", origin->cores);
	ff_out_int(o, "threads", origin->threads);
	ff_out_int(o, "ranks", origin->ranks);
	ff_out_int(o, "hosts", origin->hosts);
	if (origin->driver && *origin->driver)
		ff_out_string(o, "driver", origin->driver);
	if (origin->clock_mhz)
		ff_out_int(o, "clock_mhz", origin->clock_mhz);
	if (origin->memory_clock_mhz)
		ff_out_int(o, "memory_clock_mhz", origin->memory_clock_mhz);
	if (origin->communication && *origin->communication)
		ff_out_string(o, "communication", origin->communication);
	if (origin->topology && *origin->topology)
		ff_out_string(o, "topology", origin->topology);
	ff_out_close(o);
}
