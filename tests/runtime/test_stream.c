/* Streams and events of the CPU backend: order, waiting, failures.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "ff/backend.h"

static const struct ff_backend *const cpu = &ff_backend_cpu;

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
	ck_assert_int_eq(cpu->open(0, &b->dev, &b->err), FF_OK);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(cpu->stream(b->dev, i < 2, &b->s[i], &b->err), FF_OK);
	ck_assert_int_eq(cpu->event(b->dev, &b->ev, &b->err), FF_OK);
}

static void teardown(struct bench *b)
{
	cpu->event_close(b->ev);
	for (int i = 0; i < 3; i++)
		cpu->stream_close(b->s[i]);
	cpu->close(b->dev);
	pthread_mutex_destroy(&b->diary.mutex);
}

static void call(struct bench *b, int stream, struct note *n)
{
	n->diary = &b->diary;
	ck_assert_int_eq(cpu->call(b->s[stream], write_note, n, &b->err), FF_OK);
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
	ck_assert_int_eq(cpu->drain(b.s[0], &b.err), FF_OK);
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
		ck_assert_int_eq(cpu->record(b.s[0], b.ev, &b.err), FF_OK);
		ck_assert_int_eq(cpu->wait(b.s[1], b.ev, &b.err), FF_OK);
		call(&b, 1, &second);
		atomic_store(&gate, true);
		ck_assert_int_eq(cpu->drain(b.s[1], &b.err), FF_OK);
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
	ck_assert_int_eq(cpu->wait(b.s[1], b.ev, &b.err), FF_OK); /* never recorded */
	call(&b, 1, &free_note);
	ck_assert_int_eq(cpu->drain(b.s[1], &b.err), FF_OK);
	ck_assert_int_eq(cpu->record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(cpu->wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 0, &late);
	ck_assert_int_eq(cpu->drain(b.s[1], &b.err), FF_OK); /* not held up by `late` */
	ck_assert_int_eq(cpu->record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(cpu->wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 1, &last);
	ck_assert_uint_eq(b.diary.n, 1);
	atomic_store(&gate, true);
	ck_assert_int_eq(cpu->drain(b.s[1], &b.err), FF_OK);
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
	ck_assert_int_eq(cpu->record(b.s[2], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(cpu->wait(b.s[2], b.ev, &b.err), FF_OK);
	bad.diary = &b.diary;
	ck_assert_int_eq(cpu->call(b.s[2], write_note, &bad, &b.err), FF_E_IO);
	ck_assert_str_eq(b.err.text, "note 6 failed");
	ck_assert_int_eq(cpu->drain(b.s[2], &b.err), FF_OK);
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
	ck_assert_int_eq(cpu->record(b.s[0], b.ev, &b.err), FF_OK);
	ck_assert_int_eq(cpu->wait(b.s[1], b.ev, &b.err), FF_OK);
	call(&b, 1, &after);
	ck_assert_int_eq(cpu->drain(b.s[1], &b.err), FF_E_RUN);
	ck_assert_str_eq(b.err.text, "note 7 failed");
	ck_assert_int_eq(cpu->drain(b.s[0], NULL), FF_E_RUN);
	ck_assert_uint_eq(b.diary.n, 0);
	call(&b, 0, &later); /* the failure was reported: the stream goes on */
	ck_assert_int_eq(cpu->drain(b.s[0], &b.err), FF_OK);
	ck_assert_uint_eq(b.diary.n, 1);
	teardown(&b);
}
END_TEST

/* Copies of the arguments are queued, not the arguments. */
START_TEST(test_transfers)
{
	float host[100], device[100], back[100], other[50];
	struct ff_region all = {.rank = 1, .hi = {100}}, half = {.rank = 1, .hi = {50}};
	struct ff_copy c = {.source = device,
			.sink = other,
			.order = ff_order_plain,
			.source_region = all,
			.sink_region = half,
			.region = half};
	struct bench b;

	setup(&b);
	for (int i = 0; i < 100; i++)
		host[i] = (float)i;
	ck_assert_int_eq(cpu->fill(b.s[0], device, FF_F32, sizeof(device) / sizeof(*device), 0,
					 &b.err),
			FF_OK);
	ck_assert_int_eq(cpu->upload(b.s[0], device, host, 80 * sizeof(float), &b.err), FF_OK);
	ck_assert_int_eq(cpu->copy(b.s[0], &c, &b.err), FF_OK);
	memset(&c, 0, sizeof(c));
	ck_assert_int_eq(cpu->download(b.s[0], back, device, sizeof(back), &b.err), FF_OK);
	ck_assert_int_eq(cpu->drain(b.s[0], &b.err), FF_OK);
	for (int i = 0; i < 100; i++)
		ck_assert_float_eq(back[i], i < 80 ? (float)i : 0);
	for (int i = 0; i < 50; i++)
		ck_assert_float_eq(other[i], (float)i);
	teardown(&b);
}
END_TEST

START_TEST(test_memory)
{
	struct bench b;

	setup(&b);
	for (size_t bytes = 0; bytes < 300; bytes += 37) {
		void *memory;

		ck_assert_int_eq(cpu->alloc(b.dev, bytes, &memory, &b.err), FF_OK);
		ck_assert_uint_eq((uintptr_t)memory % 64, 0);
		for (size_t i = 0; i < bytes; i++)
			ck_assert_int_eq(((char *)memory)[i], 0);
		cpu->free(b.dev, memory);
	}
	cpu->free(b.dev, NULL);
	cpu->stream_close(NULL);
	cpu->event_close(NULL);
	cpu->kernel_close(NULL);
	cpu->close(NULL);
	teardown(&b);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stream");
	TCase *t = tcase_create("cpu");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, test_order);
	tcase_add_test(t, test_event_orders_streams);
	tcase_add_test(t, test_event_again);
	tcase_add_test(t, test_inline);
	tcase_add_test(t, test_failure);
	tcase_add_test(t, test_transfers);
	tcase_add_test(t, test_memory);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
