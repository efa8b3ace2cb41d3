/* Device graph: where it runs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MACHINE_H
#define FF_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ff/arena.h"
#include "ff/dtype.h"
#include "ff/json.h"
#include "ff/wiring.h"

#define FF_MAX_DEVICES 4096

struct ff_device_kind {
	const char *name;   /* "cpu", "P100": the key of cost entries */
	double flops_per_s; /* peak, float32 */
	double memory_bytes_per_s;
	int64_t memory_bytes;        /* capacity for one training process */
	double bfloat16_flops_per_s; /* products of bfloat16, summed in float32; 0: the same */
	const char *model;           /* of ff_device_model_find; NULL: called as the kind is */
	const char *model_place;     /* the file that names it, and where; NULL: no file does */
	const char *backend;         /* that alone can compute on it; NULL: the file does not say */
};

struct ff_machine_node {
	uint32_t first, count;  /* its devices */
	uint32_t kind;          /* of ff_machine.kinds */
	struct ff_link inside;  /* between any two of its devices */
	struct ff_link network; /* its network cards together, shared by its devices */
	struct ff_wiring wiring;
};

struct ff_machine {
	const char *name;
	uint32_t n_devices, n_nodes, n_kinds;
	struct ff_device_kind *kinds;
	struct ff_machine_node *nodes;
	uint32_t *node_of;     /* n_devices */
	bool overlap;          /* communication runs beside compute */
	bool message_lane;     /* and messages beside other communication; only with overlap */
	uint32_t n_card_lanes; /* of network cards that are lanes */
};

/* Parses a machine; same contract as ff_graph_parse. */
int ff_machine_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err);
/* `name` is a path, or the name of a file in graphs/machines/ (searched in
 * $FF_MACHINES, then the source tree and the installed data folder); with ":N" behind it, N nodes
 * as its only one. */
int ff_machine_load(
		const char *name, struct ff_arena *a, struct ff_machine *ret, struct ff_error *err);
/* Whether there is a file for `name`, whatever stands in it. */
bool ff_machine_known(const char *name);
/* The file that the name, or the path, means; NULL where there is none, or no memory. */
const char *ff_machine_file(const char *name, struct ff_arena *a);
/* A line for each machine known by name. */
int ff_machine_list(FILE *to, struct ff_error *err);
void ff_machine_write(const struct ff_machine *m, struct ff_out *o);
/* Numbers the lanes of cards: of a machine that was put together, or whose lanes have changed. */
void ff_machine_number_cards(struct ff_machine *m);
/* The first `n` devices of `m` as a machine (n <= m->n_devices, else FF_E_INPUT). */
int ff_machine_subset(const struct ff_machine *m, uint32_t n, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err);

static inline const struct ff_device_kind *ff_device_kind(
		const struct ff_machine *m, uint32_t device)
{
	return &m->kinds[m->nodes[m->node_of[device]].kind];
}

static inline double ff_device_flops_per_s(const struct ff_device_kind *k, enum ff_dtype type)
{
	return type == FF_BF16 && k->bfloat16_flops_per_s > 0 ? k->bfloat16_flops_per_s
							      : k->flops_per_s;
}

/* The number of a device within its node; of one that `m` does not have, its own. */
static inline uint32_t ff_machine_ordinal(const struct ff_machine *m, uint32_t device)
{
	return device < m->n_devices ? device - m->nodes[m->node_of[device]].first : device;
}

/* In how many shards a hybrid has what a device updates: one for each device of a node, or of those
 * that hold the same where `each` share a product; 0: those are no groups. */
static inline uint32_t ff_machine_shards(const struct ff_machine *m, uint32_t each)
{
	uint32_t n = m->nodes[0].count / each;

	return m->n_nodes > 1 && n > 1 ? n : 0;
}
/* Network cards of a node that are told apart: no more than it has devices. */
static inline uint32_t ff_node_cards(const struct ff_machine_node *n)
{
	uint32_t most = n->wiring.cards < n->wiring.devices ? n->wiring.cards : n->wiring.devices;

	return most ? most : 1;
}
/* Whether each device has a card for itself. */
static inline bool ff_node_own_cards(const struct ff_machine_node *n)
{
	return n->wiring.cards > 1 && n->wiring.cards >= n->wiring.devices;
}
/* Of its node, the card that stands beside a device. */
static inline uint32_t ff_device_card(const struct ff_machine *m, uint32_t device)
{
	const struct ff_machine_node *n = &m->nodes[m->node_of[device]];
	uint32_t cards = ff_node_cards(n);

	return cards == 1 ? 0 : (device - n->first) * cards / n->wiring.devices;
}
/* Of a node's cards those that are lanes.  None is where one lane of the device that the card is
 * for has all that goes over it. */
static inline uint32_t ff_node_card_lanes(
		const struct ff_machine *m, const struct ff_machine_node *n)
{
	return ff_node_own_cards(n) && !m->message_lane ? 0 : ff_node_cards(n);
}

#endif
