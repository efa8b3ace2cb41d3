/* ffpack: folders of images, one a class, as arrays that ffrun trains on.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/source.h"
#include "ff/cli.h"
#include "ff/file.h"
#include "ff/json.h"
#include "ff/philox.h"
#include "ff/process.h"
#include "pack/folder.h"
#include "pack/image.h"
#include "process/stop.h"

#define SHARE_STREAM ff_philox_stream(UINT32_MAX, 1)

struct options {
	const char *folder, *output, *data, *labels;
	uint64_t size, test, seed;
};

/* An image on its way. */
struct item {
	const char *path;
	int32_t label;
	bool train;
};

struct pack {
	const struct options *opt;
	struct ff_arena arena;
	const char **class; /* by name, as in the first folder */
	uint32_t n_classes;
	struct item *item;
	uint32_t n, room;
	uint64_t packed[2]; /* for testing, for training */
	struct ff_pack_folder out;
};

/* ---- what is there ---- */

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int is_image(const struct dirent *e)
{
	return e->d_name[0] != '.' && ff_image_is(e->d_name);
}

/* Names in a folder, sorted by their bytes, in the arena. */
static int list(struct pack *p, const char *folder, int (*filter)(const struct dirent *),
		const char ***ret, uint32_t *n, struct ff_error *err)
{
	struct dirent **entry;
	int found = scandir(folder, &entry, filter, NULL);

	if (found < 0)
		return ff_fail(err, FF_E_INPUT, "%s: %s", folder, strerror(errno));
	*ret = ff_arena_array(&p->arena, (size_t)found, sizeof(**ret));
	*n = 0;
	for (int i = 0; i < found; i++) {
		const char *name = *ret ? ff_arena_strdup(&p->arena, entry[i]->d_name) : NULL;

		if (name)
			(*ret)[(*n)++] = name;
		free(entry[i]);
	}
	free(entry);
	return *ret && *n == (uint32_t)found ? FF_OK : ff_fail_memory(err);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int add_item(
		struct pack *p, const char *path, int32_t label, bool train, struct ff_error *err)
{
	if (p->n == p->room) {
		uint32_t room = p->room ? 2 * p->room : 1024;
		struct item *grown = realloc(p->item, room * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		p->item = grown;
		p->room = room;
	}
	/* drawn by the image's number, so that the share is of every class */
	if (p->opt->test)
		train = ff_philox_at(p->opt->seed, SHARE_STREAM, p->n) % 100 >= p->opt->test;
	p->item[p->n++] = (struct item){path, label, train};
	return FF_OK;
}

static int add_class(
		struct pack *p, const char *folder, int32_t label, bool train, struct ff_error *err)
{
	const char **name;
	uint32_t n;
	int code = list(p, folder, is_image, &name, &n, err);

	if (code < 0)
		return code;
	qsort(name, n, sizeof(*name), by_name);
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		const char *path = ff_spec_path(&p->arena, folder, name[i]);

		code = path ? add_item(p, path, label, train, err) : ff_fail_memory(err);
	}
	return code == FF_OK && !n ? ff_fail(err, FF_E_INPUT,
						     "%s: has no images (.ppm, .pgm, .pnm, .png, "
						     ".jpg, .jpeg)",
						     folder)
				   : code;
}

/* Folders of a folder, by name. */
static int list_folders(struct pack *p, const char *folder, const char ***ret, uint32_t *n,
		struct ff_error *err)
{
	uint32_t all;
	int code = list(p, folder, is_visible, ret, &all, err);

	*n = 0;
	if (code < 0)
		return code;
	qsort(*ret, all, sizeof(**ret), by_name);
	for (uint32_t i = 0; i < all; i++)
		if (ff_is_folder_in(folder, (*ret)[i]))
			(*ret)[(*n)++] = (*ret)[i];
	return FF_OK;
}

/* A name a line; what ends a line for some reader would shift those behind it. */
static int check_class(struct pack *p, const char *folder, const char *name, struct ff_error *err)
{
	char *legible = ff_arena_strdup(&p->arena, name);
	bool bad = false;

	if (!legible)
		return ff_fail_memory(err);
	for (char *c = legible; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127) {
			*c = '?';
			bad = true;
		}
	return bad ? ff_fail(err, FF_E_INPUT,
				     "%s: the name of class %s has a line break or control "
				     "character, and " FF_PACK_CLASSES " has a class a line",
				     folder, legible)
		   : FF_OK;
}

/* The classes are those of the folder that is for training. */
static int find_classes(struct pack *p, const char *folder, struct ff_error *err)
{
	int code = list_folders(p, folder, &p->class, &p->n_classes, err);

	for (uint32_t i = 0; i < p->n_classes && code == FF_OK; i++)
		code = check_class(p, folder, p->class[i], err);
	if (code < 0)
		return code;
	return p->n_classes ? FF_OK
			    : ff_fail(err, FF_E_INPUT, "%s: has no folders, one a class", folder);
}

/* Images of a class that is not trained would be left out. */
static int check_tests(struct pack *p, const char *folder, struct ff_error *err)
{
	const char **name;
	uint32_t n;
	int code = list_folders(p, folder, &name, &n, err);

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		code = check_class(p, folder, name[i], err);
		if (code == FF_OK && !bsearch(&name[i], p->class, p->n_classes, sizeof(*p->class),
						     by_name))
			code = ff_fail(err, FF_E_INPUT,
					"%s: has class %s, which is not among those for training",
					folder, name[i]);
	}
	return code;
}

static int add_set(struct pack *p, const char *folder, bool train, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n_classes && code == FF_OK; i++) {
		const char *class = ff_spec_path(&p->arena, folder, p->class[i]);

		if (!class)
			return ff_fail_memory(err);
		if (train || ff_is_folder(class))
			code = add_class(p, class, (int32_t)i, train, err);
	}
	return code;
}

/* Classes in the folder; or in its folders train, and test or val. */
static int find_images(struct pack *p, struct ff_error *err)
{
	const char *folder = p->opt->folder,
		   *test = ff_is_folder_in(folder, "test") ? "test" : "val";
	bool split = ff_is_folder_in(folder, "train") && ff_is_folder_in(folder, test);
	const char *first = split ? ff_spec_path(&p->arena, folder, "train") : folder;
	const char *second = ff_spec_path(&p->arena, folder, test);
	int code;

	if (!first || !second)
		return ff_fail_memory(err);
	if (split && p->opt->test)
		return ff_fail(err, FF_E_INPUT, "--test: %s has a folder %s of its own", folder,
				test);
	if ((code = find_classes(p, first, err)) < 0 ||
			(split && (code = check_tests(p, second, err)) < 0) ||
			(code = add_set(p, first, true, err)) < 0)
		return code;
	return split ? add_set(p, second, false, err) : FF_OK;
}

/* ---- what becomes of it ---- */

/* The head of a .npy file (numpy.lib.format, version 1), padded to 128 bytes. */
static int write_head(struct ff_file *f, const char *type, const char *shape, struct ff_error *err)
{
	static const uint8_t start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0x76, 0};
	char head[128];
	int n;

	memset(head, ' ', sizeof(head));
	memcpy(head, start, sizeof(start));
	n = snprintf(head + 10, sizeof(head) - 10,
			"{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
	head[10 + n] = ' ';
	head[sizeof(head) - 1] = '\n';
	return ff_file_write(f, head, sizeof(head), err);
}

static int write_images(struct pack *p, bool train, struct ff_file *f, struct ff_error *err)
{
	size_t bytes = 3 * (size_t)(p->opt->size * p->opt->size);
	uint8_t *planes = malloc(bytes);
	int code = planes ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < p->n && code == FF_OK; i++) {
		struct ff_image image = {0};

		if (p->item[i].train != train)
			continue;
		if (ff_stop_asked()) {
			code = ff_fail(err, FF_E_RUN, "stopped; nothing was written");
			break;
		}
		code = ff_image_load(p->item[i].path, &image, err);
		if (code == FF_OK)
			code = ff_image_square(&image, (int32_t)p->opt->size, planes, err);
		if (code == FF_OK)
			code = ff_file_write(f, planes, bytes, err);
		ff_image_free(&image);
	}
	free(planes);
	return code;
}

static int write_labels(struct pack *p, bool train, struct ff_file *f, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n && code == FF_OK; i++)
		if (p->item[i].train == train)
			code = ff_file_write(f, &p->item[i].label, sizeof(p->item[i].label), err);
	return code;
}

static int write_array(struct pack *p, bool train, bool images, struct ff_error *err)
{
	const char *path = ff_arena_printf(&p->arena, "%s/%s/%s.npy", p->out.temp,
			train ? "train" : "test", images ? p->opt->data : p->opt->labels);
	struct ff_file f = {.fd = -1};
	char shape[96];
	int code = path ? ff_file_open(path, &f, err) : ff_fail_memory(err);

	if (images)
		snprintf(shape, sizeof(shape), "%" PRIu64 ", 3, %" PRIu64 ", %" PRIu64,
				p->packed[train], p->opt->size, p->opt->size);
	else
		snprintf(shape, sizeof(shape), "%" PRIu64 ",", p->packed[train]);
	if (code == FF_OK)
		code = write_head(&f, images ? "|u1" : "<i4", shape, err);
	if (code == FF_OK)
		code = images ? write_images(p, train, &f, err) : write_labels(p, train, &f, err);
	if (code == FF_OK)
		code = ff_file_commit(&f, err);
	ff_file_drop(&f);
	return code;
}

static int make_folder(const char *path, struct ff_error *err)
{
	if (!path)
		return ff_fail_memory(err);
	return mkdir(path, 0777) == 0 ? FF_OK
				      : ff_fail(err, FF_E_IO, "%s: %s", path, strerror(errno));
}

static int write_set(struct pack *p, bool train, struct ff_error *err)
{
	int code = make_folder(ff_spec_path(&p->arena, p->out.temp, train ? "train" : "test"), err);

	if (code == FF_OK)
		code = write_array(p, train, true, err);
	return code < 0 ? code : write_array(p, train, false, err);
}

/* Their numbers are the lines'. */
static int write_classes(struct pack *p, struct ff_error *err)
{
	const char *path = ff_spec_path(&p->arena, p->out.temp, FF_PACK_CLASSES);
	struct ff_out out;
	int code;

	if (!path)
		return ff_fail_memory(err);
	ff_out_init(&out);
	for (uint32_t i = 0; i < p->n_classes; i++)
		ff_out_printf(&out, "%s\n", p->class[i]);
	code = ff_out_save(&out, path, err);
	ff_out_finish(&out);
	return code;
}

/* An input's name, which becomes a file's. */
static int check_name(const char *option, const char *name, struct ff_error *err)
{
	return *name && !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					   "0123456789_.:-")]
			       ? FF_OK
			       : ff_fail(err, FF_E_INPUT,
						 "%s %.100s: expected the name of an input, of "
						 "letters, digits and _.:-",
						 option, name);
}

static int check_options(const struct options *o, struct ff_error *err)
{
	int code;

	if (!o->output)
		return ff_fail(err, FF_E_INPUT, "expected -o FOLDER");
	if (o->size < 1 || o->size > 8192 || o->test > 99)
		return ff_fail(err, FF_E_INPUT,
				"expected --size from 1 to 8192 and --test from 0 to 99");
	if ((code = check_name("--data", o->data, err)) < 0 ||
			(code = check_name("--labels", o->labels, err)) < 0)
		return code;
	if (!strcmp(o->data, o->labels))
		return ff_fail(err, FF_E_INPUT, "--data and --labels are the same, %s", o->data);
	return FF_OK;
}

static int write_all(struct pack *p, struct ff_error *err)
{
	int code = write_set(p, true, err);

	if (code == FF_OK && p->packed[0])
		code = write_set(p, false, err);
	return code < 0 ? code : write_classes(p, err);
}

static int pack(struct pack *p, struct ff_error *err)
{
	int code;

	if ((code = check_options(p->opt, err)) < 0 || (code = find_images(p, err)) < 0)
		return code;
	for (uint32_t i = 0; i < p->n; i++)
		p->packed[p->item[i].train]++;
	if (!p->packed[1])
		return ff_fail(err, FF_E_INPUT,
				"--test %" PRIu64 ": draws all of %u images, so that none is for "
				"training",
				p->opt->test, p->n);
	code = ff_pack_folder_open(p->opt->output, p->opt->folder, &p->out, err);
	if (code == FF_OK)
		code = write_all(p, err);
	if (code == FF_OK)
		code = ff_pack_folder_commit(&p->out, err);
	ff_pack_folder_drop(&p->out);
	if (code == FF_OK)
		printf("%u classes, %" PRIu64 " images for training, %" PRIu64 " for testing\n",
				p->n_classes, p->packed[1], p->packed[0]);
	return code;
}

static int parse(int argc, char **argv, struct options *o, bool *done, struct ff_error *err)
{
	const struct ff_option options[] = {
			{"-o", FF_OPTION_TEXT, &o->output, "FOLDER", "where the arrays go"},
			{"--size", FF_OPTION_COUNT, &o->size, "N",
					"height and width that all images get (224)"},
			{"--test", FF_OPTION_COUNT, &o->test, "PERCENT",
					"of the images, drawn, for testing (0)"},
			{"--seed", FF_OPTION_COUNT, &o->seed, "N", "of what is drawn (1)"},
			{"--data", FF_OPTION_TEXT, &o->data, "NAME",
					"the graph's input of images (data)"},
			{"--labels", FF_OPTION_TEXT, &o->labels, "NAME",
					"the graph's input of labels (labels)"},
	};
	const struct ff_command command = {
			.name = "ffpack",
			.usage = "FOLDER -o FOLDER [options]",
			.summary = "Packs folders of images, one a class, for ffrun --data.",
			.details = "FOLDER has a folder a class, or folders train and test (or "
				   "val) "
				   "that have them.\n"
				   "Images are PNM, PNG and JPEG; each is scaled so that its "
				   "shorter "
				   "side is N, and its\n"
				   "middle is taken. Classes are numbered by name; classes.txt "
				   "lists "
				   "them.\n"
				   "\n"
				   "  ffpack flowers -o packed --size 128 --test 10\n"
				   "  ffzoo resnet50 --set image=128 --set classes=5 --batch 32 -o "
				   "net.json\n"
				   "  ffrun net.json data-parallel --data packed --epochs 10 "
				   "--test\n"
				   "\n"
				   "Exit status: 0 done, 1 failed, 2 bad usage or bad images.",
			.options = options,
			.n_options = sizeof(options) / sizeof(options[0]),
			.min_args = 1,
			.max_args = 1,
	};
	uint32_t n_args;

	return ff_cli_parse(&command, argc, argv, &o->folder, &n_args, done, err);
}

/* From a handler, while there is nothing to undo. */
static void leave(void)
{
	_exit(1);
}

int main(int argc, char **argv)
{
	static const struct ff_command name = {.name = "ffpack"};
	struct options o = {.data = "data", .labels = "labels", .size = 224, .seed = 1};
	struct pack p = {.opt = &o};
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_process_begin(name.name);
	ff_stop_listen(name.name, FF_LISTENER_ALONE, leave);
	code = parse(argc, argv, &o, &done, &err);
	ff_arena_init(&p.arena);
	ff_stop_defer();
	if (code == FF_OK && !done)
		code = pack(&p, &err);
	free(p.item);
	ff_arena_finish(&p.arena);
	return ff_cli_end(&name, code, &err);
}
