// GGUF models in several files, "PREFIX-00001-of-00003.gguf" and so on: finds the parts and checks
// that they belong together. Keys and names are those of llama.cpp's tools/gguf-split.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

// Metadata keys of parts: u16, counted from 0; u16; i32, the number of tensors in all parts.
inline constexpr std::string_view kSplitNoKey = "split.no";
inline constexpr std::string_view kSplitCountKey = "split.count";
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";

struct GgufPartName {
  std::string prefix;
  uint32_t index = 0;  // from 0, unlike in the file name
  uint32_t count = 0;  // at least 1, more than index
};
// Returns no value if `file_name` is not the name of a part.
std::optional<GgufPartName> ParseGgufPartName(std::string_view file_name);
std::string GgufPartFileName(const std::string& prefix, uint32_t index, uint32_t count);

// Returns the name of a file of a set of `count`; that of a single file has no numbers.
std::string GgufFileName(const std::string& prefix, uint32_t index, uint32_t count);
// Returns what is wrong with the file name of `path` as that of a GGUF to be written, perhaps as a
// set; "" if nothing is.
std::string GgufNameProblem(const std::string& path);

// Returns the names of all parts of the set that `file_name` belongs to, in order; only the name
// itself if it is not a part.
std::vector<std::string> GgufPartsOf(const std::string& file_name);

// Returns the parts of the only model at the top of the tree; empty if there is no *.gguf.
// kInvalidArgument, with a list of the models, if there are several.
Result<std::vector<std::string>> FindGgufModel(const SourceTree& tree);

// Returns kNotFound, with the first missing part, unless all are there.
Status CheckGgufPartsPresent(const SourceTree& tree, const std::vector<std::string>& parts);

// What a part says about itself.
struct GgufPart {
  fs::path path;  // what messages call it
  const GgufMetadata* metadata = nullptr;
  uint64_t tensors = 0;
};
// Returns kCorrupt unless each part's split.no is its position, the first part's counts are right,
// and no part contradicts the first (other counts, another architecture). Parts after the first
// need only split.no. A single file must not be one part of several.
Status CheckGgufSet(const std::vector<GgufPart>& parts);

}  // namespace moepack
