/* A computer and the place that a rank has on it: numbers and short texts, so that ranks can send
 * them to each other.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TOPOLOGY_HOST_H
#define FF_TOPOLOGY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

#define FF_HOST_CORES 1024 /* what is beyond one of these is not told of */
#define FF_HOST_DOMAINS 32
#define FF_HOST_CARDS 8

/* Cores that are equally near to some memory: a NUMA node, with what is of memory beside the same
 * cores. */
struct ff_host_domain {
	int64_t memory_bytes;
	int64_t cache_bytes;    /* of each of its last caches; 0: not told */
	uint32_t package;       /* that its first core is in */
	uint32_t caches, cores; /* last caches; cores that may be used */
	uint32_t threads;       /* hardware threads of those */
};

struct ff_host_card {
	char name[24];
	int64_t mbit_per_s; /* 0: not told */
	int32_t domain;     /* that it is beside; -1: of all alike, or not told */
	int32_t zero;       /* no gap: cards are compared as bytes */
};

struct ff_host {
	char name[64], processor[64]; /* its model */
	int64_t memory_bytes;         /* of which ranks may use all */
	int64_t limit_bytes; /* that control groups allow its ranks together; 0: nothing less */
	uint32_t packages, domains, cards;
	uint32_t cores, threads; /* that may be used; 0 cores: nothing is known but the above */
	uint32_t all_threads;    /* forbidden ones among them */
	struct ff_host_domain domain[FF_HOST_DOMAINS];
	struct ff_host_card card[FF_HOST_CARDS];
};

/* Of one rank.  Cores are counted domain by domain. */
struct ff_seat {
	struct ff_host host;
	uint64_t core[FF_HOST_CORES / 64]; /* a bit for each that it may run on */
	uint32_t threads;                  /* that its kernels use; the caller's to say */
	uint32_t zero;
};

/* What every system tells: name, memory and its limit; all else is 0. */
void ff_host_init(struct ff_host *h);
/* The least that the control groups of this process allow, below a folder that stands for "/"; 0:
 * no limit. */
int64_t ff_host_limit(const char *root);

/* This process' computer and its place there, once its threads are running: each may be bound
 * apart. Without hwloc as ff_host_init has it. */
int ff_seat_find(struct ff_seat *ret, struct ff_error *err);

static inline bool ff_seat_has(const struct ff_seat *s, uint32_t core)
{
	return s->core[core / 64] >> core % 64 & 1;
}

/* Of the last caches beside its cores, but of no more of them than it has threads; 0: not told.
 * Each of a domain's is taken to serve as many cores, next to each other. */
int64_t ff_seat_cache_bytes(const struct ff_seat *s);

/* What ranks of the host can fill together. */
static inline int64_t ff_host_room(const struct ff_host *h)
{
	return h->limit_bytes && h->limit_bytes < h->memory_bytes ? h->limit_bytes
								  : h->memory_bytes;
}

#endif
