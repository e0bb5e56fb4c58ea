// The three parts of quantizing a model, each alone: a pipeline that overlaps them cannot be faster
// than these.
#pragma once

#include "tests/bench/measure.h"

namespace bench {

// Reads every file of the tree once.
Result<Sample> ReadAlone(const fs::path& tree);
// Decodes as many BF16 values as the GGUF files below `output` have in encoded types, and encodes
// them to these types, on `threads` threads; the values are those of `source`, a safetensors file.
Result<Sample> EncodeAlone(const fs::path& output, const fs::path& source, size_t threads);
// Writes files as large as those below `like` to `copy`, and flushes them to the disk.
Result<Sample> WriteAlone(const fs::path& like, const fs::path& copy);

}  // namespace bench
