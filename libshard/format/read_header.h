// Reads the header of a file into memory and parses it there, with what identifies the file. A
// header is not mapped: cutting or writing the file meanwhile would change it under the parser.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/format/gguf.h"
#include "libshard/format/safetensors.h"

namespace moepack {

// GGUF files do not say how long their header is; a longer one is kCorrupt.
inline constexpr uint64_t kMaxGgufHeader = 256u << 20;

// `name` stands for the file in errors. Errors are those of the parsers and of ByteSource::ReadAt;
// no more than the header is read.
Result<SafetensorsHeader> ReadSafetensorsHeader(const ByteSource& file, const std::string& name);
Result<GgufHeader> ReadGgufHeader(const ByteSource& file, const std::string& name);
// The digest of the first `bytes` bytes: those before the tensor data, or all.
Result<std::string> Sha256OfStart(const ByteSource& file, uint64_t bytes);

}  // namespace moepack
