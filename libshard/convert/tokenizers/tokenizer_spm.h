// tokenizer.model: a SentencePiece model, a protobuf message ModelProto.
// Format: https://github.com/google/sentencepiece, src/sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

struct SentencePiece {
  std::string text;
  float score = 0;
  uint32_t type = 1;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

// The pieces in order of their ids. The input may be hostile: kCorrupt, with the offset, for fields
// that extend past its end, and for a message without pieces.
Result<std::vector<SentencePiece>> ParseSentencePieces(const std::string& path,
                                                       std::string_view bytes);

}  // namespace moepack
