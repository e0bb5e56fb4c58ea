#include "runtime-shim/tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/files/sentencepiece_space.h"
#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kDefaultBos = 1, kDefaultEos = 2;

// Protocol buffers: https://protobuf.dev/programming-guides/encoding.
void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void AppendField(std::string& out, uint32_t field, uint64_t value) {
  AppendVarint(out, field << 3);
  AppendVarint(out, value);
}
void AppendField(std::string& out, uint32_t field, std::string_view bytes) {
  AppendVarint(out, field << 3 | 2);
  AppendVarint(out, bytes.size());
  out += bytes;
}

enum PieceType : uint64_t { kPieceNormal = 1, kPieceUnknown = 2 };

std::string PieceMessage(std::string_view text, float score, PieceType type) {
  std::string piece;
  AppendField(piece, 1, text);
  AppendVarint(piece, 2 << 3 | 5);  // 32 bits
  AppendLe(piece, score);
  AppendField(piece, 3, type);
  return piece;
}

// A ModelProto (google/sentencepiece, sentencepiece_model.proto) of type BPE that merges like
// llama.cpp: every token takes part, whatever its type, so all are normal pieces; what remains
// unknown has the id after them and is returned as text; the text is not normalised, except for
// spaces.
std::string ModelOf(const TokenTable& table) {
  std::string model;
  size_t longest = 1;
  for (uint32_t id = 0; id < table.size(); ++id) {
    longest = std::max(longest, table.text(id).size());
    AppendField(model, 1, PieceMessage(table.text(id), table.scores()[id], kPieceNormal));
  }
  AppendField(model, 1, PieceMessage(std::string(longest + 1, '?'), 0, kPieceUnknown));
  std::string trainer;
  AppendField(trainer, 3, 2u);  // model_type: BPE
  AppendField(model, 2, trainer);
  std::string normalizer;
  AppendField(normalizer, 3, 0u);  // add_dummy_prefix
  AppendField(normalizer, 4, 0u);  // remove_extra_whitespaces
  AppendField(normalizer, 5, 1u);  // escape_whitespaces
  AppendField(model, 3, normalizer);
  return model;
}

// The tokens of single bytes: "<0x1F>", or otherwise the byte itself.
using ByteTokens = std::array<uint32_t, 256>;

Result<ByteTokens> FindByteTokens(const std::string& path, const TokenTable& table) {
  ByteTokens tokens{};
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    const std::string name = SpellByteToken(static_cast<uint8_t>(byte));
    auto token = table.Find(name);
    if (!token) token = table.Find(std::string(1, static_cast<char>(byte)));
    if (!token) {
      return Error{Code::kCorrupt, Cat(path, ": tokenizer.ggml.tokens: expected ", Quoted(name),
                                       ", found no such token")};
    }
    tokens[byte] = *token;
  }
  return tokens;
}

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(TokenTable table, ByteTokens bytes, bool space_prefix)
      : Tokenizer(std::move(table)), bytes_(bytes), space_prefix_(space_prefix) {}

  Status Load(const std::string& path) {
    const auto status = library_.LoadFromSerializedProto(ModelOf(table()));
    if (status.ok()) return Ok();
    return Error{Code::kCorrupt, Cat(path,
                                     ": tokenizer.ggml.tokens: expected pieces that "
                                     "SentencePiece takes, found: ",
                                     status.ToString())};
  }

 private:
  Status EncodeText(std::string_view text, bool starts, std::vector<uint32_t>& ids) const override {
    const std::string prefixed = Cat(space_prefix_ && starts ? " " : "", text);
    const auto encoded = library_.EncodeAsImmutableProto(prefixed);
    for (const auto& piece : encoded.pieces()) {
      if (piece.id() < size()) {
        ids.push_back(piece.id());
        continue;
      }
      for (const char c : piece.piece()) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    }
    return Ok();
  }

  std::string Bytes(const std::string& text) const override { return MarksToSpaces(text); }

  ByteTokens bytes_;
  bool space_prefix_;
  sentencepiece::SentencePieceProcessor library_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> OpenSentencePiece(const std::string& path,
                                                     const GgufMetadata& metadata) {
  const char* key = "tokenizer.ggml.add_space_prefix";
  const GgufValue* prefix = metadata.Find(key);
  if (prefix != nullptr && !prefix->AsBool()) {
    return Error{Code::kCorrupt,
                 Cat(path, ": ", key, ": expected a bool, found ", GgufTypeName(prefix->type))};
  }
  SHARD_TRY(TokenTable table, TokenTable::Read(path, metadata, {kDefaultBos, kDefaultEos, true}));
  SHARD_TRY(const ByteTokens bytes, FindByteTokens(path, table));
  auto tokenizer = std::make_unique<SentencePiece>(std::move(table), bytes,
                                                   prefix == nullptr || *prefix->AsBool());
  SHARD_CHECK(tokenizer->Load(path));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace moepack::runtime
