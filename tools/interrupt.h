// Ctrl-C in commands that write, also to the directory for temporary files: stop between two pieces
// of work, keep what can be resumed.
#pragma once

namespace cli {

// From here on the first SIGINT or SIGTERM sets shard::InterruptRequested, the second one kills.
// Commands that only read do not call this and end at the first.
void StopBetweenPieces();

}  // namespace cli
