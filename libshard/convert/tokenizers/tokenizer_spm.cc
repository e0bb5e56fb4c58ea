// SentencePiece: tokenizer.model plus tokens added later, or its pieces from a tokenizer.json.
#include "libshard/convert/tokenizers/tokenizer_spm.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

constexpr uint32_t kPieces = 1;                       // of ModelProto
constexpr uint32_t kText = 1, kScore = 2, kType = 3;  // of ModelProto.SentencePiece
constexpr size_t kMaxPieces = 1u << 22;
constexpr uint32_t kMaxType = 6;
constexpr int kVarintBytes = 10;

// How a field's value is stored: the low three bits of its tag.
enum class Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;      // kVarint
  std::string_view bytes;  // other wire types
};

// Reads the fields of a message one by one. `base` is where it begins in the file.
class MessageReader {
 public:
  MessageReader(const std::string& path, std::string_view bytes, size_t base)
      : path_(path), bytes_(bytes), base_(base) {}

  bool AtEnd() const { return at_ == bytes_.size(); }
  size_t offset() const { return base_ + at_; }

  Result<Field> Next() {
    SHARD_TRY(const uint64_t tag, Varint());
    Field field;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<Wire>(tag & 7);
    if (tag >> 3 == 0 || tag >> 32 != 0) return Wrong("a field number", Cat(tag >> 3));
    switch (field.wire) {
      case Wire::kVarint: {
        SHARD_TRY(field.value, Varint());
        return field;
      }
      case Wire::kFixed64:
        return Take(field, 8);
      case Wire::kFixed32:
        return Take(field, 4);
      case Wire::kBytes: {
        SHARD_TRY(const uint64_t length, Varint());
        return Take(field, length);
      }
    }
    return Wrong("wire type 0, 1, 2 or 5", Cat(tag & 7));
  }

 private:
  Error Wrong(const std::string& expected, const std::string& found) const {
    return {Code::kCorrupt, Cat(path_, ": SentencePiece model: byte ", offset(), ": expected ",
                                expected, ", found ", found)};
  }
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int i = 0; i < kVarintBytes && !AtEnd(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return value;
    }
    return Wrong("the end of a number", AtEnd() ? "the end of the message" : "more digits");
  }
  Result<Field> Take(Field field, uint64_t length) {
    if (length > bytes_.size() - at_) {
      return Wrong(Cat("at most ", bytes_.size() - at_, " bytes"), Cat(length));
    }
    field.bytes = bytes_.substr(at_, length);
    at_ += length;
    return field;
  }

  const std::string& path_;
  std::string_view bytes_;
  size_t base_, at_ = 0;
};

Result<SentencePiece> ParsePiece(const std::string& path, std::string_view bytes, size_t base) {
  SentencePiece piece;
  MessageReader reader(path, bytes, base);
  while (!reader.AtEnd()) {
    SHARD_TRY(const Field field, reader.Next());
    if (field.number == kText && field.wire == Wire::kBytes) piece.text = field.bytes;
    if (field.number == kScore && field.wire == Wire::kFixed32) {
      piece.score = LoadLe<float>(std::as_bytes(std::span(field.bytes.data(), 4)));
    }
    if (field.number == kType && field.wire == Wire::kVarint) {
      if (field.value == 0 || field.value > kMaxType) {
        return Error{Code::kCorrupt,
                     Cat(path, ": SentencePiece model: byte ", reader.offset(),
                         ": type: expected 1 to ", kMaxType, ", found ", field.value)};
      }
      piece.type = static_cast<uint32_t>(field.value);
    }
  }
  return piece;
}

}  // namespace

Result<std::vector<SentencePiece>> ParseSentencePieces(const std::string& path,
                                                       std::string_view bytes) {
  std::vector<SentencePiece> pieces;
  MessageReader reader(path, bytes, 0);
  while (!reader.AtEnd()) {
    SHARD_TRY(const Field field, reader.Next());
    if (field.number != kPieces || field.wire != Wire::kBytes) continue;
    if (pieces.size() == kMaxPieces) {
      return Error{Code::kCorrupt, Cat(path, ": SentencePiece model: expected at most ", kMaxPieces,
                                       " pieces, found more")};
    }
    SHARD_TRY(SentencePiece piece,
              ParsePiece(path, field.bytes, reader.offset() - field.bytes.size()));
    pieces.push_back(std::move(piece));
  }
  if (!pieces.empty()) return pieces;
  return Error{Code::kCorrupt, Cat(path, ": SentencePiece model: expected pieces, found none")};
}

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
