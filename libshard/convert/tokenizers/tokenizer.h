// A tokenizer as GGUF stores it: the vocabulary with types, scores or merges, and the keys that go
// with it (docs/conversion.md, "Tokenizers").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/tokenizers/tokenizer_files.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

// tokenizer.ggml.token_type, as llama.cpp numbers them.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Vocabulary {
  // tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece), "gemma4" (BPE of
  // characters).
  std::string model;
  std::string pre;                  // tokenizer.ggml.pre; "": no such key
  std::vector<std::string> tokens;  // by id
  std::vector<TokenType> types;     // one each
  std::vector<float> scores;        // one each, or none
  std::vector<std::string> merges;  // "left right"; not written for "llama"
  std::string warning;              // what was lost, or ""
};

struct VocabularyRequest {
  const TokenizerFiles& files;
  uint32_t tokens = 0;          // rows of the embedding
  std::string_view family_pre;  // which of several names of one pre-tokenizer the family uses
  std::string given_pre;        // --pre; "" to recognise it
};

// From tokenizer.json with a model of type BPE over bytes. Ids without a token become "[PAD<id>]".
Result<Vocabulary> ReadBpe(const VocabularyRequest& request);
// From tokenizer.model; without it, from a tokenizer.json that is SentencePiece in disguise (byte
// fallback, a Sequence decoder); otherwise like ReadBpe.
Result<Vocabulary> ReadSentencePieceOrBpe(const VocabularyRequest& request);

// From tiktoken.model (Kimi) if there is no tokenizer.json; otherwise like ReadBpe.
Result<Vocabulary> ReadTiktokenOrBpe(const VocabularyRequest& request);
// The same from hy.tiktoken, and the special tokens that the code of Hunyuan's tokenizer names.
Result<Vocabulary> ReadHunyuanRanksOrBpe(const VocabularyRequest& request);

// From a tokenizer.json of Gemma-4: BPE of characters with byte fallback, spaces as U+2581.
Result<Vocabulary> ReadCharacterBpe(const VocabularyRequest& request);

// The merges of `model` of tokenizer.json, or of merges.txt. REQUIRES: SetVocab took the model's
// vocabulary.
Result<std::vector<std::string>> ReadMerges(const TokenizerFiles& files, const Json& model);
// kByte for "<0x1F>", otherwise kNormal.
TokenType NormalOrByte(std::string_view text);
// llama.cpp's converter gives this score to pieces that have lost theirs, and to added tokens.
inline constexpr float kLostScore = -1000;

// A vocabulary of `count` tokens, all "[PAD<id>]" and unused.
Vocabulary PaddedVocabulary(uint32_t count);
// Replaces the token of an id; `where` names the file in errors. kCorrupt for an id that the
// embedding has no row for.
Status SetToken(const std::string& where, const AddedToken& token, TokenType type,
                Vocabulary& vocabulary);
// The same for an added token: control if marked special or spelled like "<|...|>", otherwise
// user-defined, with real spaces instead of SentencePiece's mark.
Status SetAddedToken(const std::string& where, const AddedToken& token, Vocabulary& vocabulary);

// Sets the tokens of `model.vocab` of a tokenizer.json, typed by their text.
using TypeOfText = TokenType (*)(std::string_view text);
Status SetVocab(const std::string& where, const Json& model, TypeOfText type,
                Vocabulary& vocabulary);

// How many ids have no token, only "[PAD<id>]".
size_t CountPadding(const Vocabulary& vocabulary);

// kCorrupt for two ids with the same text, on which the runtime aborts.
Status CheckDistinct(const std::string& where, const Vocabulary& vocabulary);

// tokenizer.ggml.{model,pre,tokens,scores,token_type,merges}.
void AddVocabulary(const Vocabulary& vocabulary, GgufMetadata& metadata);

}  // namespace moepack
