/* Two ranks that post on a stream of collectives and on one of messages: what passes through
 * scratch memory on one is not that of the other, and whichever is drained last is still watched.
 * Run by mpirun on the double with FF_COMM_TIMEOUT.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <mpi.h>

#include "ff/machine.h"
#include "ranks_main.h"

#define PAIRS 500 /* of a log-sum-exp */
#define BYTES (2 * PAIRS * sizeof(float))
#define ROUNDS 20

static struct ff_comm *comm;

/* A stream of each kind, and memory for what is posted on it. */
struct lane {
	struct ff_channel on;
	void *memory;
	float *host; /* pinned, so that no host function holds up its stream */
};

static void open_lanes(struct ff_device *dev, struct lane lane[2])
{
	const struct ff_backend *b = chosen_backend();
	struct ff_error err;
	void *pinned;

	for (int i = 0; i < 2; i++) {
		lane[i].on = (struct ff_channel){.backend = b, .messages = i == 1};
		ck_assert_int_eq(b->stream.open(dev, true, &lane[i].on.stream, &err), FF_OK);
		ck_assert_int_eq(b->memory.alloc(dev, BYTES, &lane[i].memory, &err), FF_OK);
		ck_assert_int_eq(b->memory.pin(dev, BYTES, &pinned, &err), FF_OK);
		lane[i].host = pinned;
	}
}

static void close_lanes(struct ff_device *dev, struct lane lane[2])
{
	const struct ff_backend *b = chosen_backend();

	for (int i = 0; i < 2; i++) {
		b->stream.close(lane[i].on.stream);
		b->memory.unpin(dev, lane[i].host);
		b->memory.free(dev, lane[i].memory);
	}
}

/* NCCL does not reduce such pairs: they are gathered in scratch memory first. */
static int post(const struct lane *l, struct ff_error *err)
{
	const uint16_t device[] = {0, 1};
	const int64_t count[] = {2 * PAIRS};
	const void *send[2] = {NULL, NULL};
	void *recv[2] = {NULL, NULL};
	const struct ff_collective x = {FF_MOVE_ALL_REDUCE, FF_F32, FF_REDUCE_LOG_SUM_EXP, 2,
			device, send, recv, count, NULL};

	send[comm->rank] = recv[comm->rank] = l->memory;
	return comm->collective(comm, &l->on, &x, err);
}

/* The larger number of each pair is rank 1's, and tells the lane. */
static void fill(struct lane *l)
{
	for (int i = 0; i < PAIRS; i++) {
		l->host[2 * i] = (float)(1000 * l->on.messages + i + 500 * (int)comm->rank);
		l->host[2 * i + 1] = 0;
	}
}

static void check(const struct lane *l)
{
	for (int i = 0; i < PAIRS; i++) {
		float want = (float)(1000 * l->on.messages + i + 500);

		ck_assert_msg(l->host[2 * i] == want, "pair %d of lane %d: %g, expected %g", i,
				l->on.messages, (double)l->host[2 * i], (double)want);
	}
}

static void exchange(struct lane lane[2], int first)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_error err;

	for (int i = 0; i < 2; i++) {
		struct ff_stream *s = lane[i].on.stream;

		fill(&lane[i]);
		ck_assert_int_eq(b->move.upload(s, lane[i].memory, lane[i].host, BYTES, &err),
				FF_OK);
		ck_assert_msg(post(&lane[i], &err) == FF_OK, "%s", err.text);
		ck_assert_int_eq(b->move.download(s, lane[i].host, lane[i].memory, BYTES, &err),
				FF_OK);
	}
	for (int i = 0; i < 2; i++) {
		struct lane *l = &lane[i ^ first];

		ck_assert_msg(b->stream.drain(l->on.stream, &err) == FF_OK, "%s", err.text);
		check(l);
	}
}

/* Rank 1 posts on the first stream alone, rank 0 on both. */
static void leave(struct lane lane[2])
{
	const struct ff_backend *b = chosen_backend();
	struct ff_error err = {0};

	for (uint32_t i = 0; i < 2 - comm->rank; i++)
		ck_assert_msg(post(&lane[i], &err) == FF_OK, "%s", err.text);
	ck_assert_msg(b->stream.drain(lane[0].on.stream, &err) == FF_OK, "%s", err.text);
	if (comm->rank == 0) {
		ck_assert_int_eq(b->stream.drain(lane[1].on.stream, &err), FF_E_RUN);
		printf("# %s\n", err.text);
		ck_assert_ptr_nonnull(strstr(err.text, "rank 0 has waited"));
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

START_TEST(two_streams)
{
	static struct ff_machine m = {.overlap = true, .message_lane = true, .n_devices = 2};
	static struct ff_machine_node node = {.first = 0, .count = 2};
	static uint32_t node_of[2] = {0, 0};
	const struct ff_backend *b = chosen_backend();
	struct lane lane[2];
	struct ff_device *dev;
	struct ff_error err;

	m.nodes = &node;
	m.n_nodes = 1;
	m.node_of = node_of;
	ck_assert_msg(ff_comm_prefer(b, &m, &comm, &err) == FF_OK, "%s", err.text);
	ck_assert(comm->takes_messages);
	ck_assert_int_eq(b->device.open(comm->rank, &dev, &err), FF_OK);
	open_lanes(dev, lane);
	for (int i = 0; i < ROUNDS; i++)
		exchange(lane, i % 2);
	leave(lane);
	close_lanes(dev, lane);
	b->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("two_streams");
	TCase *t = tcase_create("ranks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, two_streams);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ranks_main(suite(), &comm);
}
