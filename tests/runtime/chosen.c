/* The backend that tests run on.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <string.h>

#include "ff/backends.h"

const struct ff_backend *chosen_backend(void)
{
	const char *name = getenv("FF_TEST_BACKEND");
	const struct ff_backend *b = ff_backend_find(name ? name : "cpu");

	if (!b) { /* no test may be running yet */
		fprintf(stderr, "FF_TEST_BACKEND=%s: there is no such backend\n", name);
		exit(EXIT_FAILURE);
	}
	return b;
}

bool chosen_is_cpu(void)
{
	return chosen_backend() == &ff_backend_cpu;
}

enum ff_dtype chosen_rounded(void)
{
	struct ff_error err;

	return ff_backend_computes(chosen_backend(), FF_BF16, &err) == FF_OK ? FF_BF16 : FF_F32;
}

void chosen_set(struct ff_stream *s, void *device, const void *host, size_t bytes)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_error err;

	ck_assert_msg(b->move.upload(s, device, host, bytes, &err) == FF_OK, "%s", err.text);
	ck_assert_msg(b->stream.drain(s, &err) == FF_OK, "%s", err.text);
}

void *chosen_put(struct ff_device *dev, struct ff_stream *s, const void *host, size_t bytes)
{
	void *device, *any = host ? NULL : malloc(bytes ? bytes : 1);
	struct ff_error err;

	ck_assert_msg(chosen_backend()->memory.alloc(dev, bytes, &device, &err) == FF_OK, "%s",
			err.text);
	if (any)
		memset(any, 0xff, bytes);
	chosen_set(s, device, host ? host : any, bytes);
	free(any);
	return device;
}

void chosen_get(struct ff_stream *s, void *host, const void *device, size_t bytes)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_error err;

	ck_assert_msg(b->move.download(s, host, device, bytes, &err) == FF_OK, "%s", err.text);
	ck_assert_msg(b->stream.drain(s, &err) == FF_OK, "%s", err.text);
}

int chosen_main(Suite *(*suite)(void))
{
	const struct ff_backend *b = chosen_backend();
	struct ff_device *dev = NULL;
	struct ff_error err;

	if (b->device.open(0, &dev, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	b->device.close(dev);
	return ff_check_main(suite());
}
