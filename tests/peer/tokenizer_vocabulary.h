// Made-up vocabularies for tests: small, and such that a word split differently gives other tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/format/gguf_metadata.h"

namespace peer {

// Byte-level BPE: the 256 bytes, every character of `texts` and every pair of neighbours in them,
// with ranks in an order that depends on `seed`; special tokens, some of which `seed` leaves out.
moepack::GgufMetadata BpeVocabulary(std::string_view pre, const std::vector<std::string>& texts,
                                    uint32_t seed);
// SentencePiece: byte tokens, most characters of `texts`, and neighbours with scores, some of them
// equal.
moepack::GgufMetadata SpmVocabulary(bool space_prefix, const std::vector<std::string>& texts,
                                    uint32_t seed);

// BPE over characters (Gemma-4): byte tokens, runs of line breaks, most characters of `texts`, and
// merges of neighbours.
moepack::GgufMetadata CharacterVocabulary(const std::vector<std::string>& texts, uint32_t seed);

}  // namespace peer
