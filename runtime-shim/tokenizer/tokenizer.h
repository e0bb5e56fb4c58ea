// Text to token ids and back, as llama.cpp does it with the same GGUF metadata
// (docs/runtime-shim.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "runtime-shim/tokenizer/fragments.h"
#include "runtime-shim/tokenizer/token_table.h"

namespace moepack::runtime {

// Const functions may be called from several threads at once.
class Tokenizer {
 public:
  struct Options {
    bool add_special = true;    // bos in front and eos at the end, if the model asks for them
    bool parse_special = true;  // control tokens spelled in the text become their ids
  };

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Bytes that are not UTF-8 count as U+FFFD each. kInvalidArgument for a text of more than 64 MiB,
  // kUnsupported for one on which the pre-tokenizer's expressions take too long.
  Result<std::vector<uint32_t>> Encode(std::string_view text, const Options& options) const;
  // The bytes that a token stands for, possibly part of a UTF-8 character; "" for control, unknown
  // and unused tokens and for ids outside the vocabulary.
  std::string Piece(uint32_t id) const;

  uint32_t size() const { return table_->size(); }
  std::optional<uint32_t> bos() const { return table_->bos(); }
  std::optional<uint32_t> eos() const { return table_->eos(); }
  // Whether it ends a generation: eos, eot, eom, and what llama.cpp recognises by its text.
  bool IsEnd(uint32_t id) const { return table_->IsEnd(id); }

 protected:
  explicit Tokenizer(TokenTable table);
  const TokenTable& table() const { return *table_; }

  // Appends the ids of a text without special tokens: valid UTF-8, not empty. `starts` is true at
  // the very beginning and after a special token.
  virtual Status EncodeText(std::string_view text, bool starts,
                            std::vector<uint32_t>& ids) const = 0;
  // The bytes of a normal token's text.
  virtual std::string Bytes(const std::string& text) const = 0;

 private:
  std::unique_ptr<const TokenTable> table_;  // stays where the splitter looks for it
  FragmentSplitter splitter_;
};

// The tokenizer of tokenizer.ggml.*: "gpt2" (byte-level BPE), "llama" (SentencePiece) and "gemma4"
// (BPE over characters) models.
// `path` names the file in errors. kUnsupported for another model or pre-tokenizer, kCorrupt for
// keys that contradict the format.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                 const GgufMetadata& metadata);

// Makes any text valid.

// Valid UTF-8 is returned unchanged. A byte that does not begin a valid character (stray
// continuation bytes, characters cut short, overlong forms, surrogates, beyond U+10FFFF) becomes
// U+FFFD, and decoding continues with the next byte.
std::string RepairUtf8(std::string_view text);

}  // namespace moepack::runtime
