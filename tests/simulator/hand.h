/* Machines and graphs made by hand, with round numbers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SIMULATOR_HAND_H
#define FF_TESTS_SIMULATOR_HAND_H

#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/builder.h"
#include "ff/costs.h"
#include "ff/machine.h"
#include "ff/schedule.h"

struct hand_machine {
	struct ff_machine m;
	struct ff_device_kind kind[2];
	struct ff_machine_node node[4];
	uint32_t node_of[16];
};

/* Inside a node 2 us and 1000 bytes/us, between nodes 10 us and 100 bytes/us;
 * devices do 1e12 FLOP/s and move 1e10 bytes/s. */
static inline void hand_machine_init(
		struct hand_machine *h, uint32_t n_nodes, uint32_t per_node, bool overlap)
{
	memset(h, 0, sizeof(*h));
	h->kind[0] = (struct ff_device_kind){"fast", 1e12, 1e10, (int64_t)1 << 34};
	h->kind[1] = (struct ff_device_kind){"slow", 1e11, 1e9, (int64_t)1 << 34};
	for (uint32_t i = 0; i < n_nodes; i++) {
		h->node[i] = (struct ff_machine_node){.first = i * per_node,
				.count = per_node,
				.inside = {2, 1000, false},
				.network = {10, 100, true}};
		for (uint32_t d = 0; d < per_node; d++)
			h->node_of[i * per_node + d] = i;
	}
	h->m = (struct ff_machine){.name = "hand",
			.n_devices = n_nodes * per_node,
			.n_nodes = n_nodes,
			.n_kinds = 2,
			.kinds = h->kind,
			.nodes = h->node,
			.node_of = h->node_of,
			.overlap = overlap};
	ff_machine_number_cards(&h->m);
}

/* Messages have a lane of their own, or not. */
static inline void hand_message_lane(struct hand_machine *h, bool own)
{
	h->m.message_lane = h->m.overlap && own;
	ff_machine_number_cards(&h->m);
}

/* Priced as NCCL has it, over so many network cards a node. */
static inline void hand_wire(struct hand_machine *h, uint32_t cards)
{
	static const struct ff_interconnect inside = {.name = "inside",
			.ramp = 0.5,
			.own = 0.3,
			.tree_passes = 1,
			.collective = {{3, 1, 0.1}, {5, 2, 0.5}, {9, 4, 0.8}},
			.message = {{2, 1, 0.1}, {0}, {6, 1, 0.9}}};
	static const struct ff_interconnect between = {.name = "between",
			.between = true,
			.collective = {{0, 5, 0.2}, {0, 8, 0.6}, {0, 14, 0.9}},
			.message = {{5, 1, 0.2}, {0}, {14, 1, 0.9}}};

	for (uint32_t i = 0; i < h->m.n_nodes; i++) {
		struct ff_machine_node *n = &h->node[i];

		n->wiring = (struct ff_wiring){.inside = &inside,
				.between = &between,
				.cards = cards,
				.devices = n->count};
	}
	ff_machine_number_cards(&h->m);
}

/* By peak rates, or, where it is wired, as models have it. */
static inline enum ff_estimate hand_estimate(const struct hand_machine *h)
{
	return h->node[0].wiring.inside ? FF_ESTIMATE_MODEL : FF_ESTIMATE_PEAK;
}

/* What the pieces of messages come to for each device, into `t` and mv->traffic. */
static inline void hand_traffic(
		const struct ff_machine *m, struct ff_move *mv, struct ff_traffic *t)
{
	memset(t, 0, mv->n_devices * sizeof(*t));
	for (uint32_t k = 0; k < mv->n_pieces; k++) {
		const struct ff_piece *p = &mv->piece[k];
		int64_t bytes = ff_region_volume(&p->region) * ff_dtype_bytes(mv->type);
		bool inside = m->node_of[p->from] == m->node_of[p->to];

		for (uint32_t i = 0; i < mv->n_devices && p->from != p->to; i++) {
			if (mv->device[i] == p->from) {
				*(inside ? &t[i].sent_inside : &t[i].sent_outside) += bytes;
				t[i].n_sent++;
			}
			if (mv->device[i] == p->to) {
				*(inside ? &t[i].received_inside : &t[i].received_outside) += bytes;
				t[i].n_received++;
			}
		}
	}
	mv->traffic = t;
}

/* x (batch, features) -> fc (out) -> loss with labels. */
static inline void hand_graph(struct ff_arena *a, int32_t batch, int32_t features, int32_t out,
		struct ff_graph *g)
{
	struct ff_error err;
	struct ff_builder *b;
	union ff_attrs x = {.input = {.rank = 2, .shape = {batch, features}, .dtype = FF_F32}};
	union ff_attrs y = {
			.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = out}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	uint32_t in[2];

	ck_assert_int_eq(ff_builder_create("hand", a, &b, &err), FF_OK);
	fc.linear.out_features = out;
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

/* A cost database with all rates: copy 1 us + 100 bytes/us, add 2 us + 50,
 * update 3 us + 20 (sgd 3.5 + 25, adamw 5 + 8), load 4 us + 10. */
static inline struct ff_costs *hand_costs(const char *kind)
{
	static const struct ff_origin origin = {"abacus", "beads 1.2.3", "none", 1, 2, 2, 1};
	struct ff_costs *c;

	ck_assert_int_eq(ff_costs_create(kind, &c, NULL), FF_OK);
	ck_assert_int_eq(ff_costs_set_origin(c, &origin, NULL), FF_OK);
	ff_costs_set_rate(c, FF_RATE_COPY, (struct ff_rate){1, 100}, NULL);
	ff_costs_set_rate(c, FF_RATE_ADD, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_ACCUMULATE, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE, (struct ff_rate){3, 20}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){4, 10}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_SGD, (struct ff_rate){3.5, 25}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_NESTEROV, (struct ff_rate){3.25, 18}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_ADAM, (struct ff_rate){4.5, 9}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_ADAMW, (struct ff_rate){5, 8}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_BF16, (struct ff_rate){3.5, 15}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_SGD_BF16, (struct ff_rate){4, 20}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_NESTEROV_BF16, (struct ff_rate){3.75, 14}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_ADAM_BF16, (struct ff_rate){5, 7}, NULL);
	ff_costs_set_rate(c, FF_RATE_UPDATE_ADAMW_BF16, (struct ff_rate){5.5, 5}, NULL);
	return c;
}

/* A file with `text`; its name goes to `path`, the caller unlinks it. */
static inline void hand_file(const char *text, size_t len, char path[64])
{
	int fd;

	strcpy(path, "/tmp/ffsoap-test-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

#endif
