// Handles Ctrl-C in commands that write, even if only to the directory for temporary files: they
// stop between two pieces of work and keep what can be resumed.
#pragma once

namespace moepack::cli {

// After this call the first SIGINT or SIGTERM sets InterruptRequested, and the second one kills the
// process. Commands that only read do not call this and end at the first.
void StopBetweenPieces();

}  // namespace moepack::cli
