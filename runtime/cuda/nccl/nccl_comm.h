/* Communication over NCCL: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_NCCL_COMM_H
#define FF_CUDA_NCCL_COMM_H

#include <nccl.h>

#include "comm.h"
#include "comm/stages.h"
#include "cuda/core/stream.h"

/* Devices that have a communicator of their own. */
struct ff_nccl_group {
	struct ff_nccl_group *next;
	ncclComm_t comm;
	uint32_t n, own; /* devices; this rank's position */
	bool messages;   /* what it is for, as ff_channel has it */
	char call[64];   /* the last that was posted */
	uint16_t device[];
};

/* Device memory.  A stream runs in order, so all that is posted on one may pass through the same.
 */
struct ff_nccl_scratch {
	struct ff_nccl_scratch *next; /* smaller and older */
	void *memory;
	int64_t bytes;
};

struct ff_nccl {
	struct ff_comm base;
	struct ff_comm *host;
	struct ff_device *dev;
	struct ff_nccl_group *groups;
	const struct ff_nccl_group *last; /* posted to; NULL: none yet */
	struct ff_watcher watcher;
	uint32_t *node_of; /* by device, where collectives go by nodes; else NULL */
	/* of collectives, of messages: the newest serves, the others may be under way */
	struct ff_nccl_scratch *scratch[2];
	bool failed;
};

static inline struct ff_nccl *ff_nccl(struct ff_comm *c)
{
	return (struct ff_nccl *)c; /* the first of it */
}

extern const ncclDataType_t ff_nccl_types[FF_DTYPE_COUNT];
extern const ncclRedOp_t ff_nccl_operations[FF_REDUCE_COUNT];

/* A collective that is being posted. */
struct ff_nccl_post {
	struct ff_nccl *m;
	struct ff_nccl_group *g; /* that it is called for */
	const struct ff_collective *x;
	cudaStream_t queue;
	bool messages;    /* as ff_channel has it */
	const char *send; /* this rank's */
	char *recv;
	char *scratch;            /* for parts of what this rank gets */
	int64_t size;             /* of an element */
	struct ff_stages *stages; /* where it goes by nodes, */
	uint32_t first, end;      /* those of them that are posted */
};

/* nccl_group.c */
/* Makes the communicator of a group that is new.  NCCL puts what goes to one communicator in one
 * order, whatever the streams are, so each stream has its own. */
int ff_nccl_group_find(struct ff_nccl *m, bool messages, uint32_t n, const uint16_t *device,
		struct ff_nccl_group **ret, struct ff_error *err);
/* That of all devices; the one for messages is made by ff_nccl_messages_open, which all call. */
int ff_nccl_group_all(
		struct ff_nccl *m, bool messages, struct ff_nccl_group **ret, struct ff_error *err);
int ff_nccl_messages_open(struct ff_nccl *m, struct ff_error *err);
void ff_nccl_groups_close(struct ff_nccl *m);
/* FF_E_RUN with the group's last call unless `status` is success. */
int ff_nccl_check(struct ff_nccl *m, const struct ff_nccl_group *g, ncclResult_t status,
		struct ff_error *err);
/* What the streams' drains do (stream.h): what has gone wrong since it was posted, with any group,
 * or the call that nothing came of; and an end to all communicators. */
int ff_nccl_ask(void *nccl, double waited_s, struct ff_error *err);
void ff_nccl_end(void *nccl);
/* Something is being posted to the group, on the stream. */
void ff_nccl_note(struct ff_nccl *m, struct ff_nccl_group *g, struct ff_stream *s);

/* nccl_post.c */
/* A collective that NCCL has. */
ncclResult_t ff_nccl_call(const struct ff_nccl_post *p);
/* What `call` calls goes to NCCL as one; errors name p->g. */
int ff_nccl_together(struct ff_nccl_post *p, ncclResult_t (*call)(const struct ff_nccl_post *p),
		struct ff_error *err);
/* Scratch memory of the post's stream, at p->scratch. */
int ff_nccl_scratch(struct ff_nccl_post *p, int64_t bytes, struct ff_error *err);
void ff_nccl_scratch_close(struct ff_nccl *m);

/* nccl_collective.c */
int ff_nccl_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err);
int ff_nccl_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);

/* nccl_nodes.c */
/* Within nodes and between them in turn (comm/stages.h), each in a communicator of its own. */
int ff_nccl_post_by_nodes(struct ff_nccl_post *p, struct ff_spread spread, struct ff_error *err);

#endif
