// Reads the header of a file into memory and parses it. It is not mapped, because a file that is
// written or truncated meanwhile would then change while it is parsed.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/format/gguf.h"
#include "libshard/format/safetensors.h"

namespace moepack {

// The longest header of a GGUF file, which does not state its length. A longer one is kCorrupt.
inline constexpr uint64_t kMaxGgufHeader = 256u << 20;

// `name` stands for the file in errors. Errors are those of the parsers and of ByteSource::ReadAt;
// no more than the header is read.
Result<SafetensorsHeader> ReadSafetensorsHeader(const ByteSource& file, const std::string& name);
Result<GgufHeader> ReadGgufHeader(const ByteSource& file, const std::string& name);
// Returns the digest of the first `bytes` bytes of the file.
Result<std::string> Sha256OfStart(const ByteSource& file, uint64_t bytes);

}  // namespace moepack
