/* Machines: devices, nodes and the links between them.  SPDX-License-Identifier: Apache-2.0 */
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
	double bfloat16_flops_per_s; /* bfloat16 products, summed in float32; 0: as flops_per_s */
	const char *model;           /* its device model; NULL: the model of the kind's own name */
	const char *model_place;     /* file and place that name the model; NULL: none does */
	const char *backend;         /* the only backend for it; NULL: not stated */
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
	uint32_t *node_of; /* n_devices */
	bool overlap;      /* communication overlaps compute */
	bool message_lane; /* messages between stages overlap other communication; needs overlap */
	uint32_t n_card_lanes; /* network cards that are lanes */
};

/* Parses a machine; same contract as ff_graph_parse. */
int ff_machine_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err);
/* `name` is a path, or the name of a file in graphs/machines/ (searched in $FF_MACHINES, then the
 * source tree, then the installed data folder).  A suffix ":N" means N nodes like the file's only
 * one. */
int ff_machine_load(
		const char *name, struct ff_arena *a, struct ff_machine *ret, struct ff_error *err);
/* Whether there is a file for `name`; it need not be valid. */
bool ff_machine_known(const char *name);
/* The path of the file for `name`; NULL: there is none, or no memory. */
const char *ff_machine_file(const char *name, struct ff_arena *a);
/* A line for each machine known by name. */
int ff_machine_list(FILE *to, struct ff_error *err);
void ff_machine_write(const struct ff_machine *m, struct ff_out *o);
/* Numbers the lanes of cards.  Must be called after a machine was built in code or its lanes
 * changed. */
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

/* The number of a device within its node; `device` itself if `m` does not have it. */
static inline uint32_t ff_machine_ordinal(const struct ff_machine *m, uint32_t device)
{
	return device < m->n_devices ? device - m->nodes[m->node_of[device]].first : device;
}

/* Hybrid sharding: the number of shards, so that each node holds all of them; `each`:
 * tensor-parallel devices, which hold different weights.  0: there are no such groups. */
static inline uint32_t ff_machine_shards(const struct ff_machine *m, uint32_t each)
{
	uint32_t n = m->nodes[0].count / each;

	return m->n_nodes > 1 && n > 1 ? n : 0;
}
/* Network cards of a node, at most one a device. */
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
/* The number, within its node, of the card next to a device. */
static inline uint32_t ff_device_card(const struct ff_machine *m, uint32_t device)
{
	const struct ff_machine_node *n = &m->nodes[m->node_of[device]];
	uint32_t cards = ff_node_cards(n);

	return cards == 1 ? 0 : (device - n->first) * cards / n->wiring.devices;
}
/* How many of a node's cards are lanes.  A card of a single device is none if that device's
 * communication lane already has all its traffic. */
static inline uint32_t ff_node_card_lanes(
		const struct ff_machine *m, const struct ff_machine_node *n)
{
	return ff_node_own_cards(n) && !m->message_lane ? 0 : ff_node_cards(n);
}

#endif
