/* Small graphs and machines for the planner's tests.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_PLANNER_FIXTURE_H
#define FF_TEST_PLANNER_FIXTURE_H

#include <check.h>
#include <string.h>

#include "ff/builder.h"
#include "ff/search.h"
#include "ff/starts.h"

#define CHECK_OK(call)                                                                             \
	do {                                                                                       \
		int code_ = (call);                                                                \
		ck_assert_msg(code_ == FF_OK, "%s", err.text);                                     \
	} while (0)

/* `nodes` * `per_node` equal devices. */
struct fixture_machine {
	uint32_t nodes, per_node;
	bool overlap;
	int64_t memory_bytes;
	double inside_bytes_per_us, network_bytes_per_us;
};

static inline struct ff_machine fixture_machine(const struct fixture_machine *f, struct ff_arena *a)
{
	struct ff_machine m = {.name = "test",
			.n_devices = f->nodes * f->per_node,
			.n_nodes = f->nodes,
			.n_kinds = 1,
			.overlap = f->overlap};

	m.kinds = ff_arena_array(a, 1, sizeof(*m.kinds));
	m.nodes = ff_arena_array(a, f->nodes, sizeof(*m.nodes));
	m.node_of = ff_arena_array(a, m.n_devices, sizeof(*m.node_of));
	ck_assert(m.kinds && m.nodes && m.node_of);
	m.kinds[0] = (struct ff_device_kind){"fast", 1e13, 5e11, f->memory_bytes};
	for (uint32_t i = 0; i < f->nodes; i++)
		m.nodes[i] = (struct ff_machine_node){.first = i * f->per_node,
				.count = f->per_node,
				.inside = {1, f->inside_bytes_per_us, false},
				.network = {3, f->network_bytes_per_us, true}};
	for (uint32_t i = 0; i < m.n_devices; i++)
		m.node_of[i] = i / f->per_node;
	ff_machine_number_cards(&m);
	return m;
}

static inline struct ff_machine fixture_devices(uint32_t n, struct ff_arena *a)
{
	return fixture_machine(
			&(struct fixture_machine){1, n, true, (int64_t)1 << 34, 1e4, 1e4}, a);
}

/* The most scratch of one device: for limits that mean all the rest. */
static inline int64_t fixture_scratch(
		const struct ff_graph *g, const struct ff_machine *m, struct ff_arena *a)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace};
	struct ff_error err = {0};
	struct ff_schedule lowered;
	struct ff_pricer *pricer;
	struct ff_strategy s;

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	opt.ctx = pricer;
	CHECK_OK(ff_strategy_single(g, 0, a, &s, &err));
	CHECK_OK(ff_lower(g, m, &s, &opt, a, &lowered, &err));
	ff_pricer_destroy(pricer);
	return lowered.workspace_bytes[0];
}

static inline uint32_t fixture_input(struct ff_builder *b, const char *name, enum ff_dtype dtype,
		uint32_t rank, const int32_t *shape, int32_t classes)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_INPUT);

	attrs.input.rank = (int32_t)rank;
	memcpy(attrs.input.shape, shape, rank * sizeof(*shape));
	attrs.input.dtype = dtype;
	attrs.input.classes = classes;
	return ff_builder_add(b, FF_OP_INPUT, name, &attrs, NULL, 0);
}

static inline uint32_t fixture_linear(
		struct ff_builder *b, const char *name, uint32_t in, int32_t features)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_LINEAR);

	attrs.linear.out_features = features;
	return ff_builder_add(b, FF_OP_LINEAR, name, &attrs, &in, 1);
}

static inline uint32_t fixture_conv(struct ff_builder *b, const char *name, uint32_t in,
		int32_t channels, int32_t kernel)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_CONV2D);

	attrs.conv.out_channels = channels;
	attrs.conv.kernel[0] = attrs.conv.kernel[1] = kernel;
	return ff_builder_add(b, FF_OP_CONV2D, name, &attrs, &in, 1);
}

static inline uint32_t fixture_loss(
		struct ff_builder *b, uint32_t logits, int32_t batch, int32_t classes)
{
	uint32_t in[2] = {logits, 0};

	in[1] = fixture_input(b, "labels", FF_I32, 1, &batch, classes);
	return ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
}

/* linear, linear, loss: 3 operators. */
static inline struct ff_graph fixture_two_linear(
		int32_t batch, int32_t in, int32_t hidden, int32_t classes, struct ff_arena *a)
{
	struct ff_error err = {0};
	struct ff_builder *b;
	struct ff_graph g;
	int32_t shape[2] = {batch, in};
	uint32_t x;

	CHECK_OK(ff_builder_create("two_linear", a, &b, &err));
	x = fixture_input(b, "data", FF_F32, 2, shape, 0);
	x = fixture_linear(b, "fc1", x, hidden);
	x = fixture_linear(b, "fc2", x, classes);
	fixture_loss(b, x, batch, classes);
	CHECK_OK(ff_builder_finish(b, &g, &err));
	return g;
}

/* linear, relu, linear, loss: 4 operators. */
static inline struct ff_graph fixture_mlp(
		int32_t batch, int32_t in, int32_t hidden, int32_t classes, struct ff_arena *a)
{
	struct ff_error err = {0};
	struct ff_builder *b;
	struct ff_graph g;
	int32_t shape[2] = {batch, in};
	uint32_t x;

	CHECK_OK(ff_builder_create("mlp", a, &b, &err));
	x = fixture_input(b, "data", FF_F32, 2, shape, 0);
	x = fixture_linear(b, "fc1", x, hidden);
	x = ff_builder_add(b, FF_OP_RELU, "relu1", NULL, &x, 1);
	x = fixture_linear(b, "fc2", x, classes);
	fixture_loss(b, x, batch, classes);
	CHECK_OK(ff_builder_finish(b, &g, &err));
	return g;
}

/* Two linear layers side by side, added: 4 operators. */
static inline struct ff_graph fixture_branch(
		int32_t batch, int32_t in, int32_t classes, struct ff_arena *a)
{
	struct ff_error err = {0};
	struct ff_builder *b;
	struct ff_graph g;
	int32_t shape[2] = {batch, in};
	uint32_t x, side[2];

	CHECK_OK(ff_builder_create("branch", a, &b, &err));
	x = fixture_input(b, "data", FF_F32, 2, shape, 0);
	side[0] = fixture_linear(b, "left", x, classes);
	side[1] = fixture_linear(b, "right", x, classes);
	x = ff_builder_add(b, FF_OP_ADD, "sum", NULL, side, 2);
	fixture_loss(b, x, batch, classes);
	CHECK_OK(ff_builder_finish(b, &g, &err));
	return g;
}

/* conv, reshape, loss: 3 operators; image of `size` * `size`, kernel `size`. */
static inline struct ff_graph fixture_conv_net(
		int32_t batch, int32_t channels, int32_t size, int32_t classes, struct ff_arena *a)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_RESHAPE);
	struct ff_error err = {0};
	struct ff_builder *b;
	struct ff_graph g;
	int32_t shape[4] = {batch, channels, size, size};
	uint32_t x;

	CHECK_OK(ff_builder_create("conv_net", a, &b, &err));
	x = fixture_input(b, "data", FF_F32, 4, shape, 0);
	x = fixture_conv(b, "conv", x, classes, size / 2 + 1);
	attrs.reshape.rank = 2;
	attrs.reshape.shape[0] = 0;
	attrs.reshape.shape[1] = -1;
	x = ff_builder_add(b, FF_OP_RESHAPE, "flatten", &attrs, &x, 1);
	fixture_loss(b, x, batch, classes);
	CHECK_OK(ff_builder_finish(b, &g, &err));
	return g;
}

#endif
