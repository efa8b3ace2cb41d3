/* What ranks call at once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_BUNDLE_HPP
#define FF_DOUBLE_BUNDLE_HPP

#include <algorithm>
#include <map>

#include <nccl.h>

#include "inside.hpp"

namespace talk
{

enum Kind : int32_t { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE, SEND, RECEIVE };

extern const char *const names[];

/* What ranks must agree on. */
struct Header {
	Kind kind;
	int32_t type, op, root, ranks, captured; /* no gaps, as all of it is compared */
	uint64_t count;
};

struct Call {
	Header header;
	const void *send;
	void *recv;
	int peer;
	uint64_t number; /* among the communicator's collectives, or messages of the two */
};

struct Bundle;

} // namespace talk

struct ncclComm {
	std::string folder;
	int n, rank, device;
	bool wide;
	ncclResult_t error;
	uint64_t collectives;
	std::map<int, uint64_t> sent, received; /* by peer */
	std::vector<talk::Bundle *> unsaid;     /* posted, in order */
	std::vector<talk::Bundle *> pending;    /* those, and what is under way */
	uint64_t captured;                      /* in graphs */
};

namespace talk
{

extern std::vector<ncclComm *> comms;

ncclResult_t complain(ncclResult_t code, const char *text);
double timeout_ms();
size_t size_of(int32_t type); /* 0: the double has none such */
bool reduces(Kind k);
/* Elements that `rank` sends and receives. */
uint64_t sends(const Call &c, int rank);
uint64_t receives(const Call &c, int rank);
/* NULL: in no communicator of this process. */
ncclComm *local(const std::string &folder, int rank);

struct Bundle : twin::Joint {
	ncclComm *comm;
	CUstream_st *stream;
	uint64_t number; /* the stream has done it when it has done so many */
	std::vector<Call> calls;
	bool said = false, captured = false; /* captured: it is met again and again, as others */
	bool launched = false;               /* of such a one */
	uint64_t turn = 0;                   /* among all that was posted to the device */
	double asked_ms = 0;                 /* for the first time whether it is ready */

	~Bundle() override
	{
		forget();
		if (captured && std::find(comms.begin(), comms.end(), comm) != comms.end())
			comm->captured--;
	}
	cudaError_t meet(twin::Lock &lock) override;
	std::shared_ptr<Joint> again(CUstream_st *stream, uint64_t number) override;
	void post(); /* its calls get their numbers */
	bool ready() override;
	bool apart() override
	{
		return comm && comm->wide;
	}
	cudaError_t say();
	void forget();
	/* Whether all that was posted to the device before has begun. */
	bool in_turn() const;
	cudaError_t wait_for_turn(twin::Lock &lock);
	cudaError_t wait_for(int rank, const std::string &name, std::vector<char> *ret,
			twin::Lock &lock);
	cudaError_t take(const Call &c, twin::Lock &lock);
	cudaError_t take_message(const Call &c, twin::Lock &lock);
	cudaError_t agree(const Call &c, int rank, const std::vector<char> &said_there);
	cudaError_t write(const Call &c, const std::vector<std::vector<char>> &all);
	cudaError_t broken(ncclResult_t code);
};

} // namespace talk

#endif
