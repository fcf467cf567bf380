#pragma once
#include "base/thread_pool.h"

namespace cortiq::cli {

/// Bytes a second that the pool's threads read from memory together, each its own part of 256 MB, as plain loads: the
/// limit that decoding is held against. Takes about a third of a second.
double read_bandwidth(ThreadPool& pool);

}  // namespace cortiq::cli
