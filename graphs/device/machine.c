/* Device graphs in JSON.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/machine.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ff/nearest.h"

#define MAX_KINDS 64
#define MAX_RATE 1e21 /* FLOP/s, B/s: beyond any machine, far from overflow */
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

static int read_model(struct parse *p, const struct ff_json *v, const char **ret)
{
	const char *name;
	int code = ff_json_string(v, "model", &name, p->err);

	if (code < 0)
		return code;
	*ret = ff_arena_strdup(p->arena, name);
	return *ret ? FF_OK : ff_fail_memory(p->err);
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
		code = read_model(p, v, &ret->model);
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

/* "shared" may stand in an inside link only: a network card always is. */
static int read_link(
		const struct ff_json *v, bool inside, struct ff_link *ret, struct ff_error *err)
{
	static const char *const keys[] = {"latency_us", "bytes_per_s", "shared", NULL};
	static const char *const network_keys[] = {"latency_us", "bytes_per_s", NULL};
	struct ff_link l = {.shared = !inside};
	double bytes_per_s = 0;
	int code = need_object(v, err);

	if (code == FF_OK)
		code = ff_json_only(v, inside ? keys : network_keys, err);
	if (code == FF_OK)
		code = ff_json_real(v, "latency_us", 0, 1e9, &l.latency_us, err);
	if (code == FF_OK)
		code = ff_json_real(v, "bytes_per_s", 1, MAX_RATE, &bytes_per_s, err);
	if (code == FF_OK && ff_json_get(v, "shared"))
		code = ff_json_bool(v, "shared", &l.shared, err);
	if (code < 0)
		return code;
	l.bytes_per_us = bytes_per_s / 1e6;
	*ret = l;
	return FF_OK;
}

/* Both links of a group of nodes.  One that no message can use may be left
 * out; it then repeats the other, so that no rate is ever zero. */
static int read_links(
		struct parse *p, const struct ff_json *v, bool single, struct ff_machine_node *n)
{
	const struct ff_json *inside = ff_json_get(v, "inside");
	const struct ff_json *network = ff_json_get(v, "network");
	int code = FF_OK;
	const struct ff_link memory = {1, 1e4, true}; /* one device: nothing is sent at all */

	if (!inside && n->count > 1)
		return ff_json_fail(v, p->err,
				"expected \"inside\", the link between the node's devices");
	if (!network && !single)
		return ff_json_fail(v, p->err, "expected \"network\", the link between nodes");
	if (inside)
		code = read_link(inside, true, &n->inside, p->err);
	if (code == FF_OK && network)
		code = read_link(network, false, &n->network, p->err);
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

static int read_node(struct parse *p, const struct ff_json *v, bool last)
{
	static const char *const keys[] = {"count", "devices", "kind", "inside", "network", NULL};
	struct ff_machine *m = &p->m;
	int64_t count = 1, devices = 0;
	const char *kind = NULL;
	int code = need_object(v, p->err);
	struct ff_machine_node n;

	if (code == FF_OK)
		code = ff_json_only(v, keys, p->err);
	if (code == FF_OK && ff_json_get(v, "count"))
		code = ff_json_int(v, "count", 1, FF_MAX_DEVICES, &count, p->err);
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
		return ff_json_fail(v, p->err, "a machine has at most %d devices", FF_MAX_DEVICES);
	code = read_links(p, v, last && !m->n_nodes && count == 1, &n);
	for (int64_t i = 0; code == FF_OK && i < count; i++) {
		n.first = m->n_devices;
		m->nodes[m->n_nodes++] = n;
		m->n_devices += n.count;
	}
	return code;
}

static int number_devices(struct ff_machine *m, struct ff_arena *a, struct ff_error *err)
{
	m->node_of = ff_arena_array(a, m->n_devices, sizeof(m->node_of[0]));
	if (!m->node_of)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < m->n_nodes; i++)
		for (uint32_t k = 0; k < m->nodes[i].count; k++)
			m->node_of[m->nodes[i].first + k] = i;
	return FF_OK;
}

static int parse_root(const struct ff_json *root, struct ff_arena *a, struct ff_machine *ret,
		struct ff_error *err)
{
	static const char *const keys[] = {
			"format", "version", "name", "source", "overlap", "kinds", "nodes", NULL};
	struct parse p = {.arena = a, .err = err};
	const struct ff_json *nodes = NULL;
	const char *source = NULL;
	int code = ff_json_format(root, "ffsoap-machine", 1, err);

	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = read_name(&p, root, &p.m.name);
	if (code == FF_OK && ff_json_get(root, "source"))
		code = ff_json_string(root, "source", &source, err);
	if (code == FF_OK)
		code = ff_json_bool(root, "overlap", &p.m.overlap, err);
	if (code == FF_OK)
		code = read_kinds(&p, root);
	if (code == FF_OK)
		code = ff_json_need(root, "nodes", FF_JSON_ARRAY, &nodes, err);
	if (code != FF_OK)
		return code;
	if (nodes->n < 1)
		return ff_json_fail(nodes, err, "expected at least one node");
	p.m.nodes = ff_arena_array(a, FF_MAX_DEVICES, sizeof(p.m.nodes[0]));
	if (!p.m.nodes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < nodes->n; i++) {
		code = read_node(&p, &nodes->child[i], i + 1 == nodes->n);
		if (code < 0)
			return code;
	}
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
		code = parse_root(root, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

const char *ff_machine_folder(uint32_t i)
{
	const char *all[FF_MACHINE_FOLDERS] = {getenv("FF_MACHINES"), FF_SOURCE_MACHINES, FF_DATA_MACHINES};

	return all[i];
}

/* The path of the machine called `name`; NULL when the host is out of memory. */
static const char *find_file(const char *name, struct ff_arena *a, bool *found)
{
	size_t len = strlen(name);
	const char *suffix = len > 5 && !strcmp(name + len - 5, ".json") ? "" : ".json";

	*found = true;
	if (!access(name, F_OK) || strchr(name, '/'))
		return name;
	for (uint32_t i = 0; i < FF_MACHINE_FOLDERS; i++) {
		const char *path;

		if (!ff_machine_folder(i))
			continue;
		path = ff_arena_printf(a, "%s/%s%s", ff_machine_folder(i), name, suffix);
		if (!path || !access(path, F_OK))
			return path;
	}
	*found = false;
	return name;
}

/* "NAMExN" and "NAME:N" for what is called NAMExM or NAMEM: the least M from N on.  Writes its
 * name, returns M; 0: there is none. */
static uint32_t find_larger(const char *name, uint32_t n, char found[FF_NEAREST_LENGTH])
{
	uint32_t least = 0;

	for (uint32_t i = 0; i < FF_MACHINE_FOLDERS; i++) {
		struct dirent **entry;
		int count = ff_machine_folder(i) ? scandir(ff_machine_folder(i), &entry, NULL, alphasort) : -1;

		for (int k = 0; k < count; k++) {
			uint32_t m = 0;
			int end = 0;

			if (!strncmp(entry[k]->d_name, name, strlen(name)) &&
					sscanf(entry[k]->d_name + strlen(name),
							"%4" SCNu32 ".json%n", &m, &end) == 1 &&
					end && m >= n && (!least || m < least)) {
				least = m;
				snprintf(found, FF_NEAREST_LENGTH, "%.*s",
						(int)strcspn(entry[k]->d_name, "."),
						entry[k]->d_name);
			}
			free(entry[k]);
		}
		if (count >= 0)
			free(entry);
	}
	return least;
}

/* How to take so many devices of a machine that has more. */
static bool find_part(const char *name, char hint[FF_NEAREST_LENGTH + 96])
{
	char base[FF_NEAREST_LENGTH], found[FF_NEAREST_LENGTH];
	size_t length = strlen(name), digits = length;
	const char *colon = strrchr(name, ':');
	uint32_t n, m;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (length >= sizeof(base) || length - digits > 4 ||
			sscanf(name + digits, "%" SCNu32, &n) != 1 || !n)
		return false;
	snprintf(base, sizeof(base), "%.*s", (int)digits, name);
	if (colon && colon[1] && (size_t)(colon - name) + 1 == digits) {
		/* the machine's own name, or what stands before its number */
		size_t end = (size_t)(colon - name);

		while (end && name[end - 1] >= '0' && name[end - 1] <= '9')
			end--;
		base[end] = '\0';
	}
	m = *base ? find_larger(base, n, found) : 0;
	if (m)
		snprintf(hint, FF_NEAREST_LENGTH + 96,
				"; --machine %s --devices %" PRIu32 " takes %" PRIu32
				" of its %" PRIu32 " devices",
				found, n, n, m);
	return m > 0;
}

static int unknown_machine(const char *name, struct ff_error *err)
{
	char part[FF_NEAREST_LENGTH + 96];
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < FF_MACHINE_FOLDERS; i++)
		if (ff_machine_folder(i))
			ff_nearest_try_folder(&near, ff_machine_folder(i), ".json");
	return ff_fail(err, FF_E_INPUT,
			"there is no machine \"%.100s\": neither a file nor one of "
			"graphs/machines/ or $FF_MACHINES%s",
			name, find_part(name, part) ? part : ff_nearest_known(&near));
}

const char *ff_machine_file(const char *name, struct ff_arena *a)
{
	bool found;
	const char *path = name ? find_file(name, a, &found) : NULL;

	return path && found ? path : NULL;
}

bool ff_machine_known(const char *name)
{
	struct ff_arena scratch;
	bool found;

	ff_arena_init(&scratch);
	/* without memory it may be known: loading it will say what is the matter */
	if (!find_file(name, &scratch, &found))
		found = true;
	ff_arena_finish(&scratch);
	return found;
}

int ff_machine_load(
		const char *name, struct ff_arena *a, struct ff_machine *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	bool found;
	const char *path;
	int code;

	ff_arena_init(&scratch);
	path = find_file(name, &scratch, &found);
	code = path ? FF_OK : ff_fail_memory(err);
	if (code == FF_OK && !found)
		code = unknown_machine(name, err);
	if (code == FF_OK)
		code = ff_json_load(path, &scratch, &root, err);
	if (code == FF_OK)
		code = parse_root(root, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

/* Bytes a second that read back as exactly `bytes_per_us`. */
static double per_second(double bytes_per_us)
{
	double v = bytes_per_us * 1e6;

	if (nextafter(v, 0) / 1e6 == bytes_per_us && v / 1e6 != bytes_per_us)
		return nextafter(v, 0);
	return v / 1e6 == bytes_per_us ? v : nextafter(v, INFINITY);
}

static void write_link(struct ff_out *o, const char *key, const struct ff_link *l, bool inside)
{
	ff_out_object(o, key);
	ff_out_real(o, "latency_us", l->latency_us);
	ff_out_real(o, "bytes_per_s", per_second(l->bytes_per_us));
	if (inside)
		ff_out_bool(o, "shared", l->shared);
	ff_out_close(o);
}

static bool link_equal(const struct ff_link *a, const struct ff_link *b)
{
	return a->latency_us == b->latency_us && a->bytes_per_us == b->bytes_per_us &&
	       a->shared == b->shared;
}

static bool node_equal(const struct ff_machine_node *a, const struct ff_machine_node *b)
{
	return a->count == b->count && a->kind == b->kind && link_equal(&a->inside, &b->inside) &&
	       link_equal(&a->network, &b->network);
}

void ff_machine_write(const struct ff_machine *m, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-machine");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "name", m->name);
	ff_out_bool(o, "overlap", m->overlap);
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

		for (count = 1; i + count < m->n_nodes && node_equal(n, n + count);)
			count++;
		ff_out_object(o, NULL);
		ff_out_int(o, "count", count);
		ff_out_int(o, "devices", n->count);
		ff_out_string(o, "kind", m->kinds[n->kind].name);
		write_link(o, "inside", &n->inside, true);
		write_link(o, "network", &n->network, false);
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
		if (!r.kinds[i].name || (m->kinds[i].model && !r.kinds[i].model))
			return ff_fail_memory(err);
	}
	last = &r.nodes[r.n_nodes - 1];
	last->count = n - last->first;
	code = number_devices(&r, a, err);
	if (code == FF_OK)
		*ret = r;
	return code;
}
