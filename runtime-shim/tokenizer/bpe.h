// Byte-level BPE: words from the pre-tokenizer's expressions, tokens from merges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text_map.h"
#include "libshard/format/gguf_metadata.h"
#include "runtime-shim/tokenizer/token_table.h"
#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// The merges of byte-level BPE: which two symbols become one, and in which order.

// A symbol is a piece of a word. Tokens use their ids as symbols; pieces that are not tokens have
// numbers after them.
class Merges {
 public:
  // Reads tokenizer.ggml.merges, each "left right"; among duplicates the first counts. kCorrupt if
  // it is missing and `required`, is not a list of strings, or has one that is not a pair;
  // kUnsupported for more than a model has.
  static Result<Merges> Read(const std::string& path, const GgufMetadata& metadata,
                             const TokenTable& table, bool required);

  // Splits a word of bytes into symbols: every byte is one, then pairs are merged, the lowest rank
  // first, and the leftmost among equal ranks. O(n log n) for n bytes.
  std::vector<uint32_t> Apply(std::string_view word) const;
  // The same starting from symbols.
  std::vector<uint32_t> Apply(std::span<const uint32_t> symbols) const;
  // The symbol of a piece; no value for one that is neither a token nor in any merge.
  std::optional<uint32_t> Find(const TokenTable& table, std::string_view piece) const;
  // The text of a symbol that is not a token. REQUIRES: symbol >= tokens.
  const std::string& text(uint32_t symbol) const { return texts_[symbol - tokens_]; }

 private:
  struct Rule {
    uint64_t pair = 0;  // left symbol in the upper half
    uint32_t rank = 0;
    uint32_t result = 0;
  };
  class Word;
  Merges() = default;
  uint32_t SymbolOf(const TokenTable& table, std::string_view text);
  Status Add(const std::string& where, const TokenTable& table, std::string_view merge);
  const Rule* Find(uint32_t left, uint32_t right) const;

  uint32_t tokens_ = 0;
  std::vector<std::string> texts_;
  TextMap<std::string, uint32_t> symbols_;  // of texts_
  std::vector<uint32_t> bytes_;             // the symbol of each byte
  std::vector<Rule> rules_;                 // sorted by pair
};

// For tokenizer.ggml.model "gpt2"; errors are those of OpenTokenizer.
Result<std::unique_ptr<Tokenizer>> OpenBpe(const std::string& path, const GgufMetadata& metadata);

// BPE over characters: Gemma-4.

// For tokenizer.ggml.model "gemma4", whatever tokenizer.ggml.pre says; errors are those of
// OpenTokenizer.
Result<std::unique_ptr<Tokenizer>> OpenCharacterBpe(const std::string& path,
                                                    const GgufMetadata& metadata);

}  // namespace moepack::runtime
