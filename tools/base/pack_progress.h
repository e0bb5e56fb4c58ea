// The progress of packing as a line on the terminal.
#pragma once

#include "tools/base/progress.h"

namespace moepack::cli {

// For PackOptions::progress. Borrows `progress`.
inline ByteReport ShowPacking(Progress& progress) { return progress.Shows(); }

}  // namespace moepack::cli
