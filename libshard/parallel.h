// Coarse parallelism for packing: threads that stop at the first error.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "libshard/result.h"

namespace shard {

// Runs work(0) ... work(count - 1) on up to `jobs` threads, each index once, in ascending order of
// start. The first error stops new work from starting and is returned (the lowest index wins when
// several fail). `jobs` 0 means one per core.
Status ParallelFor(size_t count, size_t jobs, const std::function<Status(size_t)>& work);

// Number of usable cores, at least 1.
size_t CoreCount();

// Threads for work that reads, hashes and writes: `jobs`, or with 0 twice the cores, so that while
// one waits for the disk another hashes.
size_t ThreadsForFiles(size_t jobs);

// Set by the signal handler of the tool; long loops look at it between pieces of work and return
// kInterrupted.
std::atomic<bool>& InterruptRequested();
Status CheckInterrupt();

}  // namespace shard
