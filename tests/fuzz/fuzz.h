/* Fuzzing of what reads files.  A target is a function of bytes that must neither crash nor take
 * for ever, whatever they are.  Built with -Dfuzz=enabled by clang, each is a libFuzzer program
 * (https://llvm.org/docs/LibFuzzer.html); in the normal tests replay.c gives it the files of
 * tests/fuzz/corpus.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FUZZ_H
#define FF_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "ff/graph.h"

#define FF_FUZZ_MEMORY ((size_t)1 << 28) /* of an arena: a header may ask for anything */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of a file in memory that holds the bytes; the same one each time. */
const char *ff_fuzz_file(const uint8_t *data, size_t size);
/* A graph in JSON that is known to be good; its memory is the arena's. */
void ff_fuzz_graph(const char *text, struct ff_arena *a, struct ff_graph *ret);
/* What ends a target that has not been told why: an error without a sentence, or with two. */
void ff_fuzz_check(int code, const struct ff_error *err);
/* Opens data and reads the first batches of training and testing. */
void ff_fuzz_data(const char *spec, const struct ff_graph *g);

#endif
