// SentencePiece: tokenizer.model plus tokens added later, or its pieces from a tokenizer.json.
#include <nlohmann/json.hpp>

#include "libshard/base/text/byte_token.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/sentencepiece.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxModelBytes = 256u << 20;
constexpr const char* kModelFile = "tokenizer.model";
// llama.cpp's converter gives this to slots without a piece.
constexpr float kPadScore = -10000;

Vocabulary PaddedSpm(uint32_t count) {
  Vocabulary vocabulary = PaddedVocabulary(count);
  vocabulary.model = "llama";
  vocabulary.scores.assign(count, kPadScore);
  return vocabulary;
}

// User-defined pieces of the model itself count as normal ones.
TokenType TypeOf(uint32_t piece_type) {
  const auto type = static_cast<TokenType>(piece_type);
  return type == TokenType::kUserDefined ? TokenType::kNormal : type;
}

Status AddLater(const TokenizerFiles& files, Vocabulary& vocabulary) {
  for (const AddedToken& token : files.extra()) {
    SHARD_CHECK(
        SetToken(files.PathOf("added_tokens.json"), token, TokenType::kUserDefined, vocabulary));
    vocabulary.scores[token.id] = kLostScore;
  }
  for (const AddedToken& token : files.decoder()) {
    SHARD_CHECK(SetAddedToken(files.PathOf("tokenizer_config.json"), token, vocabulary));
    vocabulary.scores[token.id] = kLostScore;
  }
  return Ok();
}

Result<Vocabulary> ReadModel(const VocabularyRequest& request) {
  const std::string path = request.files.PathOf(kModelFile);
  SHARD_TRY(const std::string bytes, request.files.tree().ReadText(kModelFile, kMaxModelBytes));
  SHARD_TRY(const std::vector<SentencePiece> pieces, ParseSentencePieces(path, bytes));
  Vocabulary vocabulary = PaddedSpm(request.tokens);
  for (size_t id = 0; id < pieces.size(); ++id) {
    const AddedToken token = {static_cast<uint32_t>(id), pieces[id].text, false};
    SHARD_CHECK(SetToken(path, token, TypeOf(pieces[id].type), vocabulary));
    vocabulary.scores[id] = pieces[id].score;
  }
  SHARD_CHECK(AddLater(request.files, vocabulary));
  return vocabulary;
}

// BPE with byte fallback and a Sequence decoder: the form that transformers converts a
// SentencePiece model to.
bool IsDisguised(const TokenizerFiles& files) {
  const Json* model = files.Tokenizer("model");
  const Json* decoder = files.Tokenizer("decoder");
  if (model == nullptr || decoder == nullptr || !model->is_object() || !decoder->is_object()) {
    return false;
  }
  const auto is = [](const Json& object, const char* key, const Json& value) {
    const auto found = object.find(key);
    return found != object.end() && *found == value;
  };
  return is(*model, "type", "BPE") && is(*model, "byte_fallback", true) &&
         is(*decoder, "type", "Sequence");
}

// This form loses the scores, so all are equal.
Result<Vocabulary> ReadDisguised(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  const std::string where = files.PathOf("tokenizer.json");
  Vocabulary vocabulary = PaddedSpm(request.tokens);
  SHARD_CHECK(SetVocab(where, *files.Tokenizer("model"), NormalOrByte, vocabulary));
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] != TokenType::kUnused) vocabulary.scores[id] = kLostScore;
  }
  for (const AddedToken& token : files.added()) {
    SHARD_CHECK(SetAddedToken(where, token, vocabulary));
    vocabulary.scores[token.id] = kLostScore;
  }
  vocabulary.warning = Cat(where,
                           ": no tokenizer.model beside it: the scores of the pieces are "
                           "lost, and some texts will be cut into other tokens");
  return vocabulary;
}

}  // namespace

TokenType NormalOrByte(std::string_view text) {
  return ReadByteToken(text) ? TokenType::kByte : TokenType::kNormal;
}

Result<Vocabulary> ReadSentencePieceOrBpe(const VocabularyRequest& request) {
  const bool has_model = request.files.HasFile(kModelFile);
  if (!has_model && !IsDisguised(request.files)) return ReadBpe(request);
  SHARD_TRY(Vocabulary vocabulary, has_model ? ReadModel(request) : ReadDisguised(request));
  vocabulary.pre = request.given_pre.empty() ? "default" : request.given_pre;
  return vocabulary;
}

}  // namespace moepack
