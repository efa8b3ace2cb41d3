/* A target without a fuzzer: gives it all files of a folder, in the order of their names, and each
 * cut short and with bytes changed, too.  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/philox.h"
#include "fuzz.h"

#define MOST_BYTES 65536
#define CHANGES 40 /* of each file */

static uint8_t bytes[MOST_BYTES], changed[MOST_BYTES];

static size_t read_file(const char *folder, const char *name)
{
	char path[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "rb");
	if (!f)
		return 0;
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	return n;
}

static void change(size_t n, struct ff_random *r)
{
	uint32_t times = 1 + ff_random_below(r, 4);

	memcpy(changed, bytes, n);
	for (uint32_t i = 0; i < times && n; i++)
		changed[ff_random_below(r, (uint32_t)n)] = (uint8_t)ff_random_u32(r);
	if (n && ff_random_below(r, 4) == 0)
		n = ff_random_below(r, (uint32_t)n);
	LLVMFuzzerTestOneInput(changed, n);
}

int main(int argc, char **argv)
{
	struct ff_random r = {1, 0, 0};
	struct dirent **entry;
	int n = argc == 2 ? scandir(argv[1], &entry, NULL, alphasort) : -1, tried = 0;

	if (n < 0) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return EXIT_FAILURE;
	}
	for (int i = 0; i < n; i++) {
		size_t size;

		if (entry[i]->d_name[0] != '.') {
			size = read_file(argv[1], entry[i]->d_name);
			LLVMFuzzerTestOneInput(bytes, size);
			for (int k = 0; k < CHANGES; k++)
				change(size, &r);
			printf("ok %d - %s\n", ++tried, entry[i]->d_name);
			fflush(stdout);
		}
		free(entry[i]);
	}
	free(entry);
	printf("1..%d\n", tried);
	return tried ? EXIT_SUCCESS : EXIT_FAILURE;
}
