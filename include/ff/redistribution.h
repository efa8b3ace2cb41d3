/* Redistribution: what moves when the regions that are there are not those that are
 * wanted (docs/schedule.md).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REDISTRIBUTION_H
#define FF_REDISTRIBUTION_H

#include "ff/codec.h"
#include "ff/machine.h"
#include "ff/move.h"
#include "ff/placement.h"

/* Elements `region` go from a source part's shard to a sink part's shard.  As
 * no device has two parts of one operator, a pair of devices exchanges at most
 * one piece a move: a piece between two devices is one message. */
struct ff_piece {
	uint16_t source, sink; /* part numbers on either side */
	uint16_t from, to;     /* their devices */
	bool add;              /* add to the sink instead of overwriting it */
	struct ff_region region;
	/* from != to: where the message lies in the stage of the sender and of the receiver, in
	 * bytes; -1: it is sent from the source shard, or received into the sink shard, of which
	 * the region is one run (ff_region_is_run). */
	int64_t send_stage, recv_stage;
	/* Compressed: where in what its sender has not sent this piece's begins, in bytes. */
	int64_t residual;
};

/* Elements of a piece that is compressed: whole steps of the codec, behind the piece zeros. */
static inline int64_t ff_coded_elements(const struct ff_piece *p)
{
	return (ff_region_volume(&p->region) + FF_CODEC_STEP - 1) / FF_CODEC_STEP * FF_CODEC_STEP;
}

/* What one device sends and receives in a move. */
struct ff_traffic {
	int64_t sent_inside, received_inside;   /* bytes, within its node */
	int64_t sent_outside, received_outside; /* to and from other nodes */
	uint32_t n_sent, n_received;            /* messages */
	/* Compressed: float32 that they stand for, each rounded up to 64 bytes; as much as is
	 * encoded is kept of what was not sent. */
	int64_t encoded, decoded;
};

/* Who has a collective with whom, of a flat bucket, whose devices are groups (ff/bucket.h): those
 * of each group, or (`across`) those of all groups that have the same run. */
struct ff_among {
	uint32_t runs; /* devices of a group; 0: all of them have one collective */
	bool across;
	bool beside; /* across, on lanes of messages, as groups use other links */
};

/* One communication task: shards `sources` of one operator become the shards
 * `sinks` of another; a sink element is the reduction of all sources that cover it.
 * Messages: receivers fill, then take the pieces without `add`, then those
 * with, in order; compressed ones behind the others.  Collectives: every device has one source and
 * one sink.  All-gather and reduce-scatter have one piece a device, in device order: the part of
 * `region` that its source has, or that its sink gets. */
struct ff_move {
	enum ff_move_kind kind;
	enum ff_dtype type; /* of the elements */
	bool gradients;     /* they are some */
	bool accumulate;    /* add to what the sinks hold already */
	/* Messages: each sink gets a slice of what is its, and gathers behind, in the same
	 * redistribution, join them. */
	bool sliced;
	/* A gather of slices: each device's slice lies in its sink, and there are no sources. */
	bool joins;
	struct ff_among among;
	enum ff_reduce reduce; /* what "add" means */
	/* Messages: compresses them, and their senders keep what that loses.  All are staged then,
	 * and behind one that arrives the float32 that it says, unless those are all of its sink.
	 * NULL: they go as they are. */
	const struct ff_codec *codec;
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	uint32_t n_sources, n_sinks;
	const uint16_t *source;       /* part numbers, in the order of their devices */
	const uint16_t *sink;         /* likewise */
	const bool *fill;             /* n_sinks: the sink begins as the reduction of nothing */
	struct ff_region region;      /* collectives: the whole; LOAD: the sink's */
	uint32_t n_pieces;            /* NULL and 0 where a search asks */
	const struct ff_piece *piece; /* by from, then to */
	/* Collectives: the stage holds what is packed to be sent, if
	 * send_staged, and behind it (64-byte aligned) what is received, if
	 * recv_staged: piece after piece in device order, each dense. */
	bool send_staged, recv_staged;
	bool regular; /* gather, scatter: chunks of equal size, in the order of their devices */
	const int64_t *stage_bytes; /* n_devices */
	/* Over the network, all devices together.  Collectives as a ring sends them: an
	 * all-reduce 2(p-1)n, reduce-scatter and all-gather (p-1)n, n bytes of `region`. */
	int64_t network_bytes;
	int64_t chunk_bytes;              /* collectives: the largest chunk of one device */
	int64_t busiest_bytes;            /* messages: most that one device sends or receives */
	const struct ff_traffic *traffic; /* messages: n_devices */
	int64_t copied_bytes; /* most that one device packs, unpacks, clears or copies */
	int64_t added_bytes;  /* most that one device adds to what is there */
	/* Of what the first source and the first sink (sliced: its slice) share: bytes that are one
	 * run in both shards; 0: one of both uses nothing. */
	int64_t run_bytes;
};

/* Whether one of its sources is `part`. */
static inline bool ff_move_takes_from(const struct ff_move *mv, uint32_t part)
{
	for (uint32_t i = 0; i < mv->n_sources; i++)
		if (mv->source[i] == part)
			return true;
	return false;
}

/* One end of a redistribution. */
struct ff_side {
	const struct ff_placement *place;
	const uint16_t *device; /* by part */
	bool gradients;         /* it is they that go */
	/* Of a source: compresses its messages where each element goes to one sink alone, as what
	 * several get would have to be the same for all; NULL: nothing does. */
	const struct ff_codec *codec;
};
/* Whether both are cut alike on the same devices, so that nothing need move. */
bool ff_side_is_same(const struct ff_side *source, const struct ff_side *sink);

/* How sinks come to hold the reduction of the sources that cover them. */
struct ff_redistribution {
	uint32_t n_moves;
	const struct ff_move *move;
	const uint32_t *alias; /* by sink part: the source part whose shard it simply is, or
				* FF_NONE */
};

/* What redistributions are found with. */
struct ff_redistributor {
	const struct ff_machine *m;
	bool pieces;              /* say which elements go where (execution), else only how much */
	struct ff_arena *a;       /* for what stays */
	struct ff_arena *scratch; /* rewound to where it was */
};
/* `first`: sinks hold nothing yet, may be aliased, and are zeroed where no source covers them;
 * otherwise everything is added to them.  What adding means is for the source's placement to say.
 * Both sides have the same shape, and devices of the machine. */
int ff_redistribute(const struct ff_redistributor *x, const struct ff_side *source,
		const struct ff_side *sink, bool first, struct ff_redistribution *ret,
		struct ff_error *err);

#endif
