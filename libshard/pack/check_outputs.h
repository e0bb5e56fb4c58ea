// What is checked about files that were laid out before they are written: that our own reader
// accepts their headers, and that nothing is in the way of them.
#pragma once

#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/result.h"
#include "libshard/format/output_file.h"
#include "libshard/pack/slice.h"

namespace moepack {

// Checks the headers of files that were laid out. Returns kUnsupported, with the reader's reason,
// if one would be refused or read as something else.
Status ReadBackHeaders(const std::vector<OutputFile>& files);

// For the files of a split set, which get their names one after another: kInvalidArgument if
// something in `directory` is in the way of `files`, as StagingDirectory's PublishFiles will find.
// With `replace` only a directory is. Without it the name of the first one has to be free, and
// behind another name there may be a file of its size that begins with its header, as a run leaves
// that ended between two names; the rest of its bytes is compared when all are written.
Status CheckMayPublish(const fs::path& directory, const std::vector<OutputFile>& files,
                       bool replace);

}  // namespace moepack
