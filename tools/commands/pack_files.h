// Writes files that were laid out: what `quantize` and `experiment` have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libshard/format/checkpoint.h"
#include "libshard/pack/pack.h"

namespace moepack::cli {

struct PackedOutput {
  std::string path;  // of the first file; the others lie beside it
  bool force = false;
};

// Packs into a staging directory and publishes the files when `check` has nothing against it; it
// may be empty. A killed run goes on where it stopped.
Result<PackResult> PackFiles(const std::vector<SourceFile>& sources, std::vector<OutputFile>& files,
                             const PackedOutput& output, const PackOptions& pack,
                             const std::function<Status()>& check);

}  // namespace moepack::cli
