/* Streams and events of a backend (chosen.h): order, waiting, failures.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chosen.h"
#include "ff/clock.h"
#include "process/idle.h"

static const struct ff_backend *backend;

/* A log that functions in streams write to. */
struct diary {
	pthread_mutex_t mutex;
	uint32_t n;
	int entry[4096];
};

struct note {
	struct diary *diary;
	int entry;
	int code;
	atomic_bool *gate; /* spins until it opens; NULL: goes on */
};

static int write_note(void *arg, struct ff_error *err)
{
	struct note *n = arg;

	while (n->gate && !atomic_load(n->gate))
		sched_yield();
	if (n->code < 0)
		return ff_fail(err, n->code, "note %d failed", n->entry);
	pthread_mutex_lock(&n->diary->mutex);
	n->diary->entry[n->diary->n++] = n->entry;
	pthread_mutex_unlock(&n->diary->mutex);
	return FF_OK;
}

struct bench {
	struct ff_device *dev;
	struct ff_stream *s[3];
	struct ff_event *ev;
	struct diary diary;
	struct ff_error err;
};

/* Streams 0 and 1 have workers, stream 2 is the caller's. */
static void setup(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->diary.mutex, NULL);
	ck_assert_int_eq(backend->device.open(0, &b->dev, &b->err), FF_OK);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(backend->stream.open(b->dev, i < 2, &b->s[i], &b->err), FF_OK);
	ck_assert_int_eq(backend->event.open(b->dev, &b->ev, &b->err), FF_OK);
}

static void teardown(struct bench *b)
{
	backend->event.close(b->ev);
	for (int i = 0; i < 3; i++)
		backend->stream.close(b->s[i]);
	backend->device.close(b->dev);
	pthread_mutex_destroy(&b->diary.mutex);
}

static void call(struct bench *b, int stream, struct note *n)
{
	n->diary = &b->diary;
	ck_assert_int_eq(backend->stream.call(b->s[stream], write_note, n, &b->err), FF_OK);
}

static int sleep_a_while(void *arg, struct ff_error *err)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	(void)arg;
	(void)err;
	nanosleep(&pause, NULL);
	return FF_OK;
}

START_TEST(test_order)
{
	struct note *n = calloc(4000, sizeof(*n));
	struct bench b;

	setup(&b);
	for (int i = 0; i < 4000; i++) {
		n[i].entry = i;
		call(&b, 0, &n[i]);
	}
	ck_assert_int_eq(backend->stream.drain(b.s[0], &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 4000);
	for (int i = 0; i < 4000; i++)
		ck_assert_int_eq(b.diary.entry[i], i);
	teardown(&b);
	free(n);
}
END_TEST

/* Stream 1 must not pass the event before stream 0 has. */
START_TEST(test_event_orders_streams)
{
	for (int round = 0; round < 200; round++) {
		atomic_bool gate = false;
		struct note first = {.entry = 1, .gate = &gate}, second = {.entry = 2};
		struct bench b;

		setup(&b);
		call(&b, 0, &first);
		ck_assert_int_eq(backend->event.record(b.s[0], b.ev, &b.err), FF_OK);
		ck_assert_int_eq(backend->event.wait(b.s[1], b.ev, &b.err), FF_OK);
		call(&b, 1, &second);
		atomic_store(&gate, true);
		ck_assert_int_eq(backend->stream.drain(b.s[1], &b.err), FF_OK);
		ck_assert_uint_eq(b.diary.n, 2);
		ck_assert_int_eq(b.diary.entry[0], 1);
		ck_assert_int_eq(b.diary.entry[1], 2);
		teardown(&b);
	}
}
END_TEST

/* A wait is for the records before it; an event may be used again. */
START_TEST(test_event_again)
{
	atomic_bool gate = false;
	struct note free_note = {.entry = 1}, late = {.entry = 2, .gate = &gate},
		    last = {.entry = 3};
	struct bench b;

	setup(&b);
	ck_assert_int_eq(backend->event.wait(b.s[1], b.ev, &b.err), FF_OK); /* never recorded */
	call(&b, 1, &free_note);
	ck_assert_int_eq(backend->stream.drain(b.s[1], &b.err), FF_OK);
	ck_assert_int_eq(backend->event.record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 0, &late);
	ck_assert_int_eq(backend->stream.drain(b.s[1], &b.err), FF_OK); /* not held up by `late` */
	ck_assert_int_eq(backend->event.record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 1, &last);
	ck_assert_uint_eq(b.diary.n, 1);
	atomic_store(&gate, true);
	ck_assert_int_eq(backend->stream.drain(b.s[1], &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 3);
	ck_assert_int_eq(b.diary.entry[1], 2);
	ck_assert_int_eq(b.diary.entry[2], 3);
	teardown(&b);
}
END_TEST

START_TEST(test_inline)
{
	struct note n = {.entry = 5}, bad = {.entry = 6, .code = FF_E_IO};
	struct bench b;

	setup(&b);
	call(&b, 2, &n);
	ck_assert_uint_eq(b.diary.n, 1);
	ck_assert_int_eq(backend->event.record(b.s[2], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(b.s[2], b.ev, &b.err), FF_OK);
	bad.diary = &b.diary;
	ck_assert_int_eq(backend->stream.call(b.s[2], write_note, &bad, &b.err), FF_E_IO);
	ck_assert_str_eq(b.err.text, "note 6 failed");
	ck_assert_int_eq(backend->stream.drain(b.s[2], &b.err), FF_OK);
	teardown(&b);
}
END_TEST

/* The first failure is what drain returns; what follows it is skipped, and
 * whoever waits for the stream fails too instead of hanging. */
START_TEST(test_failure)
{
	struct note bad = {.entry = 7, .code = FF_E_RUN}, worse = {.entry = 8, .code = FF_E_IO};
	struct note after = {.entry = 9}, later = {.entry = 10};
	struct bench b;

	setup(&b);
	call(&b, 0, &bad);
	call(&b, 0, &worse);
	call(&b, 0, &after);
	ck_assert_int_eq(backend->event.record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 1, &after);
	ck_assert_int_eq(backend->stream.drain(b.s[1], &b.err), FF_E_RUN);
	ck_assert_str_eq(b.err.text, "note 7 failed");
	ck_assert_int_eq(backend->stream.drain(b.s[0], NULL), FF_E_RUN);
	ck_assert_uint_eq(b.diary.n, 0);
	call(&b, 0, &later); /* the failure was reported: the stream goes on */
	ck_assert_int_eq(backend->stream.drain(b.s[0], &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 1);
	teardown(&b);
}
END_TEST

/* Copies of the arguments are queued, not the arguments. */
START_TEST(test_transfers)
{
	float host[100], back[100], other[50];
	struct ff_region all = {.rank = 1, .hi = {100}}, half = {.rank = 1, .hi = {50}};
	struct ff_copy c = {.order = ff_order_plain,
			.source_region = all,
			.sink_region = half,
			.region = half};
	void *device, *sink;
	struct bench b;

	setup(&b);
	device = chosen_put(b.dev, b.s[0], NULL, sizeof(back));
	sink = chosen_put(b.dev, b.s[0], NULL, sizeof(other));
	c.source = device;
	c.sink = sink;
	for (int i = 0; i < 100; i++)
		host[i] = (float)i;
	ck_assert_int_eq(backend->move.fill(b.s[0], device, FF_F32, 100, 0, &b.err), FF_OK);
	ck_assert_int_eq(backend->move.upload(b.s[0], device, host, 80 * sizeof(float), &b.err),
			FF_OK);
	ck_assert_int_eq(backend->move.copy(b.s[0], &c, &b.err), FF_OK);
	memset(&c, 0, sizeof(c));
	ck_assert_int_eq(backend->move.download(b.s[0], back, device, sizeof(back), &b.err), FF_OK);
	chosen_get(b.s[0], other, sink, sizeof(other));
	for (int i = 0; i < 100; i++)
		ck_assert_float_eq(back[i], i < 80 ? (float)i : 0);
	for (int i = 0; i < 50; i++)
		ck_assert_float_eq(other[i], (float)i);
	backend->memory.free(b.dev, device);
	backend->memory.free(b.dev, sink);
	teardown(&b);
}
END_TEST

/* What two events tell is what went on between them, the stream's time and not the caller's. */
START_TEST(test_elapsed)
{
	atomic_bool gate = false;
	struct note first = {.entry = 1, .gate = &gate}, second = {.entry = 2};
	struct ff_event *timer[3];
	double us, all_us, start;
	struct bench b;

	setup(&b);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(backend->event.timer(b.dev, &timer[i], &b.err), FF_OK);
	call(&b, 0, &first);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(backend->event.record(b.s[0], timer[i], &b.err), FF_OK);
		if (i == 0)
			ck_assert_int_eq(backend->stream.call(b.s[0], sleep_a_while, NULL, &b.err),
					FF_OK);
		else if (i == 1)
			call(&b, 0, &second);
	}
	start = ff_clock_us();
	while (ff_clock_us() - start < 60000) /* before anything of it may begin */
		sched_yield();
	atomic_store(&gate, true);
	ck_assert_int_eq(backend->stream.drain(b.s[0], &b.err), FF_OK);
	ck_assert_int_eq(backend->event.elapsed(timer[0], timer[1], &us, &b.err), FF_OK);
	ck_assert_double_ge(us, 19000);
	ck_assert_int_eq(backend->event.elapsed(timer[0], timer[2], &all_us, &b.err), FF_OK);
	ck_assert_double_ge(all_us, us);
	ck_assert_double_lt(all_us, ff_clock_us() - start - 50000);
	ck_assert_int_eq(backend->event.elapsed(b.ev, timer[2], &us, &b.err), FF_E_RUN);
	for (int i = 0; i < 3; i++)
		backend->event.close(timer[i]);
	teardown(&b);
}
END_TEST

static int write_all(void *arg, struct ff_error *err)
{
	(void)err;
	memset(arg, 0x5a, 3 << 20);
	return FF_OK;
}

/* What is uploaded is what the host's memory has when the stream gets there; it may be more
 * than passes through pinned memory at a time. */
START_TEST(test_large_transfers)
{
	size_t bytes = ((size_t)19 << 20) + 12, wrong = 0;
	unsigned char *host = calloc(1, bytes), *back = calloc(1, bytes);
	void *device;
	struct bench b;

	setup(&b);
	for (size_t i = 0; i < bytes; i++)
		host[i] = (unsigned char)(i % 251);
	device = chosen_put(b.dev, b.s[0], NULL, bytes);
	ck_assert_int_eq(backend->stream.call(b.s[0], write_all, host + (7 << 20), &b.err), FF_OK);
	ck_assert_int_eq(backend->move.upload(b.s[0], device, host, bytes, &b.err), FF_OK);
	ck_assert_int_eq(backend->move.download(b.s[0], back, device, bytes, &b.err), FF_OK);
	ck_assert_int_eq(backend->stream.drain(b.s[0], &b.err), FF_OK);
	for (size_t i = 0; i < bytes; i++) {
		bool late = i >= 7 << 20 && i < 10 << 20;

		wrong += back[i] != (late ? 0x5a : i % 251);
	}
	ck_assert_uint_eq(wrong, 0); /* once: Check takes its time for each */
	backend->memory.free(b.dev, device);
	free(host);
	free(back);
	teardown(&b);
}
END_TEST

START_TEST(test_memory)
{
	char host[300];
	struct bench b;

	setup(&b);
	for (size_t bytes = 0; bytes < 300; bytes += 37) {
		void *memory;

		ck_assert_int_eq(backend->memory.alloc(b.dev, bytes, &memory, &b.err), FF_OK);
		ck_assert_uint_eq((uintptr_t)memory % 64, 0);
		chosen_get(b.s[0], host, memory, bytes);
		for (size_t i = 0; i < bytes; i++)
			ck_assert_int_eq(host[i], 0);
		backend->memory.free(b.dev, memory);
	}
	backend->memory.free(b.dev, NULL);
	backend->stream.close(NULL);
	backend->event.close(NULL);
	backend->kernel.close(NULL);
	backend->device.close(NULL);
	teardown(&b);
}
END_TEST

/* What a guest of the caller's thread does: waits until the gate opens. */
static int wait_at_gate(void *arg, struct ff_error *err)
{
	struct note *n = arg;

	while (!atomic_load(n->gate))
		ff_idle();
	return write_note(n, err);
}

static void post(struct bench *b, struct ff_stream *s, struct note *n)
{
	n->diary = &b->diary;
	ck_assert_int_eq(backend->stream.call(s, n->gate ? wait_at_gate : write_note, n, &b->err),
			FF_OK);
}

/* It goes on when it is told to, as far as it can, and where somebody waits for it. */
START_TEST(test_guest)
{
	atomic_bool gate = false;
	struct note n[] = {{.entry = 0}, {.entry = 1, .gate = &gate}, {.entry = 2}, {.entry = 3}};
	struct ff_stream *guest;
	struct bench b;

	setup(&b);
	ck_assert_int_eq(backend->stream.beside(b.dev, FF_BESIDE_TASKS, NULL, &guest, &b.err),
			FF_OK);
	post(&b, guest, &n[0]);
	ck_assert_uint_eq(b.diary.n, 0);
	backend->stream.go_on(guest);
	ck_assert_uint_eq(b.diary.n, 1);
	post(&b, guest, &n[1]);
	post(&b, guest, &n[2]);
	for (int i = 0; i < 3; i++)
		backend->stream.go_on(guest);
	ck_assert_uint_eq(b.diary.n, 1);
	atomic_store(&gate, true);
	ck_assert_int_eq(backend->event.record(guest, b.ev, &b.err), FF_OK);
	post(&b, guest, &n[3]);
	ck_assert_int_eq(backend->event.wait(b.s[2], b.ev, &b.err), FF_OK);
	ck_assert_uint_ge(b.diary.n, 3);
	ck_assert_int_eq(backend->stream.drain(guest, &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(b.diary.entry[i], i);
	backend->stream.close(guest);
	teardown(&b);
}
END_TEST

/* Two of one thread go on together: one that waits for the other, which waits for something else,
 * and who waits for either has both go on. */
START_TEST(test_two_guests)
{
	atomic_bool gate = false;
	struct note n[] = {{.entry = 0, .gate = &gate}, {.entry = 1}, {.entry = 2}, {.entry = 3}};
	struct ff_stream *guest[2];
	struct bench b;

	setup(&b);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(backend->stream.beside(b.dev, FF_BESIDE_TASKS, i ? guest[0] : NULL,
						 &guest[i], &b.err),
				FF_OK);
	post(&b, guest[0], &n[0]);
	ck_assert_int_eq(backend->event.record(guest[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(guest[1], b.ev, &b.err), FF_OK);
	post(&b, guest[1], &n[2]);
	for (int i = 0; i < 3; i++)
		backend->stream.go_on(guest[i % 2]);
	ck_assert_uint_eq(b.diary.n, 0);
	post(&b, guest[0], &n[1]);
	atomic_store(&gate, true);
	ck_assert_int_eq(backend->event.record(guest[1], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(backend->event.wait(b.s[2], b.ev, &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(b.diary.entry[i], i);
	backend->stream.close(guest[0]);
	post(&b, guest[1], &n[3]);
	ck_assert_int_eq(backend->stream.drain(guest[1], &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 4);
	backend->stream.close(guest[1]);
	teardown(&b);
}
END_TEST

/* What fails is told at the next drain, and what follows is skipped; one that is closed before it
 * is done is forgotten. */
START_TEST(test_guest_ends)
{
	atomic_bool gate = false;
	struct note n[] = {{.entry = 0, .code = FF_E_RUN}, {.entry = 1},
			{.entry = 2, .gate = &gate}, {.entry = 3}};
	struct ff_stream *guest;
	struct bench b;

	setup(&b);
	ck_assert_int_eq(backend->stream.beside(b.dev, FF_BESIDE_TASKS, NULL, &guest, &b.err),
			FF_OK);
	post(&b, guest, &n[0]);
	post(&b, guest, &n[1]);
	ck_assert_int_eq(backend->stream.drain(guest, &b.err), FF_E_RUN);
	ck_assert_str_eq(b.err.text, "note 0 failed");
	ck_assert_int_eq(backend->stream.drain(guest, &b.err), FF_OK);
	post(&b, guest, &n[2]);
	post(&b, guest, &n[3]);
	backend->stream.go_on(guest);
	ck_assert_uint_eq(b.diary.n, 0);
	backend->stream.close(guest);
	teardown(&b);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stream");
	TCase *t = tcase_create("streams");

	backend = chosen_backend();
	tcase_set_timeout(t, 0);
	tcase_add_test(t, test_order);
	tcase_add_test(t, test_event_orders_streams);
	tcase_add_test(t, test_event_again);
	if (chosen_is_cpu())
		tcase_add_test(t, test_inline);
	if (backend->stream.beside) {
		tcase_add_test(t, test_guest);
		tcase_add_test(t, test_two_guests);
		tcase_add_test(t, test_guest_ends);
	}
	tcase_add_test(t, test_failure);
	tcase_add_test(t, test_transfers);
	tcase_add_test(t, test_elapsed);
	tcase_add_test(t, test_large_transfers);
	tcase_add_test(t, test_memory);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
