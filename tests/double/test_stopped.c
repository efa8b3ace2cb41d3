/* A rank that stops posting: the other one does not wait for ever, and names what it was called
 * for; nor does one that waits on the host.  Where FF_DOUBLE_LACKS=abort its device goes on for
 * ever, and is left behind; where it is meetings, NCCL fails on the rank that calls for one, and
 * the other one knows.  Run by mpirun on the double with FF_COMM_TIMEOUT.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <mpi.h>

#include "ff/capture.h"
#include "ff/clock.h"
#include "ranks_main.h"

#define ELEMENTS 12
#define LIMIT_S 4 /* as FF_COMM_TIMEOUT; ranks that are at work may be so late */

static struct ff_comm *comm;

static int post(const struct ff_channel *on, void *memory, struct ff_error *err)
{
	const uint16_t device[] = {0, 1};
	const int64_t count[] = {ELEMENTS};
	const void *send[2] = {NULL, NULL};
	void *recv[2] = {NULL, NULL};
	const struct ff_collective x = {FF_MOVE_ALL_REDUCE, FF_F32, FF_REDUCE_SUM, 2, device, send,
			recv, count, NULL};

	send[comm->rank] = recv[comm->rank] = memory;
	return comm->collective(comm, on, &x, err);
}

/* What one stream was given, behind what the other was. */
static void post_and_follow(const struct ff_channel *on, struct ff_stream *compute,
		struct ff_event *ev, void *memory)
{
	struct ff_error err;

	ck_assert_msg(post(on, memory, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(on->backend->event.record(on->stream, ev, &err), FF_OK);
	ck_assert_int_eq(on->backend->event.wait(compute, ev, &err), FF_OK);
}

/* What rank 0 has posted stays under way. */
static bool is_lost(void)
{
	return comm->rank == 0 && getenv("FF_DOUBLE_LACKS");
}

/* Rank 0 waits for what rank 1 never posts, rank 1 for rank 0 where that never comes. */
static void check_waiting(const struct ff_channel *on, struct ff_stream *compute,
		struct ff_event *ev, void *memory)
{
	const struct ff_backend *b = on->backend;
	struct ff_error err = {0};
	double start = ff_clock_us(), took_s;
	char rank[32], word = 0;
	int code;

	if (comm->rank == 0) {
		post_and_follow(on, compute, ev, memory);
		ck_assert_int_eq(b->event.record(compute, ev, &err), FF_OK);
		code = b->captures->await(compute, ev, &err);
	} else {
		code = comm->barrier(comm, &err);
	}
	took_s = (ff_clock_us() - start) * 1e-6;
	printf("# %s\n", err.text);
	ck_assert_int_eq(code, FF_E_RUN);
	snprintf(rank, sizeof(rank), "rank %u has waited", comm->rank);
	ck_assert_ptr_nonnull(strstr(err.text, rank));
	ck_assert_ptr_nonnull(strstr(
			err.text, comm->rank == 0 ? "all-reduce of 12 float32" : "MPI_Ibarrier"));
	ck_assert_double_ge(took_s, LIMIT_S);
	ck_assert_double_le(took_s, LIMIT_S + 60);
	/* what was given up is no obstacle */
	ck_assert_int_eq(b->stream.drain(compute, &err), is_lost() ? FF_E_RUN : FF_OK);
	ck_assert_int_eq(b->stream.drain(on->stream, &err), is_lost() ? FF_E_RUN : FF_OK);
	/* the other one's barrier has been given up before this one comes; MPI ends in good order
	 */
	if (comm->rank == 0) {
		MPI_Recv(&word, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		ck_assert_int_eq(comm->barrier(comm, &err), FF_OK);
	} else {
		MPI_Send(&word, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
	}
}

START_TEST(stopped)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_channel on = {.backend = b};
	struct ff_stream *compute;
	struct ff_device *dev;
	struct ff_figures *figures;
	struct ff_event *ev;
	struct ff_error err;
	void *memory;

	ck_assert_msg(ff_comm_prefer(b, NULL, &comm, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(b->device.open(comm->rank, &dev, &err), FF_OK);
	ck_assert_int_eq(b->stream.open(dev, true, &on.stream, &err), FF_OK);
	ck_assert_int_eq(b->stream.open(dev, false, &compute, &err), FF_OK);
	ck_assert_int_eq(b->event.open(dev, &ev, &err), FF_OK);
	ck_assert_int_eq(b->memory.alloc(dev, ELEMENTS * sizeof(float), &memory, &err), FF_OK);
	ck_assert_int_eq(b->captures->figures(dev, &figures, &err), FF_OK);
	/* while both post nothing is wrong, whichever stream is drained first */
	post_and_follow(&on, compute, ev, memory);
	ck_assert_msg(b->stream.drain(compute, &err) == FF_OK, "%s", err.text);
	ck_assert_msg(b->stream.drain(on.stream, &err) == FF_OK, "%s", err.text);
	check_waiting(&on, compute, ev, memory);
	b->memory.free(dev, memory);
	b->event.close(ev);
	b->stream.close(compute);
	b->stream.close(on.stream);
	b->device.close(dev);
}
END_TEST

START_TEST(unmet)
{
	const char *call = "NCCL failed on rank 0, last called for a meeting of 2 devices";
	struct ff_comm *over = comm;
	struct ff_error err = {0};

	ck_assert_int_eq(ff_comm_prefer(chosen_backend(), NULL, &over, &err), FF_E_RUN);
	printf("# %s\n", err.text);
	ck_assert_int_eq(!strncmp(err.text, call, strlen(call)), comm->rank == 0);
	ck_assert_int_eq(err.text[0] == '\0', comm->rank == 1);
	ck_assert_ptr_eq(over, comm);
}
END_TEST

static bool can_meet(void)
{
	const char *lacks = getenv("FF_DOUBLE_LACKS");

	return !lacks || strcmp(lacks, "meetings") != 0;
}

static Suite *suite(void)
{
	Suite *s = suite_create("stopped");
	TCase *t = tcase_create("ranks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, can_meet() ? stopped : unmet);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ranks_main(suite(), &comm);
}
