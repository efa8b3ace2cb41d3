/* Prints what kernels take by a model of a device: of each line of standard input, "CLASS key=value
 * ...", the microseconds.  bench/fit_devices.py fits models by it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/cli.h"
#include "ff/device_model.h"

static int read_word(const char *word, struct ff_kernel_shape *s, struct ff_error *err)
{
	double flags[4] = {s->back, s->winograd, s->pass, s->type == FF_BF16};
	const struct {
		const char *key;
		double *at;
	} fields[] = {{"bytes", &s->bytes}, {"m", &s->m}, {"n", &s->n}, {"k", &s->k},
			{"count", &s->count}, {"share", &s->share}, {"taps", &s->taps},
			{"stride", &s->stride}, {"back", &flags[0]}, {"winograd", &flags[1]},
			{"pass", &flags[2]}, {"bfloat16", &flags[3]}};
	size_t n = strcspn(word, "="), i = 0;

	while (i < sizeof(fields) / sizeof(*fields) &&
			(strlen(fields[i].key) != n || memcmp(fields[i].key, word, n) != 0))
		i++;
	if (i == sizeof(fields) / sizeof(*fields) || !word[n])
		return ff_fail(err, FF_E_INPUT, "\"%.40s\" is no key=value of a kernel", word);
	*fields[i].at = atof(word + n + 1);
	s->back = flags[0] > 0;
	s->winograd = flags[1] > 0;
	s->pass = (enum ff_conv_pass)flags[2];
	s->type = flags[3] > 0 ? FF_BF16 : FF_F32;
	return FF_OK;
}

static int read_shape(char *line, struct ff_kernel_shape *s, struct ff_error *err)
{
	char *word = strtok(line, " \n");
	uint32_t c = 0;
	int code = FF_OK;

	*s = (struct ff_kernel_shape){
			.count = 1, .share = 1, .taps = 1, .stride = 1, .brief = true};
	while (c < FF_KERNEL_CLASS_COUNT && word &&
			strcmp(ff_kernel_class_name((enum ff_kernel_class)c), word) != 0)
		c++;
	if (!word || c == FF_KERNEL_CLASS_COUNT)
		return ff_fail(err, FF_E_INPUT, "\"%.40s\" is no class of kernels",
				word ? word : "");
	s->class = (enum ff_kernel_class)c;
	while (code == FF_OK && (word = strtok(NULL, " \n")))
		code = read_word(word, s, err);
	return code;
}

static int run(const char *path, struct ff_arena *a, struct ff_error *err)
{
	struct ff_device_model m;
	struct ff_kernel_shape s;
	char line[512];
	int code = ff_device_model_load(path, a, &m, err);

	while (code == FF_OK && fgets(line, sizeof(line), stdin)) {
		code = read_shape(line, &s, err);
		if (code == FF_OK)
			printf("%.17g\n", ff_device_model_us(&m, &s, NULL));
	}
	return code;
}

int main(int argc, char **argv)
{
	const struct ff_command command = {.name = "bench-device",
			.usage = "MODEL < KERNELS",
			.summary = "Prints what kernels take by a model of a device.",
			.min_args = 1,
			.max_args = 1};
	struct ff_arena arena;
	struct ff_error err = {0};
	const char *path;
	uint32_t n;
	bool done = false;
	int code;

	ff_arena_init(&arena);
	code = ff_cli_parse(&command, argc, argv, &path, &n, &done, &err);
	if (code == FF_OK && !done)
		code = run(path, &arena, &err);
	ff_arena_finish(&arena);
	return ff_cli_end(&command, code, &err);
}
