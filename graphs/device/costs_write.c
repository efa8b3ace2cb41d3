/* Cost files written as JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"

static void write_disturbed(struct ff_out *o, uint32_t disturbed)
{
	if (disturbed)
		ff_out_int(o, "disturbed", disturbed);
}

static void write_steadiness(struct ff_out *o, const struct ff_steadiness *s)
{
	if (!s->samples)
		return;
	ff_out_object(o, "steadiness");
	ff_out_u64(o, "samples", s->samples);
	ff_out_u64(o, "disturbed", s->disturbed);
	ff_out_real(o, "reference_spread", s->reference_spread);
	ff_out_close(o);
}

static void write_launch(struct ff_out *o, const struct ff_launches *l)
{
	if (!(l->alone_us > 0))
		return;
	ff_out_object(o, "launch");
	ff_out_real(o, "host_us", l->host_us);
	ff_out_real(o, "stream_us", l->stream_us);
	ff_out_real(o, "alone_us", l->alone_us);
	ff_out_close(o);
}

static void write_line(struct ff_out *o, struct ff_rate r)
{
	ff_out_real(o, "latency_us", r.latency_us);
	/* Whole bytes a second, so that reading and writing again changes nothing. */
	ff_out_real(o, "bytes_per_s", fmax(round(r.bytes_per_us * 1e6), 1));
	write_disturbed(o, r.disturbed);
}

static void write_rates(struct ff_out *o, const char *key, const struct ff_rates *r)
{
	if (!r->n)
		return;
	ff_out_array(o, key);
	for (uint32_t i = 0; i < r->n; i++) {
		ff_out_object(o, NULL);
		ff_out_int(o, "reuse_bytes", r->rate[i].reuse_bytes);
		if (r->rate[i].sample_bytes)
			ff_out_int(o, "sample_bytes", r->rate[i].sample_bytes);
		write_line(o, r->rate[i]);
		if (r->rate[i].short_bytes_per_us > 0)
			ff_out_real(o, "short_bytes_per_s",
					fmax(round(r->rate[i].short_bytes_per_us * 1e6), 1));
		ff_out_close(o);
	}
	ff_out_close(o);
}

static void write_link(struct ff_out *o, struct ff_rate link)
{
	if (!(link.bytes_per_us > 0))
		return;
	ff_out_object(o, "link");
	write_line(o, link);
	ff_out_close(o);
}

static void write_comm(struct ff_out *o, const struct ff_comm_cost *cc)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "kind", ff_move_name(cc->shape.kind));
	ff_out_int(o, "ranks", cc->shape.ranks);
	if (cc->shape.nodes > 1)
		ff_out_int(o, "nodes", cc->shape.nodes);
	if (cc->shape.one_way)
		ff_out_bool(o, "one_way", true);
	ff_out_array(o, "bytes");
	for (uint32_t i = 0; i < cc->n; i++)
		ff_out_real(o, NULL, cc->bytes[i]);
	ff_out_close(o);
	ff_out_array(o, "us");
	for (uint32_t i = 0; i < cc->n; i++)
		ff_out_real(o, NULL, cc->us[i]);
	ff_out_close(o);
	write_disturbed(o, cc->disturbed);
	ff_out_close(o);
}

static void write_entry(struct ff_out *o, const struct ff_cost *cost)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "key", cost->key);
	ff_out_int(o, "reuse_bytes", cost->reuse_bytes);
	ff_out_real(o, "median_us", cost->median_us);
	ff_out_real(o, "p10_us", cost->p10_us);
	ff_out_real(o, "p90_us", cost->p90_us);
	if (cost->alone_us > 0)
		ff_out_real(o, "alone_us", cost->alone_us);
	ff_out_int(o, "samples", cost->samples);
	write_disturbed(o, cost->disturbed);
	ff_out_int(o, "workspace_bytes", cost->workspace_bytes);
	ff_out_close(o);
}

static int by_key(const void *a, const void *b)
{
	const struct ff_cost *x = *(const struct ff_cost *const *)a;
	const struct ff_cost *y = *(const struct ff_cost *const *)b;

	int order = strcmp(x->key, y->key);

	return order ? order
		     : (x->reuse_bytes > y->reuse_bytes) - (x->reuse_bytes < y->reuse_bytes);
}

static int by_shape(const void *a, const void *b)
{
	const struct ff_comm_shape *x = &(*(const struct ff_comm_cost *const *)a)->shape;
	const struct ff_comm_shape *y = &(*(const struct ff_comm_cost *const *)b)->shape;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->nodes != y->nodes)
		return x->nodes < y->nodes ? -1 : 1;
	return x->ranks != y->ranks ? (int)x->ranks - (int)y->ranks : x->one_way - y->one_way;
}

/* Writes entries and tables in a fixed order through sorted copies of the
 * pointer arrays, so that `c` stays const. */
static void write_sorted(const struct ff_costs *c, struct ff_out *o)
{
	struct ff_cost **entry = malloc((c->n_entries + 1) * sizeof(*entry));
	struct ff_comm_cost **comm = malloc((c->n_comm + 1) * sizeof(*comm));

	o->failed = o->failed || !entry || !comm;
	if (entry && comm) {
		for (uint32_t i = 0; i < c->n_entries; i++)
			entry[i] = c->entry[i];
		for (uint32_t i = 0; i < c->n_comm; i++)
			comm[i] = c->comm[i];
		qsort(entry, c->n_entries, sizeof(*entry), by_key);
		qsort(comm, c->n_comm, sizeof(*comm), by_shape);
		ff_out_array(o, "comm");
		for (uint32_t i = 0; i < c->n_comm; i++)
			write_comm(o, comm[i]);
		ff_out_close(o);
		ff_out_array(o, "entries");
		for (uint32_t i = 0; i < c->n_entries; i++)
			write_entry(o, entry[i]);
		ff_out_close(o);
	}
	free(entry);
	free(comm);
}

void ff_costs_write(const struct ff_costs *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", FF_COSTS_FORMAT);
	ff_out_int(o, "version", FF_COSTS_VERSION);
	ff_out_string(o, "device_kind", c->device_kind);
	ff_origin_write(&c->origin, "machine", o);
	write_steadiness(o, &c->steadiness);
	write_launch(o, &c->launch);
	ff_costs_write_overlap(c, o);
	ff_out_object(o, "rates");
	for (int k = 0; k < FF_RATE_COUNT; k++)
		write_rates(o, ff_rate_name((enum ff_rate_kind)k), &c->rates[k]);
	ff_out_close(o);
	write_link(o, c->link);
	write_sorted(c, o);
	ff_out_close(o);
}
