/* Redistribution: the moves that turn the regions a producer wrote into those a reader wants
 * (docs/schedule.md).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REDISTRIBUTION_H
#define FF_REDISTRIBUTION_H

#include "ff/codec.h"
#include "ff/machine.h"
#include "ff/move.h"
#include "ff/placement.h"

/* The elements `region` go from a source part's shard to a sink part's shard.  No device has two
 * parts of one operator, so a move has at most one piece, that is one message, between two devices
 * in each direction. */
struct ff_piece {
	uint16_t source, sink; /* part numbers on either side */
	uint16_t from, to;     /* their devices */
	bool add;              /* add to the sink instead of overwriting it */
	struct ff_region region;
	/* from != to: byte offset of the message in the sender's and the receiver's staging buffer.
	 * -1: no staging; the region is one run of the shard (ff_region_is_run). */
	int64_t send_stage, recv_stage;
	/* Compressed: byte offset of its error feedback in the sender's. */
	int64_t residual;
};

/* Elements of a compressed piece: padded with zeros to whole steps of the codec. */
static inline int64_t ff_coded_elements(const struct ff_piece *p)
{
	return (ff_region_volume(&p->region) + FF_CODEC_STEP - 1) / FF_CODEC_STEP * FF_CODEC_STEP;
}

/* What one device sends and receives in a move. */
struct ff_traffic {
	int64_t sent_inside, received_inside;   /* bytes, within its node */
	int64_t sent_outside, received_outside; /* to and from other nodes */
	uint32_t n_sent, n_received;            /* messages */
	/* Compressed: bytes of the float32 values, each message rounded up to 64.  The error
	 * feedback takes as much as `encoded`. */
	int64_t encoded, decoded;
};

/* The members of the collectives of a flat bucket whose devices form groups (ff/bucket.h): the
 * devices of each group, or (`across`) the devices of all groups that have the same run. */
struct ff_among {
	uint32_t runs; /* devices a group; 0: one collective among all */
	bool across;
	bool beside; /* across, and on the lanes of messages, as the groups use other links */
};

/* One communication task.  Source shards of one operator become sink shards of another; a sink
 * element is the reduction of all sources that cover it.
 *
 * Messages: a receiver fills its sink if asked, then takes the pieces without `add`, then those
 * with `add`, in order; compressed ones come last.
 *
 * Collectives: every device has one source and one sink.  All-gather and reduce-scatter have one
 * piece a device, in device order: the part of `region` that its source has, or its sink gets. */
struct ff_move {
	enum ff_move_kind kind;
	enum ff_dtype type; /* of the elements */
	bool gradients;     /* the elements are gradients */
	bool accumulate;    /* the sinks already hold values, to which is added */
	/* Messages: each sink receives only a slice of its region; all-gathers later in the same
	 * redistribution join the slices (scatter-gather of Megatron-LM). */
	bool sliced;
	/* An all-gather of slices: each device's slice lies in its sink; there are no sources. */
	bool joins;
	struct ff_among among;
	enum ff_reduce reduce; /* what "add" means */
	/* Messages: compresses them, with error feedback at the sender.  All are then staged.  The
	 * decoded float32 stand in the receiver's stage after the message, unless the message is
	 * all of its sink.  NULL: not compressed. */
	const struct ff_codec *codec;
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	uint32_t n_sources, n_sinks;
	const uint16_t *source;       /* part numbers, in the order of their devices */
	const uint16_t *sink;         /* likewise */
	const bool *fill;             /* n_sinks: the sink begins as the reduction of nothing */
	struct ff_region region;      /* collectives: the whole; LOAD: the sink's */
	uint32_t n_pieces;            /* 0 in a search (ff_redistributor.pieces) */
	const struct ff_piece *piece; /* by `from`, then `to` */
	/* Collectives: the staging buffer holds the packed chunks to send, if send_staged, then,
	 * 64-byte aligned, those received, if recv_staged: in device order, each dense. */
	bool send_staged, recv_staged;
	bool regular;               /* gather, scatter: chunks of equal size, in device order */
	const int64_t *stage_bytes; /* n_devices */
	/* Sent by all devices together.  Collectives count as rings: for n bytes of `region` and p
	 * devices an all-reduce sends 2(p-1)n, reduce-scatter and all-gather (p-1)n. */
	int64_t network_bytes;
	int64_t chunk_bytes;              /* collectives: the largest chunk of one device */
	int64_t busiest_bytes;            /* messages: the most that one device sends or receives */
	const struct ff_traffic *traffic; /* messages: n_devices */
	int64_t copied_bytes; /* the most that one device packs, unpacks, clears or copies */
	int64_t added_bytes;  /* the most that one device adds */
	/* Contiguous bytes in both shards, of what the first source and the first sink (sliced: its
	 * slice) have in common; 0: nothing in common. */
	int64_t run_bytes;
};

/* Whether `part` is one of its sources. */
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
	bool gradients;         /* gradients move, not values */
	/* Of a source: compresses messages whose elements go to a single sink.  Several sinks must
	 * all receive the same, so their messages are not compressed.  NULL: none are. */
	const struct ff_codec *codec;
};
/* Whether both sides have the same regions on the same devices, so that nothing need move. */
bool ff_side_is_same(const struct ff_side *source, const struct ff_side *sink);

/* The moves after which every sink element is the reduction of the sources that cover it. */
struct ff_redistribution {
	uint32_t n_moves;
	const struct ff_move *move;
	const uint32_t *alias; /* by sink part: the source part whose shard it shares, or FF_NONE */
};

struct ff_redistributor {
	const struct ff_machine *m;
	bool pieces;              /* also which elements go where (execution), not only how many */
	struct ff_arena *a;       /* owns the result */
	struct ff_arena *scratch; /* rewound */
};
/* `first`: sinks hold nothing yet; they may share a source's shard, and are zeroed where no source
 * covers them.  Otherwise everything is added to them.  The source's placement says what adding
 * means.  Both sides have the same shape and devices of the machine. */
int ff_redistribute(const struct ff_redistributor *x, const struct ff_side *source,
		const struct ff_side *sink, bool first, struct ff_redistribution *ret,
		struct ff_error *err);

#endif
