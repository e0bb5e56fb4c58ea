// Says whether mapped files (MappedFile of file.h) are still what was mapped. The runtime maps
// weights, and the reader of trace exports, which may be large, maps those; headers and other texts
// are read instead (read_header.h, ReadText): what a parser has checked must not change under it.
//
// A file that is truncated while it is mapped would kill the process with SIGBUS. The first mapping
// of a process installs a handler for this signal. It maps zeros from the vanished page to the end
// of the mapping and records that; the thread continues. So code that computes from mapped bytes
// calls CheckMappedFiles before using the result. A SIGBUS elsewhere goes to the previous handler.
#pragma once

#include "libshard/base/result.h"

namespace moepack {

// kCorrupt if a file that this process has mapped was truncated since, kIo if a page of one could
// not be read. Nothing computed from it may then be used. Takes one system call per mapped file.
Status CheckMappedFiles();

}  // namespace moepack
