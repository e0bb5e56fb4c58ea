// Whether mapped files (MappedFile of file.h) are still what was mapped. Only weights of the
// runtime are; headers and texts are read instead (read_header.h, ReadText): what a parser has
// checked must not change under it.
//
// A file that is cut while it is mapped would end the process with SIGBUS. The first mapping of a
// process installs a handler for this signal: from the page that vanished to the mapping's end it
// puts zeros, notes it, and the thread goes on. So whoever computes from mapped bytes asks
// CheckMappedFiles before the result counts. A SIGBUS elsewhere goes to the handler that was there
// before.
#pragma once

#include "libshard/base/result.h"

namespace shard {

// kCorrupt when a file that this process has mapped was cut since, kIo when a page of one could not
// be read: what was computed from it is worth nothing. Takes a system call per mapped file.
Status CheckMappedFiles();

}  // namespace shard
