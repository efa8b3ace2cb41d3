/* Where the ranks that measure lie.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ff/backends.h"
#include "process/agree.h"
#include "prof.h"

/* On one device; its threads run once they have been counted. */
static int find_seat(struct ff_prof *p, struct ff_seat *ret, struct ff_error *err)
{
	struct ff_device_info info = {.threads = 1};
	int code;

	if (p->backend->device.describe)
		p->backend->device.describe(p->dev, &info);
	code = ff_seat_find(ret, err);
	ret->threads = info.threads;
	return code;
}

int ff_prof_seats(struct ff_prof *p, struct ff_error *err)
{
	struct ff_layout hosts; /* p->layout may be the machine's nodes */
	struct ff_seat own;
	int code = ff_layout_find(&hosts, p->comm, &p->arena, err);

	code = ff_agree_code(p->comm, code, err);
	if (code == FF_OK)
		code = ff_agree_code(p->comm, find_seat(p, &own, err), err);
	if (code == FF_OK)
		code = ff_topology_gather(&p->topology, &own, p->comm, hosts.n_nodes, hosts.first,
				&p->arena, err);
	return code;
}

static void print(FILE *to, struct ff_out *o)
{
	if (o->text)
		fprintf(to, "%s", o->text);
	ff_out_finish(o);
}

void ff_prof_seats_warn(const struct ff_prof *p)
{
	bool given = p->machine.n_nodes && p->backend->memory.of_host && !p->opt->write_machine;
	struct ff_out o;

	ff_out_init(&o);
	ff_topology_warn(&p->topology, given ? &p->machine : NULL, "ffprof", &o);
	print(stderr, &o);
}

static int show(struct ff_prof *p, struct ff_error *err)
{
	struct ff_out o;
	int code = ff_prof_seats(p, err);

	if (code < 0)
		return code;
	if (!ff_topology_known(&p->topology))
		return ff_fail(err, FF_E_INPUT,
				"what this computer is made of is not known: ffsoap was built "
				"without "
				"hwloc (libhwloc-dev)");
	if (p->comm->rank)
		return FF_OK;
	ff_out_init(&o);
	ff_topology_print(&p->topology, &o);
	print(stdout, &o);
	ff_prof_seats_warn(p);
	return FF_OK;
}

int ff_prof_show(struct ff_prof *p, struct ff_error *err)
{
	const char *name = p->opt->device;
	struct ff_layout hosts;
	uint32_t ordinal = 0;
	int code = ff_layout_find(&hosts, p->comm, &p->arena, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < hosts.n_nodes; i++)
		if (hosts.first[i] <= p->comm->rank)
			ordinal = p->comm->rank - hosts.first[i];
	p->backend = name ? ff_backend_find(name) : ff_backend_preset();
	if (!p->backend)
		return ff_fail(err, FF_E_INPUT, "--device %s: expected cpu or cuda", name);
	code = ff_agree_code(p->comm, p->backend->device.open(ordinal, &p->dev, err), err);
	if (code == FF_OK)
		code = ff_agree_code(p->comm, show(p, err), err);
	if (p->dev)
		p->backend->device.close(p->dev);
	p->dev = NULL;
	return code;
}
