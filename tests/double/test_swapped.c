/* Two ranks that post to NCCL in different order, by way of the comm.  Run by mpirun on the
 * double; what fails is this process's device, so it is all that a process does.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include "ranks_main.h"

#define ELEMENTS 8

static struct ff_comm *comm;

static int post(const struct ff_channel *on, enum ff_move_kind kind, void *const *memory,
		struct ff_error *err)
{
	const uint16_t device[] = {0, 1};
	const int64_t count[] = {ELEMENTS, ELEMENTS}, offset[] = {0, ELEMENTS};
	const void *send[2] = {NULL, NULL};
	void *recv[2] = {NULL, NULL};
	const struct ff_collective x = {
			kind, FF_F32, FF_REDUCE_SUM, 2, device, send, recv, count, offset};

	send[comm->rank] = memory[0];
	recv[comm->rank] = memory[1];
	return comm->collective(comm, on, &x, err);
}

/* One of the two ranks does it the other way round; both are told. */
static void check_order(const struct ff_channel *on, void *const *memory, bool swapped)
{
	enum ff_move_kind first = swapped ? FF_MOVE_ALL_GATHER : FF_MOVE_ALL_REDUCE;
	enum ff_move_kind second = swapped ? FF_MOVE_ALL_REDUCE : FF_MOVE_ALL_GATHER;
	struct ff_error err = {0};
	char rank[32];
	int code = post(on, first, memory, &err);

	if (code == FF_OK)
		code = post(on, second, memory, &err);
	if (code == FF_OK)
		code = on->backend->stream.drain(on->stream, &err);
	printf("# %s\n", err.text);
	ck_assert_int_eq(code, FF_E_RUN);
	snprintf(rank, sizeof(rank), "failed on rank %u, ", comm->rank);
	ck_assert_ptr_nonnull(strstr(err.text, rank));
	ck_assert_ptr_nonnull(strstr(err.text, ff_move_name(second)));
	ck_assert_ptr_nonnull(strstr(err.text, "invalid usage"));
}

START_TEST(swapped_calls)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_channel on = {.backend = b};
	struct ff_device *dev;
	struct ff_error err;
	void *memory[2];

	ck_assert_msg(ff_comm_prefer(b, NULL, &comm, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(b->device.open(comm->rank, &dev, &err), FF_OK);
	ck_assert_int_eq(b->stream.open(dev, true, &on.stream, &err), FF_OK);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(b->memory.alloc(dev, 2 * ELEMENTS * sizeof(float), &memory[i],
						 &err),
				FF_OK);
	/* in one order nothing is wrong */
	ck_assert_int_eq(post(&on, FF_MOVE_ALL_REDUCE, memory, &err), FF_OK);
	ck_assert_int_eq(post(&on, FF_MOVE_ALL_GATHER, memory, &err), FF_OK);
	ck_assert_msg(b->stream.drain(on.stream, &err) == FF_OK, "%s", err.text);
	check_order(&on, memory, comm->rank == 1);
	for (int i = 0; i < 2; i++)
		b->memory.free(dev, memory[i]);
	b->stream.close(on.stream);
	b->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("swapped");
	TCase *t = tcase_create("ranks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, swapped_calls);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ranks_main(suite(), &comm);
}
