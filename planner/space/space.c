/* The space of legal configs: degree vectors, each on views of the devices.
 *
 * For degrees with product n, a view is a start, a base stride t and an order
 * of the split dims: counting the parts in that order, part number j runs on
 * device start + j * t.  Two such views never give the same device list: part
 * 0 tells the start, the smallest stride t, and the strides of the split dims
 * their order.  So counting views needs no search for duplicates:
 * (split dims)! * sum over t of (devices - (n - 1) * t).
 * SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include <stdlib.h>
#include <string.h>

#include "ff/micro.h"

/* Of a strategy that is searched. */
#define MOST_INSTANCES ((uint64_t)1 << 22)

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint32_t product(uint32_t n_dims, const uint16_t *degree)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < n_dims; i++)
		n *= degree[i];
	return n;
}

/* Orders of the split dims. */
static uint32_t order_count(uint32_t n_dims, const uint16_t *degree)
{
	uint32_t split = 0, n = 1;

	for (uint32_t i = 0; i < n_dims; i++)
		if (degree[i] > 1)
			n *= ++split;
	return n;
}

/* Placements (start and base stride) of `n` parts with base strides 1 .. t. */
static uint64_t placements_up_to(uint32_t devices, uint32_t n, uint32_t t)
{
	return (uint64_t)t * devices - (uint64_t)(n - 1) * t * (t + 1) / 2;
}

static uint64_t placement_count(uint32_t devices, uint32_t n)
{
	return n == 1 ? devices : placements_up_to(devices, n, (devices - 1) / (n - 1));
}

/* Placement number `i`: smaller base strides first, then smaller starts. */
static void placement(uint32_t devices, uint32_t n, uint64_t i, uint32_t *start, uint32_t *stride)
{
	uint32_t low = 0, high = n == 1 ? 1 : (devices - 1) / (n - 1);

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (placements_up_to(devices, n, mid) <= i)
			low = mid;
		else
			high = mid;
	}
	*start = (uint32_t)(i - placements_up_to(devices, n, low));
	*stride = low + 1;
}

/* Strides for order number `order` of the split dims; number 0 has the last
 * dim fastest, so that parts lie in line. */
static void set_strides(uint32_t n_dims, const uint16_t *degree, uint32_t order, uint32_t base,
		struct ff_view *view)
{
	uint32_t left[FF_MAX_DIMS], n = 0;

	for (uint32_t i = 0; i < n_dims; i++) {
		view->stride[i] = 0;
		if (degree[i] > 1)
			left[n++] = i;
	}
	while (n > 0) {
		uint32_t pick = n - 1 - order % n, dim = left[pick];

		order /= n--;
		view->stride[dim] = base;
		base *= degree[dim];
		memmove(left + pick, left + pick + 1, (n - pick) * sizeof(*left));
	}
}

void ff_view_config(uint32_t n_dims, const uint16_t *degree, const struct ff_view *view,
		struct ff_config *ret)
{
	struct ff_config c = {.n_parts = 1, .replicas = 1, .start = (uint16_t)view->start};

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
		c.degree[d] = d < n_dims ? degree[d] : 1;
		c.stride[d] = c.degree[d] > 1 ? (uint16_t)view->stride[d] : 0;
		c.n_parts *= c.degree[d];
	}
	*ret = c;
}

bool ff_view_check(uint32_t n_dims, const uint16_t *degree, const struct ff_view *view,
		uint32_t n_devices)
{
	uint64_t reach = view->start; /* strides of a list that descends are near 2^32 */
	uint32_t base = UINT32_MAX, n = 1;

	for (uint32_t i = 0; i < n_dims; i++) {
		if (degree[i] == 1)
			continue;
		if (view->stride[i] < base)
			base = view->stride[i];
		reach += (uint64_t)(degree[i] - 1) * view->stride[i];
		n *= degree[i];
	}
	if (base == 0 || n > n_devices || reach >= n_devices)
		return false;
	/* Walk the dims from the fastest: each stride is what lies inside it. */
	for (uint32_t inside = 1; inside < n;) {
		uint32_t dim = 0;

		while (dim < n_dims && (degree[dim] == 1 || view->stride[dim] != base * inside))
			dim++;
		if (dim == n_dims)
			return false;
		inside *= degree[dim];
	}
	return true;
}

void ff_view_of(uint32_t n_dims, const struct ff_config *c, struct ff_view *ret)
{
	uint32_t step = 1;

	memset(ret, 0, sizeof(*ret));
	ret->start = c->list ? c->list[0] : c->start;
	for (uint32_t d = n_dims; d-- > 0; step *= c->degree[d])
		if (c->degree[d] > 1)
			ret->stride[d] = c->list ? (uint32_t)(c->list[step] - c->list[0])
						 : c->stride[d];
}

void ff_view_draw(const struct ff_space *s, uint32_t n_dims, const uint16_t *degree, bool tidy,
		struct ff_random *r, struct ff_view *ret)
{
	uint32_t n = product(n_dims, degree), base;

	if (tidy) {
		/* Blocks of n * t devices tile the machine; take every t-th of one. */
		uint32_t blocks = s->n_devices / n, n_bases = 0, bases[64], i;

		for (i = 0; i < s->n_divisors; i++)
			if (blocks % s->divisor[i] == 0)
				bases[n_bases++] = s->divisor[i];
		base = n == 1 ? 1 : bases[ff_random_below(r, n_bases)];
		i = ff_random_below(r, blocks);
		ret->start = i / base * n * base + i % base;
	} else {
		uint64_t i = ff_random_below(r, (uint32_t)placement_count(s->n_devices, n));

		placement(s->n_devices, n, i, &ret->start, &base);
	}
	set_strides(n_dims, degree, ff_random_below(r, order_count(n_dims, degree)), base, ret);
}

/* The next degree vector with what is pinned. */
static bool next_degrees(const struct ff_node *node, uint32_t devices, const struct ff_degrees *t,
		struct ff_config *c)
{
	while (ff_config_next_degrees(node, devices, c)) {
		uint32_t d = 0;

		while (d < t->n_dims && (!t->pinned[d] || c->degree[d] == t->pinned[d]))
			d++;
		if (d == t->n_dims)
			return true;
	}
	return false;
}

static void fill_vectors(const struct ff_node *node, uint32_t devices, struct ff_degrees *t)
{
	struct ff_config c = {0};

	for (uint32_t i = 0; next_degrees(node, devices, t, &c); i++) {
		uint16_t *degree = t->degree + (size_t)i * t->n_dims;
		uint64_t views;

		memcpy(degree, c.degree, t->n_dims * sizeof(*degree));
		views = placement_count(devices, c.n_parts) * order_count(t->n_dims, degree);
		t->before[i + 1] = add_saturated(t->before[i], views);
	}
}

/* Which divisor of the devices degree vector `i` makes as many parts as; n_divisors: none. */
static uint32_t divisor_of(const struct ff_space *s, const struct ff_degrees *t, uint32_t i)
{
	uint32_t parts = product(t->n_dims, t->degree + (size_t)i * t->n_dims), k = 0;

	if (s->n_devices % parts != 0)
		return s->n_divisors;
	while (s->divisor[k] != parts)
		k++;
	return k;
}

/* Sorts them by that. */
static void fill_tidy(const struct ff_space *s, struct ff_degrees *t)
{
	uint32_t at[sizeof(s->divisor) / sizeof(*s->divisor) + 2] = {0};

	for (uint32_t i = 0; i < t->n; i++)
		at[divisor_of(s, t, i) + 1]++;
	for (uint32_t k = 0; k < s->n_divisors; k++) {
		if (at[k + 1])
			t->group[t->n_groups++] = at[k];
		at[k + 1] += at[k];
	}
	t->group[t->n_groups] = at[s->n_divisors];
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t k = divisor_of(s, t, i);

		if (k < s->n_divisors)
			t->tidy[at[k]++] = i;
	}
}

static struct ff_degrees *degrees_create(
		struct ff_space *s, const struct ff_node *node, const struct ff_degrees *key)
{
	struct ff_degrees *t = ff_arena_copy(&s->arena, key, 1, sizeof(*key));
	struct ff_config c = {0};

	if (!t)
		return NULL;
	while (next_degrees(node, s->n_devices, t, &c)) {
		t->n++;
		t->n_tidy += s->n_devices % c.n_parts == 0;
	}
	t->degree = ff_arena_array(&s->arena, (size_t)t->n * t->n_dims, sizeof(*t->degree));
	t->before = ff_arena_array(&s->arena, (size_t)t->n + 1, sizeof(*t->before));
	t->tidy = ff_arena_array(&s->arena, t->n_tidy, sizeof(*t->tidy));
	t->group = ff_arena_array(&s->arena, s->n_divisors + 1, sizeof(*t->group));
	if (!t->degree || !t->before || !t->tidy || !t->group)
		return NULL;
	fill_vectors(node, s->n_devices, t);
	fill_tidy(s, t);
	return t;
}

static void key_of(const struct ff_node *node, uint32_t devices, const struct ff_pin *pin,
		struct ff_degrees *key)
{
	memset(key, 0, sizeof(*key));
	key->n_dims = node->n_dims;
	if (pin)
		memcpy(key->pinned, pin->degree, sizeof(key->pinned));
	for (uint32_t i = 0; i < node->n_dims; i++)
		key->cap[i] = node->dim[i].extent < (int32_t)devices ? node->dim[i].extent
								     : (int32_t)devices;
}

static uint64_t key_hash(const struct ff_degrees *key)
{
	uint64_t h = key->n_dims;

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++)
		h = ff_hash_mix(h, (uint64_t)key->cap[i] << 16 | key->pinned[i]);
	return h;
}

/* The degrees of an earlier node that is alike, by its number; or new ones. */
static int fill_node(struct ff_space *s, uint32_t node, struct ff_table *t)
{
	const struct ff_node *n = &s->graph->nodes[node];
	struct ff_degrees key;
	uint64_t hash;
	uint32_t at, i;

	key_of(n, s->n_devices, ff_space_pin(s, node), &key);
	hash = key_hash(&key);
	for (i = ff_table_first(t, hash, &at); i != FF_NONE; i = ff_table_next(t, hash, &at))
		if (s->of[i]->n_dims == key.n_dims &&
				!memcmp(s->of[i]->cap, key.cap, sizeof(key.cap)) &&
				!memcmp(s->of[i]->pinned, key.pinned, sizeof(key.pinned)))
			break;
	s->of[node] = i != FF_NONE ? s->of[i] : degrees_create(s, n, &key);
	if (!s->of[node])
		return FF_E_NOMEM;
	return i != FF_NONE ? FF_OK : ff_table_put(t, hash, node);
}

/* Nodes alike share one table. */
static int fill_nodes(struct ff_space *s)
{
	struct ff_table seen = {0};
	int code = FF_OK;

	for (uint32_t i = 0; i < s->graph->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(s->graph, i))
			code = fill_node(s, i, &seen);
	ff_table_finish(&seen);
	return code;
}

int ff_space_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_space **ret,
		struct ff_error *err)
{
	struct ff_space *s = calloc(1, sizeof(*s));
	int code = FF_E_NOMEM;

	if (!s)
		return ff_fail_memory(err);
	ff_arena_init(&s->arena);
	s->graph = g;
	s->machine = m;
	s->n_devices = m->n_devices;
	s->micro[0] = s->n_micro = 1;
	for (uint32_t i = 1; i <= m->n_devices; i++)
		if (m->n_devices % i == 0)
			s->divisor[s->n_divisors++] = i;
	s->of = ff_arena_array(&s->arena, g->n_nodes, sizeof(void *));
	if (s->of)
		code = fill_nodes(s);
	if (code < 0) {
		ff_space_destroy(s);
		return ff_fail_memory(err);
	}
	*ret = s;
	return FF_OK;
}

/* The least divisor of the batch that is twice `m` or more; 0: there is none. */
static uint32_t more_micro(const struct ff_space *s, uint32_t m)
{
	uint32_t batch = (uint32_t)s->graph->batch;

	for (m *= 2; m <= batch; m++)
		if (batch % m == 0)
			return m;
	return 0;
}

void ff_space_allow(struct ff_space *s, uint32_t what)
{
	uint32_t m = 1;

	s->what = what;
	s->n_micro = 1;
	while (what & FF_SPACE_MICRO && s->n_micro < FF_MOST_MICRO && (m = more_micro(s, m)) != 0) {
		struct ff_arena scratch;
		struct ff_graph micro;
		struct ff_error why;
		int code;

		ff_arena_init(&scratch);
		code = ff_graph_micro(s->graph, m, &scratch, &micro, &why);
		ff_arena_finish(&scratch);
		if (code < 0)
			return;
		s->micro[s->n_micro++] = m;
	}
}

uint64_t ff_space_instances(const struct ff_space *s, const struct ff_strategy *plan)
{
	uint64_t parts = 0;

	for (uint32_t i = 0; i < s->graph->n_nodes; i++)
		parts += ff_node_needs_config(s->graph, i) ? plan->config[i].n_parts : 0;
	return parts * plan->micro_batches;
}

uint64_t ff_space_instances_each(const struct ff_space *s, uint32_t micro_batches, uint32_t parts)
{
	uint64_t nodes = 0;

	for (uint32_t i = 0; i < s->graph->n_nodes; i++)
		nodes += ff_node_needs_config(s->graph, i);
	return nodes * parts * micro_batches;
}

bool ff_space_has_time(uint32_t micro_batches, uint64_t instances)
{
	return micro_batches == 1 || instances <= MOST_INSTANCES;
}

uint32_t ff_space_micro(const struct ff_space *s, const uint32_t **ret)
{
	*ret = s->micro;
	return s->n_micro;
}

void ff_space_forbid_micro(struct ff_space *s, uint32_t micro_batches)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_micro; i++)
		if (s->micro[i] != micro_batches)
			s->micro[n++] = s->micro[i];
	s->n_micro = n;
}

/* Whether every pin is legal for a graph: parts of micro-batches have fewer samples. */
static bool suits(const struct ff_graph *g, const struct ff_limits *l)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t d = 0; l->pin[i] && d < g->nodes[i].n_dims; d++)
			if (l->pin[i]->degree[d] > g->nodes[i].dim[d].extent)
				return false;
	return true;
}

static int limit_micro(struct ff_space *s, struct ff_error *err)
{
	const struct ff_limits *l = &s->limits;
	uint32_t n = 1;
	int code = FF_OK;

	for (uint32_t i = 1; i < s->n_micro && code == FF_OK; i++) {
		struct ff_arena scratch;
		struct ff_graph micro;
		bool there = !l->max_micro || s->micro[i] <= l->max_micro;

		ff_arena_init(&scratch);
		if (there && l->pin) {
			code = ff_graph_micro(s->graph, s->micro[i], &scratch, &micro, err);
			there = code == FF_OK && suits(&micro, l);
		}
		ff_arena_finish(&scratch);
		if (there)
			s->micro[n++] = s->micro[i];
	}
	s->n_micro = n;
	return code;
}

int ff_space_limit(struct ff_space *s, const struct ff_limits *l, struct ff_error *err)
{
	struct ff_table seen = {0};
	int code = FF_OK;

	s->limits = *l;
	for (uint32_t i = 0; l->pin && i < s->graph->n_nodes && code == FF_OK; i++) {
		if (!l->pin[i])
			continue;
		code = fill_node(s, i, &seen) < 0 ? ff_fail_memory(err) : FF_OK;
		if (code == FF_OK && s->of[i]->n == 0)
			code = ff_fail(err, FF_E_INPUT,
					"operator %s cannot be split as it is pinned",
					s->graph->nodes[i].name);
	}
	ff_table_finish(&seen);
	return code == FF_OK ? limit_micro(s, err) : code;
}

void ff_space_destroy(struct ff_space *s)
{
	if (!s)
		return;
	ff_arena_finish(&s->arena);
	free(s);
}

static bool is_fixed(const struct ff_space *s, uint32_t node)
{
	const struct ff_pin *pin = ff_space_pin(s, node);

	return pin && pin->fixed.n_parts > 0;
}

uint64_t ff_space_count(const struct ff_space *s, uint32_t node)
{
	const struct ff_degrees *t = s->of[node];

	return t && !is_fixed(s, node) ? t->before[t->n] : 1;
}

/* Of an operator that has no choice. */
static void only_config(const struct ff_space *s, uint32_t node, struct ff_config *ret)
{
	if (is_fixed(s, node)) {
		*ret = ff_space_pin(s, node)->fixed;
		return;
	}
	*ret = (struct ff_config){.replicas = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = 1;
}

void ff_space_config(const struct ff_space *s, uint32_t node, uint64_t i, struct ff_config *ret)
{
	const struct ff_degrees *t = s->of[node];
	uint32_t low = 0, high, orders, base;
	const uint16_t *degree;
	struct ff_view view;

	if (!t || is_fixed(s, node)) {
		only_config(s, node, ret);
		return;
	}
	high = t->n;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (t->before[mid] <= i)
			low = mid;
		else
			high = mid;
	}
	i -= t->before[low];
	degree = t->degree + (size_t)low * t->n_dims;
	orders = order_count(t->n_dims, degree);
	placement(s->n_devices, product(t->n_dims, degree), i / orders, &view.start, &base);
	set_strides(t->n_dims, degree, (uint32_t)(i % orders), base, &view);
	ff_view_config(t->n_dims, degree, &view, ret);
}

void ff_space_draw(
		const struct ff_space *s, uint32_t node, struct ff_random *r, struct ff_config *ret)
{
	const struct ff_degrees *t = s->of[node];
	const uint16_t *degree;
	struct ff_view view;
	uint32_t kind, group, i;

	if (!t || is_fixed(s, node)) {
		only_config(s, node, ret);
		return;
	}
	kind = t->n_groups ? ff_random_below(r, 4) : 0;
	if (kind == 0) {
		i = ff_random_below(r, t->n);
	} else {
		group = kind == 1 ? t->n_groups - 1 : ff_random_below(r, t->n_groups);
		i = t->tidy[t->group[group] +
				ff_random_below(r, t->group[group + 1] - t->group[group])];
	}
	degree = t->degree + (size_t)i * t->n_dims;
	ff_view_draw(s, t->n_dims, degree, kind != 0, r, &view);
	ff_view_config(t->n_dims, degree, &view, ret);
}
