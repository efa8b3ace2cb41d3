/* Capture of streams, and graphs, whose nodes run in any order that their edges allow.
 * SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <unistd.h>

#include "graph.hpp"

struct CUgraph_st {
	std::vector<twin::Node> nodes;
};

struct CUgraphExec_st {
	std::shared_ptr<std::vector<twin::Node>> nodes;
};

namespace twin
{

static std::vector<std::shared_ptr<Capture>> captures;
static std::set<CUgraph_st *> graphs;
static std::set<CUgraphExec_st *> execs;

bool capturing()
{
	for (const auto &k : captures)
		if (k->mode == cudaStreamCaptureModeGlobal ||
				(k->mode == cudaStreamCaptureModeThreadLocal &&
						k->thread == std::this_thread::get_id()))
			return true;
	return false;
}

bool any_capture()
{
	return !captures.empty();
}

cudaError_t event_captured(const char *call)
{
	for (const auto &k : captures)
		k->broken = true;
	return complain(cudaErrorCapturedEvent, "%s of an event that was recorded in a capture",
			call);
}

cudaError_t capture_broken(const char *call)
{
	for (const auto &k : captures)
		k->broken = true;
	return complain(cudaErrorStreamCaptureUnsupported,
			"%s is called while a stream is captured", call);
}

void forget_captures()
{
	captures.clear();
}

cudaError_t captured(CUstream_st *s, Op op)
{
	std::vector<Node> &nodes = s->capture->nodes;

	if (s->capture->broken)
		return noted(cudaErrorStreamCaptureInvalidated);
	nodes.push_back({std::move(op), s->frontier});
	s->frontier = {nodes.size() - 1};
	return cudaSuccess;
}

cudaError_t join(CUstream_st *s, const std::shared_ptr<Capture> &capture,
		const std::set<size_t> &frontier, bool recorded)
{
	if (!capture && !recorded)
		return cudaSuccess;
	if (s->capture && s->capture->broken)
		return noted(cudaErrorStreamCaptureInvalidated);
	if (!capture)
		return complain(cudaErrorStreamCaptureIsolation,
				"a captured stream waits for an event from before the capture");
	if (s->capture && s->capture != capture)
		return complain(cudaErrorStreamCaptureIsolation,
				"a captured stream waits for an event of another capture");
	if (std::find(captures.begin(), captures.end(), capture) == captures.end())
		return complain(cudaErrorStreamCaptureIsolation,
				"a stream waits for an event of a capture that has ended");
	s->capture = capture;
	s->frontier.insert(frontier.begin(), frontier.end());
	return cudaSuccess;
}

/* Whether every node is before one of these. */
static bool joined(const std::vector<Node> &nodes, std::set<size_t> last)
{
	std::set<size_t> seen;

	while (!last.empty()) {
		size_t i = *last.begin();

		last.erase(last.begin());
		if (seen.insert(i).second)
			last.insert(nodes[i].after.begin(), nodes[i].after.end());
	}
	return seen.size() == nodes.size();
}

Walk::Walk(std::vector<Node> all) : nodes(std::move(all)), behind(nodes.size()), left(nodes.size())
{
	for (size_t i = 0; i < nodes.size(); i++) {
		for (size_t k : nodes[i].after)
			behind[k].push_back(i);
		left[i] = nodes[i].after.size();
		if (!left[i])
			can.push_back(i);
	}
}

cudaError_t Walk::run(size_t place, Lock &lock)
{
	size_t at = can[place];
	cudaError_t code;

	can.erase(can.begin() + long(place));
	code = execute(nodes[at].op, lock);
	for (size_t i : behind[at])
		if (!--left[i])
			can.push_back(i);
	if (code != cudaSuccess)
		can.clear();
	return code;
}

cudaError_t Walk::finish(Lock &lock)
{
	cudaError_t code = cudaSuccess;

	while (!over() && code == cudaSuccess)
		code = advance(lock);
	return code;
}

cudaError_t Walk::advance(Lock &lock)
{
	size_t first = draw(uint32_t(can.size()));

	for (size_t i = 0; i < can.size(); i++) {
		size_t place = (first + i) % can.size();
		const auto &joint = nodes[can[place]].op.joint;

		if (!joint || joint->ready())
			return run(place, lock);
	}
	if (!go_on_beside(nullptr, lock))
		usleep(50);
	return cudaSuccess;
}

} // namespace twin

using namespace twin;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
	CALL("cudaStreamBeginCapture");
	if (planted("a capture is not begun"))
		return cudaSuccess;
	if (known(s) && planted("a capture is begun in another stream"))
		s = beside(s);
	if (!known(s) || s->capture)
		return complain(cudaErrorInvalidResourceHandle,
				"cudaStreamBeginCapture: no stream, or captured already");
	s->capture = std::make_shared<Capture>(
			Capture{s, mode, std::this_thread::get_id(), false, {}});
	s->frontier.clear();
	captures.push_back(s->capture);
	if (planted("memory is allocated in a capture")) {
		void *none;

		c.lock.unlock();
		cudaMalloc(&none, 1);
		c.lock.lock();
	}
	if (planted("a stream is waited for in its capture")) {
		c.lock.unlock();
		cudaStreamSynchronize(s);
		c.lock.lock();
	}
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status)
{
	CALL("cudaStreamIsCapturing");
	*status = !known(s) || !s->capture ? cudaStreamCaptureStatusNone
		  : s->capture->broken     ? cudaStreamCaptureStatusInvalidated
					   : cudaStreamCaptureStatusActive;
	return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *)
{
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *ret)
{
	CALL("cudaStreamEndCapture");
	std::shared_ptr<Capture> k = known(s) ? s->capture : nullptr;
	bool whole;

	*ret = nullptr;
	if (!k || k->origin != s)
		return complain(cudaErrorStreamCaptureUnmatched,
				"a capture is ended where none has begun");
	if (k->mode != cudaStreamCaptureModeRelaxed && k->thread != std::this_thread::get_id())
		return complain(cudaErrorStreamCaptureWrongThread,
				"a capture is ended by another thread than began it");
	whole = joined(k->nodes, s->frontier);
	captures.erase(std::find(captures.begin(), captures.end(), k));
	leave(k);
	if (k->broken)
		return noted(cudaErrorStreamCaptureInvalidated);
	if (!whole)
		return complain(cudaErrorStreamCaptureUnjoined,
				"a capture ends, but its stream does not wait for all others");
	*ret = new CUgraph_st{k->nodes};
	graphs.insert(*ret);
	return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *, size_t *n)
{
	*n = g->nodes.size();
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t g, unsigned long long)
{
	CALL("cudaGraphInstantiate");
	if (planted("a graph is destroyed before it is made"))
		graphs.erase(g);
	if (!graphs.count(g))
		return complain(cudaErrorInvalidValue, "cudaGraphInstantiate of no graph");
	*ret = new CUgraphExec_st{std::make_shared<std::vector<Node>>(g->nodes)};
	for (Node &n : *(*ret)->nodes) {
		if (!n.after.empty() && planted("a graph lacks an edge"))
			n.after.clear();
		if (n.op.run && planted("a graph lacks a node"))
			n.op.run = nullptr;
	}
	execs.insert(*ret);
	return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
	CALL("cudaGraphLaunch");
	Op op;

	if (planted("a graph is not launched"))
		return cudaSuccess;
	if (planted("a graph is launched twice")) {
		c.lock.unlock();
		cudaGraphLaunch(g, s);
		c.lock.lock();
	}
	if (planted("a graph is destroyed before its launch"))
		execs.erase(g);
	if (s && known(s) && planted("a graph is launched in another stream"))
		s = beside(s);
	if (!execs.count(g))
		return complain(cudaErrorInvalidValue, "cudaGraphLaunch of no graph");
	if (s && known(s) && s->capture)
		return complain(cudaErrorNotSupported, "the double captures no graphs");
	op.what = "a graph";
	op.kind = Op::GRAPH;
	op.walk = std::make_shared<Walk>(*g->nodes);
	for (Node &n : op.walk->nodes)
		if (n.op.joint && s && known(s))
			n.op.joint = n.op.joint->again(s, s->issued + 1);
	op.run = [walk = op.walk](Lock &lock) { return walk->finish(lock); };
	return enqueue(s, std::move(op));
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
	Call c("cudaGraphDestroy");

	if (!graphs.erase(g))
		return complain(cudaErrorInvalidValue, "cudaGraphDestroy of no graph");
	delete g;
	return c.code;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
	Call c("cudaGraphExecDestroy");

	if (!execs.erase(g))
		return complain(cudaErrorInvalidValue, "cudaGraphExecDestroy of no graph");
	delete g;
	return c.code;
}

} // extern "C"
