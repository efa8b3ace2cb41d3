/* One device a rank: communication, and random schedules against one device.
 * Run by mpirun; every rank checks, the first one prints.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <time.h>

#include "check_ranks.h"
#include "comm/mpi_job.h"
#include "comm/post.h"
#include "comm_cases.h"
#include "launches.h"
#include "process/agree.h"
#include "scene.h"

#define COMM_CASES 60
#define SCENES 40
#define LANES 12 /* scenes, twice each */
#define CAPTURED 32
/* What the elements that go in any case and the gaps between them take of host memory. */
#define ALIGNED (64 * 64)

static struct ff_comm *world(void)
{
	struct ff_comm *c;
	struct ff_error err;

	ck_assert_msg(ff_comm_mpi(&c, &err) == FF_OK, "%s", err.text);
	return c;
}

/* Two nodes with half of the ranks each, where FF_NCCL_NODES says that they matter. */
static const struct ff_machine *two_nodes(uint32_t ranks)
{
	static uint32_t node_of[64];
	static struct ff_machine_node nodes[2];
	static struct ff_machine m = {.name = "nodes", .n_nodes = 2, .nodes = nodes};

	if (!getenv("FF_NCCL_NODES") || ranks % 2 || ranks > 64)
		return NULL;
	m.node_of = node_of;
	m.n_devices = ranks;
	/* of one host all the same: a rank's device has the rank's number */
	nodes[0] = nodes[1] = (struct ff_machine_node){.first = 0, .count = ranks / 2};
	for (uint32_t d = 0; d < ranks; d++)
		node_of[d] = d >= ranks / 2;
	return &m;
}

/* What the chosen backend communicates by: MPI, or its own. */
static struct ff_comm *chosen_world(const struct ff_machine *m)
{
	struct ff_comm *c = world();
	struct ff_error err;

	ck_assert_msg(ff_comm_prefer(chosen_backend(), m ? m : two_nodes(c->n_ranks), &c, &err) ==
					FF_OK,
			"%s", err.text);
	return c;
}

struct cases {
	struct ff_comm *c;
	struct ff_random r;
	comm_case test;
};

static void one(void *ctx, const struct ff_channel *on)
{
	struct cases *k = ctx;

	k->test(k->c, on, &k->r);
}

/* `limit` bytes in one message, `most` bytes on the way at once; 0: as preset. */
static void each(comm_case test, int64_t limit, int64_t most, uint64_t seed)
{
	struct cases k = {world(), {ff_test_seed(seed), 0, 0}, test};
	struct ff_random r = k.r;
	struct ff_error err;

	if (limit)
		ff_comm_mpi_limit(k.c, limit);
	if (most)
		ff_host_comm_limit(k.c, most);
	r.stream = 1;
	comm_each(&r, (int)ff_test_rounds(COMM_CASES), one, &k);
	if (most) /* and what begins on 64 bytes */
		ck_assert_uint_le(ff_host_comm_bounced(k.c), (size_t)most + ALIGNED);
	ck_assert_int_eq(k.c->barrier(k.c, &err), FF_OK);
	k.c->destroy(k.c);
}

START_TEST(collectives)
{
	each(comm_all_reduce, 0, 0, 1);
	each(comm_all_gather, 0, 0, 2);
	each(comm_reduce_scatter, 0, 0, 3);
	each(comm_exchange, 0, 0, 4);
	each(comm_posted, 0, 0, 9);
}
END_TEST

/* As if ranks were on hosts of so many each, by rings of segments so long that arrays have many,
 * a few or less than one, in stages or not; far arrays in rounds, too; and by single messages. */
static void each_apart(comm_case test, uint64_t seed)
{
	static const struct {
		uint32_t each;
		bool by_nodes;
		int64_t segment_bytes, most;
	} parted[] = {{1, false, 8, 0}, {1, false, 60, 0}, {1, true, 40, 300}, {2, true, 100, 0},
			{2, true, 8, 300}, {2, false, 24, 0}, {3, true, 24, 0}, {4, true, 24, 0},
			{1, false, 4 * COMM_ARRAY_BYTES, 0}, {2, true, 4 * COMM_ARRAY_BYTES, 300}};

	for (size_t i = 0; i < sizeof(parted) / sizeof(*parted); i++) {
		struct cases k = {world(), {ff_test_seed(seed + i), 0, 0}, test};
		struct ff_random r = k.r;
		struct ff_error err;

		ff_comm_mpi_part(k.c, parted[i].each, parted[i].by_nodes, parted[i].segment_bytes);
		if (parted[i].most)
			ff_host_comm_limit(k.c, parted[i].most);
		r.stream = 1;
		comm_each(&r, (int)ff_test_rounds(COMM_CASES / 3), one, &k);
		ck_assert_int_eq(k.c->barrier(k.c, &err), FF_OK);
		k.c->destroy(k.c);
	}
}

START_TEST(apart)
{
	each_apart(comm_all_reduce, 51);
	each_apart(comm_all_gather, 56);
	each_apart(comm_reduce_scatter, 61);
	each_apart(comm_exchange, 66);
	each_apart(comm_posted, 71);
}
END_TEST

/* A long array of each rank, whose parts wait in slots for those that are late. */
#define LONG 300000

static float term(uint32_t rank, uint32_t i)
{
	return 1 / (1 + (float)(i % 1013) + (float)rank);
}

static void check_long(uint32_t n, const uint16_t *device, const float *got)
{
	for (uint32_t i = 0; i < LONG; i++) {
		uint32_t owner = 0, begin = 0;
		float want;

		while (i - begin >= LONG / n + (owner < LONG % n))
			begin += LONG / n + (owner++ < LONG % n);
		want = term(device[(owner + 1) % n], i);
		for (uint32_t k = 2; k <= n; k++)
			want += term(device[(owner + k) % n], i);
		ck_assert_msg(got[i] == want, "element %u of %u ranks: %.9g, expected %.9g", i, n,
				(double)got[i], (double)want);
	}
}

/* The order of sums is the ring's, to the bit, wherever ranks lie, on one host too, in segments and
 * in single messages. */
START_TEST(long_rings)
{
	float *array = malloc(LONG * sizeof(*array));
	struct ff_channel on = {&ff_backend_cpu, NULL};
	struct ff_device *dev;
	struct ff_error err;
	struct ff_comm *c = world();
	uint16_t device[64];
	const void *send[64] = {NULL};
	void *recv[64] = {NULL};
	int64_t count = LONG;
	struct ff_collective x = {FF_MOVE_ALL_REDUCE, FF_F32, FF_REDUCE_SUM, c->n_ranks, device,
			send, recv, &count, NULL};

	ck_assert_ptr_nonnull(array);
	ck_assert_int_eq(ff_backend_cpu.device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(ff_backend_cpu.stream.open(dev, false, &on.stream, &err), FF_OK);
	send[c->rank] = recv[c->rank] = array;
	for (uint32_t i = 0; i < c->n_ranks; i++)
		device[i] = (uint16_t)i;
	for (uint32_t k = 0; k < 2 * c->n_ranks; k++) {
		ff_comm_mpi_part(c, 1 + k / 2, false, k % 2 ? 4 * LONG : 1000);
		for (uint32_t i = 0; i < LONG; i++)
			array[i] = term(c->rank, i);
		ck_assert_int_eq(c->collective(c, &on, &x, &err), FF_OK);
		ck_assert_int_eq(ff_backend_cpu.stream.drain(on.stream, &err), FF_OK);
		check_long(c->n_ranks, device, array);
	}
	ff_backend_cpu.stream.close(on.stream);
	ff_backend_cpu.device.close(dev);
	c->destroy(c);
	free(array);
}
END_TEST

/* Sums on one stream and gathers on the other, of one group. */
#define BESIDE 16 /* of each */
#define SHORT 3000
#define LATE_NS 200000

struct beside {
	struct ff_comm *c;
	uint16_t device[64];
	int64_t count[64], offset[64];
	float sum[BESIDE][SHORT], own[BESIDE][SHORT], gathered[BESIDE][64][SHORT];
};

static int be_late(void *arg, struct ff_error *err)
{
	const struct timespec late = {0, LATE_NS};

	(void)arg, (void)err;
	nanosleep(&late, NULL);
	return FF_OK;
}

static void beside_open(struct beside *b, struct ff_comm *c)
{
	b->c = c;
	for (uint32_t i = 0; i < c->n_ranks; i++) {
		b->device[i] = (uint16_t)i;
		b->count[i] = SHORT;
		b->offset[i] = (int64_t)i * SHORT;
	}
	for (uint32_t k = 0; k < BESIDE; k++)
		for (uint32_t i = 0; i < SHORT; i++)
			b->sum[k][i] = b->own[k][i] = (float)((i + k) % 101 + 1000 * c->rank);
}

static void beside_post(struct beside *b, const struct ff_channel *on, uint32_t k)
{
	uint32_t me = b->c->rank;
	const void *send[64] = {NULL};
	void *recv[64] = {NULL};
	struct ff_collective x = {FF_MOVE_ALL_REDUCE, FF_F32, FF_REDUCE_SUM, b->c->n_ranks,
			b->device, send, recv, b->count, b->offset};
	struct ff_error err;

	send[me] = recv[me] = b->sum[k];
	if (on->messages) {
		x.kind = FF_MOVE_ALL_GATHER;
		send[me] = b->own[k];
		recv[me] = b->gathered[k];
	}
	/* so that the streams begin in another order here than at the neighbours */
	if (me % 2 == on->messages)
		ck_assert_int_eq(on->backend->stream.call(on->stream, be_late, NULL, &err), FF_OK);
	ck_assert_int_eq(b->c->collective(b->c, on, &x, &err), FF_OK);
}

static void beside_check(const struct beside *b)
{
	uint32_t n = b->c->n_ranks;

	for (uint32_t k = 0; k < BESIDE; k++)
		for (uint32_t i = 0; i < SHORT; i++) {
			uint32_t term = (i + k) % 101;

			ck_assert(b->sum[k][i] == (float)(n * term + 500 * n * (n - 1)));
			for (uint32_t r = 0; r < n; r++)
				ck_assert(b->gathered[k][r][i] == (float)(term + 1000 * r));
		}
}

/* The two streams have nothing in common, whichever of them a rank is late on: on one host, by
 * rings, by single messages and in stages. */
START_TEST(beside)
{
	static const struct {
		uint32_t each;
		bool by_nodes;
		int64_t segment_bytes;
	} parted[] = {{64, false, 1000}, {1, false, 1000}, {1, false, 64 * 4 * SHORT},
			{2, true, 1000}};
	struct beside *b = malloc(sizeof(*b));
	struct ff_device *dev;
	struct ff_error err;

	ck_assert_ptr_nonnull(b);
	ck_assert_int_eq(ff_backend_cpu.device.open(0, &dev, &err), FF_OK);
	for (size_t i = 0; i < sizeof(parted) / sizeof(*parted); i++) {
		struct ff_channel on[] = {
				{&ff_backend_cpu, NULL, false}, {&ff_backend_cpu, NULL, true}};

		beside_open(b, world());
		ff_comm_mpi_part(b->c, parted[i].each, parted[i].by_nodes, parted[i].segment_bytes);
		b->c->two_streams = true;
		for (int k = 0; k < 2; k++)
			ck_assert_int_eq(ff_backend_cpu.stream.open(dev, true, &on[k].stream, &err),
					FF_OK);
		for (uint32_t k = 0; k < 2 * BESIDE; k++)
			beside_post(b, &on[k % 2], k / 2);
		for (int k = 0; k < 2; k++) {
			ck_assert_int_eq(ff_backend_cpu.stream.drain(on[k].stream, &err), FF_OK);
			ff_backend_cpu.stream.close(on[k].stream);
		}
		beside_check(b);
		b->c->destroy(b->c);
	}
	ff_backend_cpu.device.close(dev);
	free(b);
}
END_TEST

/* What a device gets of itself is what it sends. */
START_TEST(alone)
{
	static const enum ff_move_kind kinds[] = {
			FF_MOVE_ALL_REDUCE, FF_MOVE_ALL_GATHER, FF_MOVE_REDUCE_SCATTER};
	struct ff_channel on = {&ff_backend_cpu, NULL};
	struct ff_device *dev;
	struct ff_error err;
	struct ff_comm *c = world();
	const uint16_t device = (uint16_t)c->rank;
	const int64_t count = 3, offset = 0;

	ck_assert_int_eq(ff_backend_cpu.device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(ff_backend_cpu.stream.open(dev, false, &on.stream, &err), FF_OK);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const float own[] = {1, 2, 3};
		float got[] = {0, 0, 0};
		const void *send = own;
		void *recv = got;
		const struct ff_collective x = {kinds[i], FF_F32, FF_REDUCE_SUM, 1, &device, &send,
				&recv, &count, &offset};

		ck_assert_int_eq(c->collective(c, &on, &x, &err), FF_OK);
		ck_assert_int_eq(ff_backend_cpu.stream.drain(on.stream, &err), FF_OK);
		ck_assert_mem_eq(got, own, sizeof(own));
	}
	ff_backend_cpu.stream.close(on.stream);
	ff_backend_cpu.device.close(dev);
	c->destroy(c);
}
END_TEST

/* By way of host memory that is shorter than what is posted. */
START_TEST(rounds)
{
	each(comm_server, 0, 20000, 40);
	each(comm_all_reduce, 0, 300, 41);
	each(comm_all_gather, 0, 300, 42);
	each(comm_reduce_scatter, 0, 300, 43);
	each(comm_exchange, 0, 300, 44);
	each(comm_posted, 0, 300, 45);
}
END_TEST

static void refuse(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	(void)r;
	comm_refused(c, on);
}

/* `most` as above, where it is the host that communicates. */
static void each_far(comm_case test, int64_t most, uint64_t seed)
{
	struct ff_random r = {ff_test_seed(seed), 0, 0};
	struct ff_comm *c = chosen_world(NULL);
	struct ff_error err;

	if (most && !c->in_stream)
		ff_host_comm_limit(c, most);
	comm_each_far(c, &r, (int)ff_test_rounds(COMM_CASES), test);
	ck_assert_int_eq(c->barrier(c, &err), FF_OK);
	c->destroy(c);
}

/* In the chosen backend's memory. */
START_TEST(far_collectives)
{
	each_far(comm_all_reduce, 0, 11);
	each_far(comm_all_gather, 0, 12);
	each_far(comm_reduce_scatter, 0, 13);
	each_far(comm_exchange, 0, 14);
	each_far(comm_exchange, 300, 15);
	each_far(comm_posted, 0, 19);
	each_far(refuse, 0, 20);
}
END_TEST

/* FF_NCCL=1 is obeyed, and what is not NCCL says so. */
START_TEST(named)
{
	const char *word = getenv("FF_NCCL");
	struct ff_comm *c = chosen_world(NULL);

	if (word)
		ck_assert_int_eq(!strncmp(c->name, "nccl 2.", 7), !strcmp(word, "1"));
	else if (chosen_is_cpu())
		ck_assert_str_eq(c->name, "mpi shared");
	if (getenv("FF_NCCL_NODES"))
		ck_assert_ptr_nonnull(strstr(c->name, " by nodes"));
	c->destroy(c);
}
END_TEST

/* Messages longer than MPI's ints are cut; here at 29 bytes. */
START_TEST(long_arrays)
{
	each(comm_exchange, 29, 0, 8);
}
END_TEST

START_TEST(hosts)
{
	struct ff_comm *c = world();

	for (uint32_t d = 0; d < c->n_devices; d++)
		ck_assert(c->hosts(c, d) == (d == c->rank));
	ck_assert_uint_eq(c->n_ranks, c->n_devices);
	c->destroy(c);
}
END_TEST

START_TEST(same_function)
{
	uint64_t seed = ff_test_seed(30);
	struct ff_comm *c, *all = world();

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct result split, whole;
		struct scene s;

		scene_open(&s, FF_F32, all->n_devices, &r);
		c = chosen_world(&s.machine);
		if (!strcmp(c->name, "mpi shared") && i % 2) /* as if on several hosts */
			ff_comm_mpi_part(c, 1 + i / 2 % 2, true, 64);
		printf("# case %u: %u nodes, %u devices%s\n", i, s.graph.n_nodes,
				s.machine.n_devices, s.machine.overlap ? ", overlap" : "");
		scene_run(&s, &s.machine, &s.strategy, rig_backend(ff_random_below(&r, 4) == 0), c,
				64 * (int64_t)ff_random_below(&r, 40), &split);
		scene_run(&s, &s.one, &s.single, rig_backend(false), NULL, 0, &whole);
		scene_compare(&s, &split, &whole);
		scene_close(&s);
		c->destroy(c);
	}
	all->destroy(all);
}
END_TEST

/* Half of them sum in nodes and among them. */
static void open_lanes(struct scene *s, uint32_t n, uint32_t i, struct ff_random *r)
{
	scene_open(s, FF_F32, n, r);
	s->machine.overlap = s->machine.message_lane = true;
	ff_machine_number_cards(&s->machine);
	if (n == 4 && i % 2)
		scene_group(s, 2, i / 2 % 2);
}

static void run_lanes(struct scene *s, bool own, struct result *ret)
{
	struct ff_comm *c = chosen_world(&s->machine);

	if (!own)
		c->takes_messages = false;
	scene_run(s, &s->machine, &s->strategy, rig_backend(false), c, 64, ret);
	if (!own)
		ck_assert(!c->two_streams);
	else if (c->rank < s->machine.n_devices && (c->in_stream || chosen_is_cpu()))
		ck_assert(c->two_streams);
	c->destroy(c);
}

/* Messages on a stream of their own, and on the other one: the same bits; and the same function as
 * of one device. */
START_TEST(lanes)
{
	uint64_t seed = ff_test_seed(34);
	struct ff_comm *all = world();

	for (uint32_t i = 0; i < ff_test_rounds(LANES); i++) {
		struct ff_random r = {seed, i, 0};
		struct result own, one, whole;
		struct scene s;
		size_t bytes;

		open_lanes(&s, all->n_devices, i, &r);
		bytes = (size_t)ff_graph_parameters(&s.graph) * sizeof(float);
		run_lanes(&s, true, &own);
		run_lanes(&s, false, &one);
		scene_run(&s, &s.one, &s.single, rig_backend(false), NULL, 0, &whole);
		scene_compare(&s, &own, &whole);
		ck_assert_mem_eq(own.weights, one.weights, bytes);
		ck_assert_mem_eq(own.loss, one.loss, sizeof(own.loss));
		scene_close(&s);
	}
	all->destroy(all);
}
END_TEST

/* What a stream waits for when the other one has failed may never come: it is told so. */
START_TEST(given_up)
{
	static float sent = 1, got; /* which may still come */
	struct ff_channel on = {&ff_backend_cpu, NULL, true};
	struct ff_comm *c = world();
	struct ff_parcel p = {.from = 1, .to = 0, .count = 1};
	struct ff_device *dev;
	struct ff_error err = {0};

	c->two_streams = true;
	ck_assert_int_eq(ff_backend_cpu.device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(ff_backend_cpu.stream.open(dev, true, &on.stream, &err), FF_OK);
	p.send = c->rank == 1 ? &sent : NULL;
	p.recv = c->rank == 0 ? &got : NULL;
	if (c->rank == 0) {
		ck_assert_int_eq(c->exchange(c, &on, FF_F32, &p, 1, &err), FF_OK);
		c->give_up(c);
		ck_assert_int_eq(ff_backend_cpu.stream.drain(on.stream, &err), FF_E_RUN);
		ck_assert_msg(strstr(err.text, "given up") != NULL, "%s", err.text);
	}
	ck_assert_int_eq(c->barrier(c, &err), FF_OK);
	if (c->rank == 1) {
		ck_assert_int_eq(c->exchange(c, &on, FF_F32, &p, 1, &err), FF_OK);
		ck_assert_int_eq(ff_backend_cpu.stream.drain(on.stream, &err), FF_OK);
	}
	ck_assert_int_eq(c->barrier(c, &err), FF_OK);
	ff_backend_cpu.stream.close(on.stream);
	ff_backend_cpu.device.close(dev);
	c->destroy(c);
}
END_TEST

/* Steps that are captured, communication and all, are the same to the bit. */
START_TEST(captured)
{
	struct ff_comm *c = chosen_world(NULL);
	bool captures = c->in_stream && chosen_backend()->captures;
	uint32_t n = c->n_ranks;

	c->destroy(c);
	if (captures)
		launch_compare(ff_test_rounds(CAPTURED), ff_test_seed(33), chosen_world, n);
}
END_TEST

/* Elements of every type arrive: the null backend knows what they are. */
START_TEST(types_arrive)
{
	uint64_t seed = ff_test_seed(31);
	struct ff_comm *c = world();
	struct ff_error err;

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;
		struct rig rig;
		struct rig_setup setup;

		scene_open(&s, i % 2 ? FF_BF16 : FF_F32, c->n_devices, &r);
		if (s.strategy.micro_batches == 1)
			random_types(&r, &s.graph);
		setup = scene_setup(&s, &ff_backend_null);
		setup.comm = c;
		rig_open(&rig, setup);
		for (uint64_t step = 0; step < 2; step++) {
			int64_t sent = c->sent_bytes;

			RIG_OK(ff_executor_step(rig.x, step, &err));
			sent = c->sent_bytes - sent;
			RIG_OK(ff_agree_sum(c, &sent, 1, &err));
			ck_assert_int_eq(sent, rig.schedule.network_bytes);
		}
		rig_close(&rig);
		scene_close(&s);
	}
	c->destroy(c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("mpi");
	TCase *t = tcase_create("ranks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, collectives);
	tcase_add_test(t, apart);
	tcase_add_test(t, long_rings);
	tcase_add_test(t, beside);
	tcase_add_test(t, alone);
	tcase_add_test(t, rounds);
	tcase_add_test(t, far_collectives);
	tcase_add_test(t, named);
	tcase_add_test(t, long_arrays);
	tcase_add_test(t, hosts);
	tcase_add_test(t, types_arrive);
	tcase_add_test(t, same_function);
	tcase_add_test(t, lanes);
	tcase_add_test(t, given_up);
	tcase_add_test(t, captured);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_ranks(suite());
}
