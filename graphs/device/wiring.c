/* Links of nodes in JSON, and how NCCL finds them wired.  SPDX-License-Identifier: Apache-2.0 */
#include "wiring.h"

#include <math.h>
#include <string.h>

#define MOST_LINKS 64 /* between two devices */
#define MOST_CARDS 64

/* ---- reading ---- */

static int read_link(const struct ff_json *v, const char *const *keys, struct ff_link *ret,
		struct ff_error *err)
{
	double bytes_per_s = 0;
	int code = v->type == FF_JSON_OBJECT ? ff_json_only(v, keys, err)
					     : ff_json_fail(v, err, "expected an object");

	if (code == FF_OK)
		code = ff_json_real(v, "latency_us", 0, 1e9, &ret->latency_us, err);
	if (code == FF_OK)
		code = ff_json_real(v, "bytes_per_s", 1, FF_MOST_RATE, &bytes_per_s, err);
	ret->bytes_per_us = bytes_per_s / 1e6;
	return code;
}

static int read_interconnect(const struct ff_json *link, bool between, struct ff_arena *a,
		const struct ff_interconnect **ret, struct ff_error *err)
{
	const struct ff_json *v = ff_json_get(link, "interconnect");

	return v ? ff_interconnect_find(v, between, a, ret, err) : FF_OK;
}

/* What joins those that no link does. */
static int read_otherwise(const struct ff_json *inside, struct ff_arena *a, struct ff_mesh *p,
		struct ff_error *err)
{
	static const char *const keys[] = {"latency_us", "bytes_per_s", "interconnect", NULL};
	const struct ff_json *v = NULL, *name;
	int code = ff_json_need(inside, "otherwise", FF_JSON_OBJECT, &v, err);

	if (code == FF_OK)
		code = read_link(v, keys, &p->otherwise, err);
	if (code == FF_OK)
		code = ff_json_need(v, "interconnect", FF_JSON_STRING, &name, err);
	if (code == FF_OK)
		code = read_interconnect(v, false, a, &p->interconnect, err);
	return code;
}

/* [a, b, links] */
static int read_pair(const struct ff_json *v, struct ff_mesh *p, struct ff_error *err)
{
	int64_t last = (int64_t)p->n_devices - 1, x = 0, y = 0, links = 0;
	int code;

	if (v->type != FF_JSON_ARRAY || v->n != 3)
		return ff_json_fail(v, err, "expected two devices of the node and their links");
	code = ff_json_as_int(&v->child[0], 0, last, &x, err);
	if (code == FF_OK)
		code = ff_json_as_int(&v->child[1], 0, last, &y, err);
	if (code == FF_OK)
		code = ff_json_as_int(&v->child[2], 1, MOST_LINKS, &links, err);
	if (code == FF_OK && (x == y || p->links[x][y]))
		return ff_json_fail(v, err, x == y ? "expected two devices" : "this pair is taken");
	if (code == FF_OK)
		p->links[x][y] = p->links[y][x] = (uint8_t)links;
	return code;
}

static int read_mesh(const struct ff_json *inside, struct ff_arena *a, struct ff_wires *n,
		struct ff_error *err)
{
	const struct ff_json *all = ff_json_get(inside, "pairs");
	struct ff_mesh *p;
	int code;

	if (!all)
		return FF_OK;
	if (n->devices > FF_MOST_PAIRED || !n->wiring.inside)
		return ff_json_fail(all, err,
				"expected at most %d devices in the node, and an \"interconnect\" "
				"beside it",
				FF_MOST_PAIRED);
	p = ff_arena_array(a, 1, sizeof(*p));
	if (!p)
		return ff_fail_memory(err);
	p->n_devices = n->devices;
	code = ff_json_need(inside, "pairs", FF_JSON_ARRAY, &all, err);
	for (uint32_t i = 0; code == FF_OK && i < all->n; i++)
		code = read_pair(&all->child[i], p, err);
	if (code == FF_OK)
		code = read_otherwise(inside, a, p, err);
	n->wiring.mesh = p;
	return code;
}

static int read_inside(const struct ff_json *v, struct ff_arena *a, struct ff_wires *n,
		struct ff_error *err)
{
	static const char *const keys[] = {"latency_us", "bytes_per_s", "shared", "interconnect",
			"pairs", "otherwise", NULL};
	int code = read_link(v, keys, &n->inside, err);

	if (code == FF_OK && ff_json_get(v, "shared"))
		code = ff_json_bool(v, "shared", &n->inside.shared, err);
	if (code == FF_OK)
		code = read_interconnect(v, false, a, &n->wiring.inside, err);
	if (code == FF_OK)
		code = read_mesh(v, a, n, err);
	return code;
}

static int read_network(const struct ff_json *v, struct ff_arena *a, struct ff_wires *n,
		struct ff_error *err)
{
	static const char *const keys[] = {
			"latency_us", "bytes_per_s", "interconnect", "cards", "sums", NULL};
	int64_t cards = 1;
	int code = read_link(v, keys, &n->network, err);

	n->network.shared = true;
	if (code == FF_OK)
		code = read_interconnect(v, true, a, &n->wiring.between, err);
	if (code == FF_OK && ff_json_get(v, "cards"))
		code = ff_json_int(v, "cards", 1, MOST_CARDS, &cards, err);
	if (code == FF_OK && ff_json_get(v, "sums"))
		code = ff_json_bool(v, "sums", &n->wiring.sums, err);
	if (code == FF_OK)
		n->wiring.cards = (uint32_t)cards;
	return code;
}

int ff_wires_read(const struct ff_json *node, bool single, struct ff_arena *a, struct ff_wires *n,
		struct ff_error *err)
{
	const struct ff_json *inside = ff_json_get(node, "inside");
	const struct ff_json *network = ff_json_get(node, "network");
	const struct ff_link memory = {1, 1e4, true}; /* one device: nothing is sent at all */
	int code = FF_OK;

	if (!inside && n->devices > 1)
		return ff_json_fail(node, err,
				"expected \"inside\", the link between the node's devices");
	if (!network && !single)
		return ff_json_fail(node, err, "expected \"network\", the link between nodes");
	n->wiring.devices = n->devices;
	if (inside)
		code = read_inside(inside, a, n, err);
	if (code == FF_OK && network)
		code = read_network(network, a, n, err);
	if (code < 0)
		return code;
	if (!network) {
		n->network = inside ? n->inside : memory;
		n->network.shared = true;
	}
	if (!inside)
		n->inside = n->network;
	return FF_OK;
}

/* ---- comparing and writing ---- */

static bool link_equal(const struct ff_link *a, const struct ff_link *b)
{
	return a->latency_us == b->latency_us && a->bytes_per_us == b->bytes_per_us &&
	       a->shared == b->shared;
}

static bool name_equal(const struct ff_interconnect *a, const struct ff_interconnect *b)
{
	return a == b || (a && b && !strcmp(a->name, b->name));
}

static bool mesh_equal(const struct ff_mesh *a, const struct ff_mesh *b)
{
	if (a == b || !a || !b)
		return a == b;
	return a->n_devices == b->n_devices && !memcmp(a->links, b->links, sizeof(a->links)) &&
	       link_equal(&a->otherwise, &b->otherwise) &&
	       name_equal(a->interconnect, b->interconnect);
}

bool ff_wires_equal(const struct ff_wires *a, const struct ff_wires *b)
{
	const struct ff_wiring *v = &a->wiring, *w = &b->wiring;

	return link_equal(&a->inside, &b->inside) && link_equal(&a->network, &b->network) &&
	       name_equal(v->inside, w->inside) && name_equal(v->between, w->between) &&
	       mesh_equal(v->mesh, w->mesh) && v->cards == w->cards && v->sums == w->sums;
}

/* Bytes a second that read back as exactly `bytes_per_us`. */
static double per_second(double bytes_per_us)
{
	double v = bytes_per_us * 1e6;

	if (nextafter(v, 0) / 1e6 == bytes_per_us && v / 1e6 != bytes_per_us)
		return nextafter(v, 0);
	return v / 1e6 == bytes_per_us ? v : nextafter(v, INFINITY);
}

/* Opens it, too. */
static void write_link(struct ff_out *o, const char *key, const struct ff_link *l,
		const struct ff_interconnect *x)
{
	ff_out_object(o, key);
	ff_out_real(o, "latency_us", l->latency_us);
	ff_out_real(o, "bytes_per_s", per_second(l->bytes_per_us));
	if (x)
		ff_out_string(o, "interconnect", x->name);
}

/* Among the first `n` devices, which a part of a machine has. */
static void write_mesh(const struct ff_mesh *p, uint32_t n, struct ff_out *o)
{
	ff_out_array(o, "pairs");
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1; k < n; k++) {
			if (!p->links[i][k])
				continue;
			ff_out_array(o, NULL);
			ff_out_int(o, NULL, i);
			ff_out_int(o, NULL, k);
			ff_out_int(o, NULL, p->links[i][k]);
			ff_out_close(o);
		}
	ff_out_close(o);
	write_link(o, "otherwise", &p->otherwise, p->interconnect);
	ff_out_close(o);
}

void ff_wires_write(const struct ff_wires *n, struct ff_out *o)
{
	const struct ff_wiring *w = &n->wiring;

	write_link(o, "inside", &n->inside, w->inside);
	ff_out_bool(o, "shared", n->inside.shared);
	if (w->mesh)
		write_mesh(w->mesh, n->devices, o);
	ff_out_close(o);
	write_link(o, "network", &n->network, w->between);
	if (w->cards > 1)
		ff_out_int(o, "cards", w->cards);
	if (w->sums)
		ff_out_bool(o, "sums", true);
	ff_out_close(o);
}
