/* Captured work: a CUDA graph, and what streams are to ask once it has run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <stdlib.h>

#include "captured.h"
#include "enter.h"
#include "stream.h"

static int captured_figures(struct ff_device *dev, struct ff_figures **ret, struct ff_error *err)
{
	int code = ff_cuda_enter(dev, err);

	if (code == FF_OK && !dev->figures)
		code = ff_cuda_check(cudaMalloc((void **)&dev->figures, sizeof(*dev->figures)), dev,
				"provide memory", err);
	if (code == FF_OK)
		*ret = dev->figures;
	return code;
}

static void captured_close(struct ff_captured *c)
{
	if (!c)
		return;
	ff_cuda_enter(c->dev, NULL);
	if (c->graph)
		cudaGraphExecDestroy(c->graph);
	free(c->unchecked);
	free(c);
}

/* Other threads may allocate meanwhile: what is illegal is so for this one alone. */
static int captured_begin(struct ff_stream *s, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	struct ff_captured *c = calloc(1, sizeof(*c));
	int code;

	if (!c)
		return ff_fail_memory(err);
	c->dev = dev;
	code = ff_cuda_enter(dev, err);
	if (code == FF_OK)
		code = ff_cuda_check(cudaStreamBeginCapture(ff_stream_queue(s),
						     cudaStreamCaptureModeThreadLocal),
				dev, "begin a capture", err);
	if (code < 0) {
		captured_close(c);
		return code;
	}
	dev->capturing = c;
	return FF_OK;
}

static int captured_end(struct ff_stream *s, struct ff_captured **ret, struct ff_error *err)
{
	struct ff_device *dev = ff_stream_device(s);
	struct ff_captured *c = dev->capturing;
	cudaGraph_t graph = NULL;
	int code = ff_cuda_enter(dev, err);

	dev->capturing = NULL;
	if (code == FF_OK)
		code = ff_cuda_check(cudaStreamEndCapture(ff_stream_queue(s), &graph), dev,
				"end a capture", err);
	if (code == FF_OK && ret)
		code = ff_cuda_check(cudaGraphInstantiate(&c->graph, graph, 0), dev,
				"make a graph of what it captured", err);
	if (graph)
		cudaGraphDestroy(graph);
	if (code < 0 || !ret) {
		captured_close(c);
		return code;
	}
	*ret = c;
	return FF_OK;
}

static int captured_launch(struct ff_stream *s, struct ff_captured *c, struct ff_error *err)
{
	int code = ff_cuda_enter(c->dev, err);

	for (uint32_t i = 0; i < c->n_unchecked && code == FF_OK; i++)
		code = ff_stream_check_later(s, c->unchecked[i], err);
	if (c->watcher)
		ff_stream_watch(s, c->watcher);
	if (code == FF_OK)
		code = ff_cuda_check(cudaGraphLaunch(c->graph, ff_stream_queue(s)), c->dev,
				"launch a graph", err);
	return code;
}

const struct ff_captures ff_cuda_captures = {
		.name = "a CUDA graph",
		.figures = captured_figures,
		.begin = captured_begin,
		.end = captured_end,
		.launch = captured_launch,
		.close = captured_close,
		.await = ff_cuda_await,
};
