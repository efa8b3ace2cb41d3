/* Device graphs in JSON.  SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <inttypes.h>
#include <string.h>

#include "ff/nearest.h"
#include "wiring.h"

#define MAX_KINDS 64
#define MAX_RATE FF_MOST_RATE
#define MAX_MEMORY ((int64_t)1 << 50)

struct parse {
	struct ff_machine m;
	struct ff_arena *arena;
	struct ff_error *err;
};

static int need_object(const struct ff_json *v, struct ff_error *err)
{
	return v->type == FF_JSON_OBJECT ? FF_OK : ff_json_fail(v, err, "expected an object");
}

/* A machine's name goes into strategy files and one-line reports. */
static int read_name(struct parse *p, const struct ff_json *object, const char **ret)
{
	const char *name;
	int code = ff_json_string(object, "name", &name, p->err);
	size_t n;
	char *copy;

	if (code < 0)
		return code;
	n = strlen(name);
	if (n < 1 || n > 100)
		return ff_json_fail(ff_json_get(object, "name"), p->err,
				"expected 1 to 100 characters");
	copy = ff_arena_strdup(p->arena, name);
	if (!copy)
		return ff_fail_memory(p->err);
	*ret = copy;
	return FF_OK;
}

static int read_backend(struct parse *p, const struct ff_json *v, const char **ret)
{
	const char *name = NULL;
	int code = ff_json_string(v, "backend", &name, p->err);

	if (code < 0)
		return code;
	if (strcmp(name, "cpu") != 0 && strcmp(name, "cuda") != 0)
		return ff_json_fail(ff_json_get(v, "backend"), p->err,
				"expected \"cpu\" or \"cuda\", not \"%.64s\"", name);
	*ret = ff_arena_strdup(p->arena, name);
	return *ret ? FF_OK : ff_fail_memory(p->err);
}

static int read_model(struct parse *p, const struct ff_json *v, struct ff_device_kind *ret)
{
	const char *name;
	int code = ff_json_string(v, "model", &name, p->err);

	if (code < 0)
		return code;
	ret->model = ff_arena_strdup(p->arena, name);
	ret->model_place = ff_arena_printf(
			p->arena, "%s: kinds[%u].model: ", v->parent->parent->file, v->index);
	return ret->model && ret->model_place ? FF_OK : ff_fail_memory(p->err);
}

static int read_kind(struct parse *p, const struct ff_json *v, struct ff_device_kind *ret)
{
	static const char *const keys[] = {"name", "flops_per_s", "bfloat16_flops_per_s",
			"memory_bytes_per_s", "memory_bytes", "model", "backend", NULL};
	int code = need_object(v, p->err);

	if (code == FF_OK)
		code = ff_json_only(v, keys, p->err);
	if (code == FF_OK)
		code = read_name(p, v, &ret->name);
	if (code == FF_OK)
		code = ff_json_real(v, "flops_per_s", 1, MAX_RATE, &ret->flops_per_s, p->err);
	if (code == FF_OK && ff_json_get(v, "bfloat16_flops_per_s"))
		code = ff_json_real(v, "bfloat16_flops_per_s", 1, MAX_RATE,
				&ret->bfloat16_flops_per_s, p->err);
	if (code == FF_OK)
		code = ff_json_real(v, "memory_bytes_per_s", 1, MAX_RATE, &ret->memory_bytes_per_s,
				p->err);
	if (code == FF_OK)
		code = ff_json_int(v, "memory_bytes", 1, MAX_MEMORY, &ret->memory_bytes, p->err);
	if (code == FF_OK && ff_json_get(v, "model"))
		code = read_model(p, v, ret);
	if (code == FF_OK && ff_json_get(v, "backend"))
		code = read_backend(p, v, &ret->backend);
	return code;
}

static uint32_t find_kind(const struct ff_machine *m, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(m->kinds[i].name, name))
			return i;
	return UINT32_MAX;
}

static int unknown_kind(struct parse *p, const struct ff_json *v, const char *name)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < p->m.n_kinds; i++)
		ff_nearest_try(&near, p->m.kinds[i].name);
	return ff_json_fail(v, p->err, "there is no kind \"%.100s\" in \"kinds\"%s", name,
			ff_nearest_known(&near));
}

static int read_kinds(struct parse *p, const struct ff_json *root)
{
	const struct ff_json *kinds;
	int code = ff_json_need(root, "kinds", FF_JSON_ARRAY, &kinds, p->err);

	if (code < 0)
		return code;
	if (kinds->n < 1 || kinds->n > MAX_KINDS)
		return ff_json_fail(kinds, p->err, "expected 1 to %d kinds of devices", MAX_KINDS);
	p->m.n_kinds = kinds->n;
	p->m.kinds = ff_arena_array(p->arena, kinds->n, sizeof(p->m.kinds[0]));
	if (!p->m.kinds)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < kinds->n; i++) {
		code = read_kind(p, &kinds->child[i], &p->m.kinds[i]);
		if (code < 0)
			return code;
		if (find_kind(&p->m, i, p->m.kinds[i].name) != UINT32_MAX)
			return ff_json_fail(&kinds->child[i], p->err, "the kind \"%s\" is taken",
					p->m.kinds[i].name);
	}
	return FF_OK;
}

/* `nodes`, unless 0, stands for its count. */
static int read_node(struct parse *p, const struct ff_json *v, bool last, uint32_t nodes)
{
	static const char *const keys[] = {"count", "devices", "kind", "inside", "network", NULL};
	struct ff_machine *m = &p->m;
	int64_t count = 1, devices = 0;
	const char *kind = NULL;
	int code = need_object(v, p->err);
	struct ff_wires wires = {0};
	struct ff_machine_node n;

	if (code == FF_OK)
		code = ff_json_only(v, keys, p->err);
	if (code == FF_OK && ff_json_get(v, "count"))
		code = ff_json_int(v, "count", 1, FF_MAX_DEVICES, &count, p->err);
	if (nodes)
		count = nodes;
	if (code == FF_OK)
		code = ff_json_int(v, "devices", 1, FF_MAX_DEVICES, &devices, p->err);
	if (code == FF_OK)
		code = ff_json_string(v, "kind", &kind, p->err);
	if (code != FF_OK)
		return code;
	n = (struct ff_machine_node){.count = (uint32_t)devices};
	n.kind = find_kind(m, m->n_kinds, kind);
	if (n.kind == UINT32_MAX)
		return unknown_kind(p, ff_json_get(v, "kind"), kind);
	if (m->n_devices + count * devices > FF_MAX_DEVICES)
		return ff_json_fail(v, p->err, "a machine has at most %d devices, not %" PRId64,
				FF_MAX_DEVICES, m->n_devices + count * devices);
	wires.devices = n.count;
	code = ff_wires_read(v, last && !m->n_nodes && count == 1, p->arena, &wires, p->err);
	n.inside = wires.inside;
	n.network = wires.network;
	n.wiring = wires.wiring;
	for (int64_t i = 0; code == FF_OK && i < count; i++) {
		n.first = m->n_devices;
		m->nodes[m->n_nodes++] = n;
		m->n_devices += n.count;
	}
	return code;
}

static struct ff_wires wires_of(const struct ff_machine_node *n)
{
	return (struct ff_wires){n->count, n->inside, n->network, n->wiring};
}

static bool node_equal(const struct ff_machine_node *a, const struct ff_machine_node *b)
{
	const struct ff_wires v = wires_of(a), w = wires_of(b);

	return a->count == b->count && a->kind == b->kind && ff_wires_equal(&v, &w);
}

/* `n_nodes` nodes as those that were read, which are all alike. */
static int repeat_node(struct parse *p, const struct ff_json *nodes, uint32_t n_nodes)
{
	struct ff_machine *m = &p->m;
	struct ff_machine_node n = m->nodes[0];

	for (uint32_t i = 1; i < m->n_nodes; i++)
		if (!node_equal(&n, &m->nodes[i]))
			return ff_json_fail(nodes, p->err,
					"expected nodes that are all alike, as %u are asked for",
					n_nodes);
	if ((uint64_t)n_nodes * n.count > FF_MAX_DEVICES)
		return ff_json_fail(nodes, p->err, "a machine has at most %d devices, not %" PRIu64,
				FF_MAX_DEVICES, (uint64_t)n_nodes * n.count);
	for (m->n_nodes = 0; m->n_nodes < n_nodes; m->n_nodes++) {
		n.first = m->n_nodes * n.count;
		m->nodes[m->n_nodes] = n;
	}
	m->n_devices = n_nodes * n.count;
	return FF_OK;
}

/* All entries of "nodes"; `n_nodes`, unless 0: so many, whatever the file says. */
static int read_nodes(struct parse *p, const struct ff_json *nodes, uint32_t n_nodes)
{
	bool single = nodes->n == 1;
	int code = FF_OK;

	if (nodes->n < 1)
		return ff_json_fail(nodes, p->err, "expected at least one node");
	for (uint32_t i = 0; i < nodes->n && code == FF_OK; i++)
		code = read_node(p, &nodes->child[i], i + 1 == nodes->n, single ? n_nodes : 0);
	return code == FF_OK && n_nodes && !single ? repeat_node(p, nodes, n_nodes) : code;
}

void ff_machine_number_cards(struct ff_machine *m)
{
	m->n_card_lanes = 0;
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		m->nodes[i].wiring.first_card = m->n_card_lanes;
		m->n_card_lanes += ff_node_card_lanes(m, &m->nodes[i]);
	}
}

static int number_devices(struct ff_machine *m, struct ff_arena *a, struct ff_error *err)
{
	m->node_of = ff_arena_array(a, m->n_devices, sizeof(m->node_of[0]));
	if (!m->node_of)
		return ff_fail_memory(err);
	ff_machine_number_cards(m);
	for (uint32_t i = 0; i < m->n_nodes; i++)
		for (uint32_t k = 0; k < m->nodes[i].count; k++)
			m->node_of[m->nodes[i].first + k] = i;
	return FF_OK;
}

static int read_lanes(struct parse *p, const struct ff_json *root)
{
	const struct ff_json *lane = ff_json_get(root, "message_lane");
	int code = ff_json_bool(root, "overlap", &p->m.overlap, p->err);

	if (code == FF_OK && lane)
		code = ff_json_bool(root, "message_lane", &p->m.message_lane, p->err);
	if (code == FF_OK && p->m.message_lane && !p->m.overlap)
		return ff_json_fail(lane, p->err, "a lane for messages needs \"overlap\": true");
	return code;
}

int ff_machine_read(const struct ff_json *root, uint32_t n_nodes, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "name", "source", "overlap",
			"message_lane", "kinds", "nodes", NULL};
	struct parse p = {.arena = a, .err = err};
	const struct ff_json *nodes = NULL, *source = NULL;
	int code = ff_json_format(root, "ffsoap-machine", 1, err);

	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = read_name(&p, root, &p.m.name);
	if (code == FF_OK && ff_json_get(root, "source"))
		code = ff_json_need(root, "source", FF_JSON_STRING, &source, err);
	if (code == FF_OK)
		code = read_lanes(&p, root);
	if (code == FF_OK)
		code = read_kinds(&p, root);
	if (code == FF_OK)
		code = ff_json_need(root, "nodes", FF_JSON_ARRAY, &nodes, err);
	if (code != FF_OK)
		return code;
	p.m.nodes = ff_arena_array(a, FF_MAX_DEVICES, sizeof(p.m.nodes[0]));
	if (!p.m.nodes)
		return ff_fail_memory(err);
	code = read_nodes(&p, nodes, n_nodes);
	if (code < 0)
		return code;
	code = number_devices(&p.m, a, err);
	if (code == FF_OK)
		*ret = p.m;
	return code;
}

int ff_machine_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	int code;

	ff_arena_init(&scratch);
	code = ff_json_parse(file, text, len, &scratch, &root, err);
	if (code == FF_OK)
		code = ff_machine_read(root, 0, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

void ff_machine_write(const struct ff_machine *m, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-machine");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "name", m->name);
	ff_out_bool(o, "overlap", m->overlap);
	if (m->message_lane)
		ff_out_bool(o, "message_lane", true);
	ff_out_array(o, "kinds");
	for (uint32_t i = 0; i < m->n_kinds; i++) {
		const struct ff_device_kind *k = &m->kinds[i];

		ff_out_object(o, NULL);
		ff_out_string(o, "name", k->name);
		if (k->model)
			ff_out_string(o, "model", k->model);
		if (k->backend)
			ff_out_string(o, "backend", k->backend);
		ff_out_real(o, "flops_per_s", k->flops_per_s);
		if (k->bfloat16_flops_per_s > 0)
			ff_out_real(o, "bfloat16_flops_per_s", k->bfloat16_flops_per_s);
		ff_out_real(o, "memory_bytes_per_s", k->memory_bytes_per_s);
		ff_out_int(o, "memory_bytes", k->memory_bytes);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_array(o, "nodes");
	for (uint32_t i = 0, count; i < m->n_nodes; i += count) {
		const struct ff_machine_node *n = &m->nodes[i];
		const struct ff_wires wires = wires_of(n);

		for (count = 1; i + count < m->n_nodes && node_equal(n, n + count);)
			count++;
		ff_out_object(o, NULL);
		ff_out_int(o, "count", count);
		ff_out_int(o, "devices", n->count);
		ff_out_string(o, "kind", m->kinds[n->kind].name);
		ff_wires_write(&wires, o);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_close(o);
}

int ff_machine_subset(const struct ff_machine *m, uint32_t n, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err)
{
	struct ff_machine r;
	struct ff_machine_node *last;
	int code;

	if (n < 1 || n > m->n_devices)
		return ff_fail(err, FF_E_INPUT,
				"the machine \"%s\" has %u devices, %u cannot be taken", m->name,
				m->n_devices, n);
	r = *m;
	r.n_devices = n;
	r.n_nodes = m->node_of[n - 1] + 1;
	r.nodes = ff_arena_copy(a, m->nodes, r.n_nodes, sizeof(r.nodes[0]));
	r.kinds = ff_arena_copy(a, m->kinds, m->n_kinds, sizeof(r.kinds[0]));
	r.name = ff_arena_strdup(a, m->name);
	if (!r.nodes || !r.kinds || !r.name)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r.n_kinds; i++) {
		r.kinds[i].name = ff_arena_strdup(a, m->kinds[i].name);
		if (m->kinds[i].model)
			r.kinds[i].model = ff_arena_strdup(a, m->kinds[i].model);
		if (m->kinds[i].model_place)
			r.kinds[i].model_place = ff_arena_strdup(a, m->kinds[i].model_place);
		if (!r.kinds[i].name || !r.kinds[i].model != !m->kinds[i].model ||
				!r.kinds[i].model_place != !m->kinds[i].model_place)
			return ff_fail_memory(err);
	}
	last = &r.nodes[r.n_nodes - 1];
	last->count = n - last->first;
	code = number_devices(&r, a, err);
	if (code == FF_OK)
		*ret = r;
	return code;
}
