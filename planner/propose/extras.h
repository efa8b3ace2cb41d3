/* Proposals beyond splits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_EXTRAS_H
#define FF_PLANNER_EXTRAS_H

#include "proposer.h"

/* Kinds of proposals: each adds something to the transaction, and may come to nothing. */
void ff_propose_updates(struct ff_proposer *p);  /* how parameters are updated */
void ff_propose_trade(struct ff_proposer *p);    /* who is in a bucket, which stays as full */
void ff_propose_replicas(struct ff_proposer *p); /* the same cells on more devices, or one */

/* Cuts the parameter `node` along its longest axis over the devices `on`, or as many of
 * them as the axis is long: each updates a part of it and the readers gather what they
 * need (ZeRO, Rajbhandari et al., SC 2020). */
void ff_param_cut(const struct ff_graph *g, uint32_t node, const struct ff_progression *on,
		struct ff_config *ret);
/* It lies where it is read, and its gradients are all-reduced there. */
void ff_param_follow(struct ff_config *ret);
/* There, but each device updates a run of its bucket. */
void ff_param_flat(struct ff_config *ret);

/* All parameters by ZeRO's stage 1, 2, whose gradients are in parts, too, or 3, whose weights are
 * as well (Rajbhandari et al., SC 2020); 0: none.  As far as the space allows. */
void ff_params_zero(const struct ff_space *space, const struct ff_graph *g, uint32_t stage,
		struct ff_strategy *s);

/* Ways in which a parameter may be updated. */
enum ff_update_proposal {
	FF_UPDATE_FOLLOW,  /* wherever it is read */
	FF_UPDATE_FLAT,    /* there, but by each device a run of its bucket (ZeRO) */
	FF_UPDATE_SHARDED, /* a shard on each device that reads it */
	FF_UPDATE_SERVED,  /* on one of them (a parameter server) */
	FF_UPDATE_PROPOSALS
};
/* The parameters that `node` reads are updated as `how` says.  Where that is on one device it is
 * number `server` of those of `node`, counted round and round. */
void ff_proposer_update(
		struct ff_proposer *p, uint32_t node, enum ff_update_proposal how, uint32_t server);

/* Who reads parameters, for proposals of how they are updated. */
int ff_proposer_find_readers(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err);

#endif
