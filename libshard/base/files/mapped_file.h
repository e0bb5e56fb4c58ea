// Says whether mapped files (MappedFile of file.h) are still what was mapped. The runtime maps
// weights, and the reader of trace exports, which may be large, maps those; headers and other texts
// are read instead (read_header.h, ReadText): what a parser has checked must not change under it.
//
// A file that is cut while it is mapped would end the process with SIGBUS. The first mapping of a
// process installs a handler for this signal. It puts zeros from the page that vanished to the
// mapping's end and records that; the thread goes on. So whoever computes from mapped bytes calls
// CheckMappedFiles before using the result. A SIGBUS elsewhere goes to the handler that was there
// before.
#pragma once

#include "libshard/base/result.h"

namespace moepack {

// kCorrupt when a file that this process has mapped was cut since, kIo when a page of one could not
// be read: then nothing computed from it may be used. Takes one system call per mapped file.
Status CheckMappedFiles();

}  // namespace moepack
