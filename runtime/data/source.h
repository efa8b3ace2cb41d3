/* A source of samples, behind ff_dataset: what every format of data has in common.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_SOURCE_H
#define FF_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/error.h"
#include "ff/graph.h"

/* What one of the graph's inputs wants of a sample. */
struct ff_field {
	uint32_t node, stream; /* what is drawn for it is drawn by that */
	const char *name;      /* the node's */
	bool whole;  /* int32: ids or labels from 0 to classes - 1, or `none`; else real numbers */
	bool target; /* read by losses alone, to compare with: labels, or numbers */
	bool compared; /* read by a loss to compare with, and perhaps by others */
	bool binary;   /* real numbers that a loss takes for 0 or 1 */
	int32_t classes;
	int32_t none;  /* a label that counts for nothing */
	uint32_t rank; /* all axes but the first */
	int32_t shape[FF_MAX_RANK];
	int64_t elements; /* of one sample */
};

struct ff_fields {
	const char *graph;
	uint32_t n;
	struct ff_field *field;
};

/* Of which input and of which sample something is read. */
struct ff_pick {
	uint32_t field;
	bool train;
	int64_t sample;
};

/* One thread at a time reads.  `n` values of one sample from its row-major element `first` on
 * go to out[0], out[step], out[2 * step] ...  What cannot be read fails with FF_E_IO, what is
 * no class of the input with FF_E_INPUT. */
struct ff_source {
	int64_t samples[2]; /* for testing (there may be none), for training */
	bool ignores;       /* labels may be `none`, targets no number */
	int (*reals)(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
			float *out, int64_t step, struct ff_error *err);
	int (*wholes)(struct ff_source *s, const struct ff_pick *p, int64_t first, int32_t n,
			int32_t *out, int64_t step, struct ff_error *err);
	void (*close)(struct ff_source *s);
};

/* A data set as the user names it: FORMAT[,OPTION=VALUE]...:WHAT, or just WHAT. */
#define FF_SPEC_OPTIONS 4
#define FF_FORMAT_HOLDS 4
struct ff_spec {
	const char *text; /* all of it, for errors */
	const struct ff_format *format;
	const char *what; /* a path, or what the format makes of it; NULL: not said */
	const char *value[FF_SPEC_OPTIONS]; /* by the format's options; NULL: not given */
};

/* What a format makes a source of.  The arena, the fields and the spec outlive the source. */
struct ff_opening {
	const struct ff_spec *spec;
	const struct ff_fields *fields;
	struct ff_arena *arena;
	uint64_t seed;
};

/* A format is a row.  On failure `open` leaves `ret` untouched. */
struct ff_format {
	const char *name;
	const char *what; /* for help: what stands behind the colon */
	const char *option[FF_SPEC_OPTIONS];
	const char *holds[FF_FORMAT_HOLDS]; /* files of a folder, by fnmatch; a slash is one */
	bool (*is)(const char *path); /* whether this is one, where no format is named; or NULL */
	int (*open)(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err);
};
extern const struct ff_format ff_format_synthetic, ff_format_idx, ff_format_cifar10,
		ff_format_numpy, ff_format_tokens;

/* spec.c.  Memory is the arena's.  A plain name also means a folder of Debian's dataset-*
 * packages. */
int ff_spec_parse(const char *text, struct ff_arena *a, struct ff_spec *ret, struct ff_error *err);
/* The format's option `i` as a number from `least` to `most`; the preset where it was not given. */
int ff_spec_number(const struct ff_spec *s, uint32_t i, int64_t least, int64_t most, int64_t preset,
		int64_t *ret, struct ff_error *err);
/* FOLDER/NAME in the arena; NULL where there is no memory left. */
const char *ff_spec_path(struct ff_arena *a, const char *folder, const char *name);
bool ff_is_file(const char *folder, const char *name);
bool ff_is_folder(const char *path);
bool ff_is_folder_in(const char *folder, const char *name);

/* fields.c.  The inputs of `g`. */
int ff_fields_of(const struct ff_graph *g, struct ff_arena *a, struct ff_fields *ret,
		struct ff_error *err);
/* For sets of images with one label each: which inputs those are.  FF_E_INPUT where the graph
 * wants anything else. */
int ff_fields_labelled(
		const struct ff_opening *o, uint32_t *image, uint32_t *label, struct ff_error *err);
/* Whether a file's samples are the input's: the same axes but for those of one element; or the
 * input has one axis of as many elements. */
bool ff_field_fits(const struct ff_field *f, uint32_t rank, const int64_t *shape);
/* 1x28x28 */
#define FF_SHAPE_TEXT 192
void ff_sample_text(uint32_t rank, const int64_t *shape, char ret[FF_SHAPE_TEXT]);
void ff_field_text(const struct ff_field *f, char ret[FF_SHAPE_TEXT]);

#endif
