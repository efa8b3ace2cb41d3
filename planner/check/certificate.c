/* Certificates written, read and worked out again.  SPDX-License-Identifier: Apache-2.0 */
#include "certificate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/graph_file.h"
#include "ff/micro.h"
#include "longest.h"
#include "section.h"

#define ROUNDING 1e-9 /* share by which sums in another order may differ */

/* ---- written ---- */

/* By the names of their first and last operators. */
static void write_sections(const struct ff_graph *g, const struct ff_chain *c, struct ff_out *o)
{
	ff_out_array(o, "sections");
	for (uint32_t i = 0; i < c->n_sections; i++) {
		ff_out_array(o, NULL);
		ff_out_string(o, NULL, g->nodes[c->node[c->section[i].first]].name);
		ff_out_string(o, NULL, g->nodes[c->node[c->section[i].last]].name);
		ff_out_close(o);
	}
	ff_out_close(o);
}

static void write_chain(const struct ff_graph *g, const struct ff_chain *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_real(o, "weight", c->weight);
	ff_out_array(o, "operators");
	for (uint32_t i = 0; i < c->n; i++)
		ff_out_string(o, NULL, g->nodes[c->node[i]].name);
	ff_out_close(o);
	if (c->n_sections)
		write_sections(g, c, o);
	ff_out_close(o);
}

static void write_part(const struct ff_graph *g, const struct ff_certified *p, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_int(o, "micro_batches", p->micro_batches);
	ff_out_real(o, "bound_us", p->us);
	ff_out_real(o, "compute", p->by->compute);
	ff_out_real(o, "communication", p->by->communication);
	ff_out_array(o, "chains");
	for (uint32_t i = 0; i < p->by->n_chains; i++)
		write_chain(g, &p->by->chain[i], o);
	ff_out_close(o);
	ff_out_close(o);
}

void ff_certificate_write(
		const struct ff_graph *g, const struct ff_certificate *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-certificate");
	ff_out_int(o, "version", FF_CERTIFICATE_VERSION);
	ff_graph_write_reference(g, o);
	ff_out_string(o, "machine", c->machine);
	ff_out_int(o, "devices", c->devices);
	ff_out_string(o, "costs", c->costs);
	ff_out_string(o, "optimizer", c->optimizer);
	ff_out_real(o, "bound_us", c->us);
	ff_out_array(o, "micro_batches");
	for (uint32_t i = 0; i < c->n_parts; i++)
		write_part(g, &c->part[i], o);
	ff_out_close(o);
	ff_out_close(o);
}

/* ---- read ---- */

static int read_operators(const struct ff_json *at, const struct ff_graph *g, struct ff_arena *a,
		struct ff_chain *ret, struct ff_error *err)
{
	const struct ff_json *list;
	int code = ff_json_need(at, "operators", FF_JSON_ARRAY, &list, err);

	if (code < 0)
		return code;
	if (!list->n)
		return ff_json_fail(list, err, "expected at least one operator");
	ret->n = list->n;
	ret->node = ff_arena_array(a, list->n, sizeof(*ret->node));
	ret->edge = ff_arena_array(a, list->n, sizeof(*ret->edge));
	ret->named = ff_arena_array(a, list->n, sizeof(*ret->named));
	if (!ret->node || !ret->edge || !ret->named)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < list->n; i++) {
		const struct ff_json *name = &list->child[i];

		if (name->type != FF_JSON_STRING)
			return ff_json_fail(name, err, "expected the name of an operator");
		ret->node[i] = ff_graph_find(g, name->text);
		if (ret->node[i] == FF_NONE)
			return ff_json_fail(name, err, "the graph has no operator \"%.60s\"",
					name->text);
	}
	return FF_OK;
}

static int read_place(const struct ff_json *name, const struct ff_graph *g,
		const struct ff_chain *c, uint32_t *ret, struct ff_error *err)
{
	for (uint32_t i = 0; i < c->n && name->type == FF_JSON_STRING; i++)
		if (!strcmp(g->nodes[c->node[i]].name, name->text)) {
			*ret = i;
			return FF_OK;
		}
	return ff_json_fail(name, err, "expected the name of one of the chain's operators");
}

static int read_sections(const struct ff_json *at, const struct ff_graph *g, struct ff_arena *a,
		struct ff_chain *c, struct ff_error *err)
{
	const struct ff_json *list = ff_json_get(at, "sections");
	int code = FF_OK;

	if (!list)
		return FF_OK;
	if (list->type != FF_JSON_ARRAY || !list->n)
		return ff_json_fail(list, err, "expected a list of sections");
	c->section = ff_arena_array(a, list->n, sizeof(*c->section));
	if (!c->section)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < list->n && code == FF_OK; i++) {
		const struct ff_json *ends = &list->child[i];
		struct ff_section *s = &c->section[c->n_sections++];

		*s = (struct ff_section){.n = 0};
		if (ends->type != FF_JSON_ARRAY || ends->n != 2)
			return ff_json_fail(ends, err, "expected a first and a last operator");
		code = read_place(&ends->child[0], g, c, &s->first, err);
		if (code == FF_OK)
			code = read_place(&ends->child[1], g, c, &s->last, err);
	}
	return code;
}

static int read_chain(const struct ff_json *at, const struct ff_graph *g, struct ff_arena *a,
		struct ff_chain *ret, struct ff_error *err)
{
	static const char *const keys[] = {"weight", "operators", "sections", NULL};
	int code = ff_json_only(at, keys, err);

	*ret = (struct ff_chain){.n = 0};
	if (code == FF_OK)
		code = ff_json_real(at, "weight", 0, 1, &ret->weight, err);
	if (code == FF_OK)
		code = read_operators(at, g, a, ret, err);
	return code == FF_OK ? read_sections(at, g, a, ret, err) : code;
}

/* That the batch goes in so many micro-batches. */
static int check_micro(const struct ff_json *at, const struct ff_graph *g, uint32_t micro_batches,
		struct ff_arena *a, struct ff_error *err)
{
	const struct ff_arena_mark mark = ff_arena_mark(a);
	struct ff_graph micro;
	struct ff_error why;
	int code = ff_graph_micro(g, micro_batches, a, &micro, &why);

	ff_arena_rewind(a, mark);
	if (code == FF_E_INPUT)
		return ff_json_fail(at, err, "%s", why.text);
	if (code < 0)
		*err = why;
	return code;
}

static int read_part(const struct ff_json *at, const struct ff_graph *g, struct ff_arena *a,
		struct ff_certified *ret, struct ff_error *err)
{
	static const char *const keys[] = {
			"micro_batches", "bound_us", "compute", "communication", "chains", NULL};
	const struct ff_json *chains;
	int64_t micro = 0;
	int code = ff_json_only(at, keys, err);

	ret->by = ff_arena_alloc(a, sizeof(*ret->by));
	if (!ret->by)
		return ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_json_int(at, "micro_batches", 1, FF_MAX_MICRO_BATCHES, &micro, err);
	ret->micro_batches = (uint32_t)micro;
	if (code == FF_OK)
		code = check_micro(at, g, ret->micro_batches, a, err);
	if (code == FF_OK)
		code = ff_json_real(at, "bound_us", 0, FF_TIMES_EXACT_US, &ret->us, err);
	if (code == FF_OK)
		code = ff_json_real(at, "compute", 0, 1, &ret->by->compute, err);
	if (code == FF_OK)
		code = ff_json_real(at, "communication", 0, 1, &ret->by->communication, err);
	if (code == FF_OK)
		code = ff_json_need(at, "chains", FF_JSON_ARRAY, &chains, err);
	if (code == FF_OK && chains->n > FF_MOST_CHAINS)
		code = ff_json_fail(chains, err, "expected at most %d", FF_MOST_CHAINS);
	for (uint32_t i = 0; code == FF_OK && i < chains->n; i++)
		code = read_chain(
				&chains->child[i], g, a, &ret->by->chain[ret->by->n_chains++], err);
	return code;
}

static int read_parts(const struct ff_json *root, const struct ff_graph *g, struct ff_arena *a,
		struct ff_certificate *ret, struct ff_error *err)
{
	const struct ff_json *parts;
	int code = ff_json_need(root, "micro_batches", FF_JSON_ARRAY, &parts, err);

	if (code < 0)
		return code;
	if (!parts->n || parts->n > FF_MOST_CERTIFIED)
		return ff_json_fail(parts, err, "expected 1 to %d numbers of micro-batches",
				FF_MOST_CERTIFIED);
	for (uint32_t i = 0; i < parts->n && code == FF_OK; i++) {
		struct ff_certified *p = &ret->part[ret->n_parts++];

		code = read_part(&parts->child[i], g, a, p, err);
		for (uint32_t k = 0; k < i && code == FF_OK; k++)
			if (ret->part[k].micro_batches == p->micro_batches)
				code = ff_json_fail(&parts->child[i], err,
						"%u micro-batches stand twice", p->micro_batches);
	}
	return code;
}

static int read_head(const struct ff_json *root, const struct ff_graph *g,
		struct ff_certificate *ret, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "graph", "graph_hash", "machine",
			"devices", "costs", "optimizer", "bound_us", "micro_batches", NULL};
	const char *name;
	int64_t devices = 0;
	int code = ff_json_format(root, "ffsoap-certificate", FF_CERTIFICATE_VERSION, err);

	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = ff_graph_check_reference(root, "certificate", g, err);
	if (code == FF_OK)
		code = ff_json_string(root, "graph", &name, err);
	if (code == FF_OK && strcmp(name, g->name) != 0)
		code = ff_json_fail(root, err, "the certificate is for graph %.60s, not for %.60s",
				name, g->name);
	if (code == FF_OK)
		code = ff_json_string(root, "machine", &ret->machine, err);
	if (code == FF_OK)
		code = ff_json_int(root, "devices", 1, FF_MAX_DEVICES, &devices, err);
	ret->devices = (uint32_t)devices;
	if (code == FF_OK)
		code = ff_json_string(root, "costs", &ret->costs, err);
	if (code == FF_OK)
		code = ff_json_string(root, "optimizer", &ret->optimizer, err);
	return code == FF_OK ? ff_json_real(root, "bound_us", 0, FF_TIMES_EXACT_US, &ret->us, err)
			     : code;
}

int ff_certificate_load(const char *path, const struct ff_graph *g, struct ff_arena *a,
		struct ff_certificate *ret, struct ff_error *err)
{
	const struct ff_json *root;
	int code = ff_json_load(path, a, &root, err);

	*ret = (struct ff_certificate){.n_parts = 0};
	if (code == FF_OK)
		code = read_head(root, g, ret, err);
	return code == FF_OK ? read_parts(root, g, a, ret, err) : code;
}

/* ---- verified ---- */

static bool is_near(double a, double b)
{
	return fabs(a - b) <= ROUNDING * fmax(a, b);
}

static int check_sections(const struct ff_kinds *k, struct ff_chain *c, uint32_t number,
		struct ff_arena *a, struct ff_error *err)
{
	bool ok;
	int code = ff_sections_find(k->graph, c, a, &ok, err);

	if (code == FF_OK && (!ok || (c->n_sections && k->halves)))
		code = ff_fail(err, FF_E_RUN,
				"sections of chain %u do not follow each other: there are "
				"strategies that compute some of one before or behind it",
				number);
	return code;
}

/* That the weights are a mean's, and that each chain is one. */
static int check_weights(const struct ff_kinds *k, struct ff_weights *by, struct ff_arena *a,
		struct ff_error *err)
{
	const struct ff_graph *g = k->graph;
	double sum = by->compute + by->communication;

	for (uint32_t i = 0; i < by->n_chains; i++) {
		struct ff_chain *c = &by->chain[i];
		struct ff_region *box = ff_arena_array(a, c->n, sizeof(*box));
		int code;

		if (!box)
			return ff_fail_memory(err);
		if (!ff_chain_trace(g, c, box))
			return ff_fail(err, FF_E_RUN,
					"chain %u, from %.60s to %.60s, is none: there are "
					"strategies "
					"in which not every part of it waits for the one before",
					i, g->nodes[c->node[0]].name,
					g->nodes[c->node[c->n - 1]].name);
		code = check_sections(k, c, i, a, err);
		if (code < 0)
			return code;
		sum += c->weight;
	}
	if (!(fabs(sum - 1) <= ROUNDING))
		return ff_fail(err, FF_E_RUN, "weights add up to %.9g, not to 1", sum);
	return FF_OK;
}

static int verify_weights(struct ff_kinds *k, const struct ff_certified *p, struct ff_arena *a,
		struct ff_error *err)
{
	double longest_us = 0, us;
	struct ff_weighted w;
	int code = check_weights(k, p->by, a, err);

	if (code == FF_OK)
		code = ff_weighted_init(&w, k, p->micro_batches, a, err);
	if (code == FF_OK)
		code = ff_longest_us(k, a, &longest_us, err);
	if (code < 0)
		return code;
	if (p->by->communication > 0 && !(w.received && k->kept.every))
		return ff_fail(err, FF_E_RUN,
				"the certificate counts what devices receive, of which nothing is "
				"known by these prices");
	us = fmax(ff_weighted_us(&w, p->by), longest_us);
	if (!is_near(us, p->us))
		return ff_fail(err, FF_E_RUN,
				"of %u micro-batch%s the certificate says %.9g us, but what it "
				"rests "
				"on gives %.9g us",
				p->micro_batches, p->micro_batches == 1 ? "" : "es", p->us, us);
	return FF_OK;
}

static int verify_part(const struct ff_certified *p, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_pricer *pricer, struct ff_error *err)
{
	struct ff_arena a;
	struct ff_graph micro;
	struct ff_kinds *k;
	int code;

	ff_arena_init(&a);
	k = ff_arena_alloc(&a, sizeof(*k));
	code = k ? ff_graph_micro(g, p->micro_batches, &a, &micro, err) : ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_kinds_init(
				k, &micro, m, pricer, p->micro_batches > 1, NULL, NULL, &a, err);
	if (code == FF_OK)
		code = verify_weights(k, p, &a, err);
	if (k)
		ff_kinds_finish(k);
	ff_arena_finish(&a);
	return code;
}

int ff_certificate_verify(const struct ff_certificate *c, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_pricer *p, struct ff_error *err)
{
	double least = INFINITY;
	int code = FF_OK;

	for (uint32_t i = 0; i < c->n_parts && code == FF_OK; i++) {
		code = verify_part(&c->part[i], g, m, p, err);
		least = fmin(least, c->part[i].us);
	}
	if (code == FF_OK && !is_near(least, c->us))
		code = ff_fail(err, FF_E_RUN,
				"the certificate says %.9g us, but the least of its numbers of "
				"micro-batches is %.9g us",
				c->us, least);
	return code;
}
