/* Memory of the CPU backend: where it lies, what is in it, on which pages.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/backend.h"
#include "ff/backends.h"

#define LARGE_PAGE ((size_t)2 << 20)

static const struct ff_backend *backend;

static void *take(struct ff_device *dev, size_t bytes)
{
	struct ff_error err = {0};
	void *memory = NULL;

	ck_assert_int_eq(backend->memory.alloc(dev, bytes, &memory, &err), FF_OK);
	ck_assert_ptr_nonnull(memory);
	return memory;
}

START_TEST(test_zeros_on_lines)
{
	static const size_t bytes[] = {
			0, 1, 63, 64, 4097, LARGE_PAGE - 1, LARGE_PAGE, 3 * LARGE_PAGE + 5};
	struct ff_error err = {0};
	struct ff_device *dev;

	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		unsigned char *memory = take(dev, bytes[i]);

		ck_assert_uint_eq((uintptr_t)memory % 64, 0);
		for (size_t k = 0; k < bytes[i]; k++)
			if (memory[k])
				ck_abort_msg("byte %zu of %zu is not 0", k, bytes[i]);
		memset(memory, 1, bytes[i]);
		backend->memory.free(dev, memory);
	}
	backend->device.close(dev);
}
END_TEST

/* Whether the kernel was told that the page there may be a large one: its flag "hg". */
static bool may_be_large(const void *page)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	bool inside = false, large = false;
	char line[512];

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		uintptr_t from, to;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			inside = (uintptr_t)page >= from && (uintptr_t)page < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			large = strstr(line, " hg") != NULL;
	}
	fclose(f);
	return large;
}

START_TEST(test_large_pages)
{
	struct ff_error err = {0};
	struct ff_device *dev;
	char *memory;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		return; /* this kernel has none */
	ck_assert_int_eq(backend->device.open(0, &dev, &err), FF_OK);
	memory = take(dev, 8 * LARGE_PAGE);
	ck_assert_uint_eq((uintptr_t)memory % LARGE_PAGE, 0);
	ck_assert(may_be_large(memory));
	ck_assert(may_be_large(memory + 8 * LARGE_PAGE - 1));
	backend->memory.free(dev, memory);
	backend->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("memory");
	TCase *t = tcase_create("memory");

	tcase_add_test(t, test_zeros_on_lines);
	tcase_add_test(t, test_large_pages);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	backend = ff_backend_find("cpu");
	return ff_check_main(suite());
}
