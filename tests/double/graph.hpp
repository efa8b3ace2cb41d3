/* Graphs and their capture.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_GRAPH_HPP
#define FF_DOUBLE_GRAPH_HPP

#include "inside.hpp"

namespace twin
{

struct Node {
	Op op;
	std::set<size_t> after;
};

struct Capture {
	CUstream_st *origin;
	cudaStreamCaptureMode mode;
	std::thread::id thread;
	bool broken;
	std::vector<Node> nodes;
};

/* A graph that was launched: nodes run in any order that their edges allow. */
struct Walk {
	std::vector<Node> nodes;
	std::vector<std::vector<size_t>> behind;
	std::vector<size_t> left, can; /* what each waits for; those that wait for nothing */

	explicit Walk(std::vector<Node> all);
	bool over() const
	{
		return can.empty();
	}
	cudaError_t run(size_t place, Lock &lock); /* one of `can` */
	cudaError_t finish(Lock &lock);
	/* A node that need not wait for another process, if there is one. */
	cudaError_t advance(Lock &lock);
};

/* A stream's wait for an event while either is captured. */
cudaError_t join(CUstream_st *s, const std::shared_ptr<Capture> &capture,
		const std::set<size_t> &frontier, bool recorded);
void forget_captures();
/* stream.cpp: its streams are captured no more. */
void leave(const std::shared_ptr<Capture> &capture);

} // namespace twin

#endif
