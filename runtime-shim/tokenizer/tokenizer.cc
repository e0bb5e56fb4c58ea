#include "runtime-shim/tokenizer/tokenizer.h"

#include <utility>

#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "runtime-shim/tokenizer/bpe.h"
#include "runtime-shim/tokenizer/sentencepiece.h"

namespace moepack::runtime {
namespace {

constexpr size_t kMaxTextBytes = 64u << 20;

// "<0x1F>" -> the byte; nothing for another spelling.
std::string ByteOf(std::string_view text) {
  const std::optional<uint8_t> byte = ReadByteToken(text);
  return byte ? std::string(1, static_cast<char>(*byte)) : std::string();
}

}  // namespace

Tokenizer::Tokenizer(TokenTable table)
    : table_(std::make_unique<const TokenTable>(std::move(table))), splitter_(*table_) {}

Result<std::vector<uint32_t>> Tokenizer::Encode(std::string_view text,
                                                const Options& options) const {
  if (text.size() > kMaxTextBytes) {
    return Error{Code::kInvalidArgument, Cat("text: expected at most ", FormatBytes(kMaxTextBytes),
                                             ", found ", FormatBytes(text.size()))};
  }
  const std::string valid = RepairUtf8(text);
  std::vector<uint32_t> ids;
  if (options.add_special && table_->add_bos()) ids.push_back(*bos());
  bool starts = true;
  for (const Fragment& fragment : splitter_.Split(valid, options.parse_special)) {
    if (fragment.token) {
      ids.push_back(*fragment.token);
    } else {
      SHARD_CHECK(EncodeText(fragment.text, starts, ids));
    }
    starts = fragment.token.has_value();
  }
  if (options.add_special && table_->add_eos()) ids.push_back(*eos());
  return ids;
}

std::string Tokenizer::Piece(uint32_t id) const {
  if (id >= size()) return {};
  const std::string& text = table_->text(id);
  switch (table_->type(id)) {
    case TokenType::kNormal:
      return Bytes(text);
    case TokenType::kUserDefined:
      return text;
    case TokenType::kByte:
      return ByteOf(text);
    default:
      return {};
  }
}

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                 const GgufMetadata& metadata) {
  const GgufValue* value = metadata.Find("tokenizer.ggml.model");
  const auto model = metadata.String("tokenizer.ggml.model");
  if (model == "gpt2") return OpenBpe(path, metadata);
  if (model == "llama") return OpenSentencePiece(path, metadata);
  if (model == "gemma4") return OpenCharacterBpe(path, metadata);
  if (!model && value != nullptr) {
    return Error{Code::kCorrupt, Cat(path, ": tokenizer.ggml.model: expected a string, found ",
                                     GgufTypeName(value->type))};
  }
  return Error{
      Code::kUnsupported,
      Cat(path, ": tokenizer.ggml.model: expected \"gpt2\", \"llama\" or \"gemma4\", found ",
          model ? Quoted(*model) : "nothing"),
      "give the ids of the text with --tokens"};
}

namespace {

constexpr std::string_view kReplacement = "\uFFFD";

}  // namespace

std::string RepairUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    out += character.is_utf8 ? text.substr(0, character.bytes) : kReplacement;
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace moepack::runtime
