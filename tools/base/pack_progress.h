// The progress of packing as a line on the terminal.
#pragma once

#include "libshard/pack/pack.h"
#include "tools/base/progress.h"

namespace moepack::cli {

// For PackOptions::progress. Borrows `progress`.
inline auto ShowPacking(Progress& progress) {
  return [&progress](const PackProgress& state) {
    progress.Update(state.done_bytes, state.total_bytes);
  };
}

}  // namespace moepack::cli
