/* The weighted bound: a step is at least any weighted mean of what the devices compute, each on
 * average, and what chains of parts take one after another.  docs/certificate.md derives it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_WEIGHTED_H
#define FF_CHECK_WEIGHTED_H

#include "chain.h"
#include "kinds.h"
#include "received.h"

#define FF_MOST_CHAINS 48

/* At least 0; together 1. */
struct ff_weights {
	double compute;       /* of the mean over devices */
	double communication; /* likewise */
	uint32_t n_chains;
	struct ff_chain chain[FF_MOST_CHAINS]; /* traced */
};

/* What all that is summed of one number of micro-batches rests on. */
struct ff_weighted {
	const struct ff_graph *graph; /* of one micro-batch */
	uint32_t micro_batches, n_devices;
	double updates_us;
	const struct ff_split_us **split; /* by node: its kind's; NULL: it is not computed */
	uint32_t *n_split;
	/* Where what is received counts: by node; NULL: it does not. */
	const struct ff_received *received;
	double received_us;          /* of a byte */
	uint32_t lanes;              /* of communication that a device has */
	struct ff_handed *handed_by; /* by node: weights of what it is handed; scratch */
	uint32_t *n_class;           /* by node: numbers that splits may have */
	double **cost;               /* by node, and number; scratch */
	uint32_t **split_of;         /* likewise: the split that is least */
	uint32_t **best; /* by node, and number of the node that it reads: its own; scratch */
	struct ff_ranked *ranked; /* numbers of one node; scratch */
	uint32_t *chosen;         /* by node: the split that is least, by the weights asked last */
	struct ff_split_us *by;   /* by node: weights of all figures; scratch */
	/* By what is least, by the weights asked last: means, and each chain. */
	double compute_us, communication_us, chain_us[FF_MOST_CHAINS];
};

/* Gathers prices, and what devices receive, on more than FF_RECEIVED_DEVICES by classes; where `k`
 * is stopped meanwhile it is not whole.  `k` must not gather any others afterwards. */
int ff_weighted_init(struct ff_weighted *w, struct ff_kinds *k, uint32_t micro_batches,
		struct ff_arena *a, struct ff_error *err);
/* What chain `c` waits for at its place `i` until what it reads there has been moved or added up,
 * and the gradient back, by what is chosen. */
double ff_weighted_wait_us(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i);
/* The means, and what each of the chains takes, by what is chosen: no strategy that is split so
 * takes less. */
void ff_weighted_terms(struct ff_weighted *w, const struct ff_weights *by);
/* No strategy takes less. */
double ff_weighted_us(struct ff_weighted *w, const struct ff_weights *by);

#endif
