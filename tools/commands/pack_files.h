// Writes files that were laid out: shared by `quantize` and `experiment`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libshard/format/checkpoint.h"
#include "libshard/pack/pack.h"

namespace moepack::cli {

struct PackedOutput {
  std::string path;  // of the first file; the others are beside it
  bool force = false;
};

// Packs into a staging directory and publishes the files if `check`, which may be empty, has no
// objection. A killed run is resumed where it stopped.
Result<PackResult> PackFiles(const std::vector<SourceFile>& sources, std::vector<OutputFile>& files,
                             const PackedOutput& output, const PackOptions& pack,
                             const std::function<Status()>& check);

}  // namespace moepack::cli
