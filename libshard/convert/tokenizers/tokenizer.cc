#include "libshard/convert/tokenizers/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "libshard/base/files/sentencepiece_space.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"

namespace moepack {
namespace {

// Spellings that are control tokens whatever their flag says.
constexpr std::array<std::string_view, 4> kControlTexts = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
struct Frame {
  std::string_view start, end;
};
// The second one is written with full-width bars.
constexpr Frame kControlFrames[] = {{"<|", "|>"}, {"<\uff5c", "\uff5c>"}, {"<unused", ">"}};

bool LooksSpecial(std::string_view text) {
  if (std::find(kControlTexts.begin(), kControlTexts.end(), text) != kControlTexts.end()) {
    return true;
  }
  return std::any_of(std::begin(kControlFrames), std::end(kControlFrames), [&](const Frame& f) {
    return text.starts_with(f.start) && text.ends_with(f.end);
  });
}

std::string PadText(uint64_t id) { return Cat("[PAD", id, "]"); }

}  // namespace

Vocabulary PaddedVocabulary(uint32_t count) {
  Vocabulary vocabulary;
  vocabulary.tokens.reserve(count);
  for (uint32_t id = 0; id < count; ++id) vocabulary.tokens.push_back(PadText(id));
  vocabulary.types.assign(count, TokenType::kUnused);
  return vocabulary;
}

Status SetToken(const std::string& where, const AddedToken& token, TokenType type,
                Vocabulary& vocabulary) {
  if (token.id >= vocabulary.tokens.size()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": token ", Quoted(token.text), ": expected an id below ",
                     vocabulary.tokens.size(), " (rows of the embedding), found ", token.id),
                 "the tokenizer is larger than the model: enlarge the embedding or take the "
                 "tokenizer of the checkpoint"};
  }
  vocabulary.types[token.id] = type;
  vocabulary.tokens[token.id] = token.text;
  return Ok();
}

Status SetAddedToken(const std::string& where, const AddedToken& token, Vocabulary& vocabulary) {
  if (token.special || LooksSpecial(token.text)) {
    return SetToken(where, token, TokenType::kControl, vocabulary);
  }
  // The runtime takes user-defined tokens literally.
  const AddedToken spaced = {token.id, MarksToSpaces(token.text), false};
  return SetToken(where, spaced, TokenType::kUserDefined, vocabulary);
}

Status SetVocab(const std::string& where, const Json& model, TypeOfText type,
                Vocabulary& vocabulary) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": model.vocab: expected an object of ids, found ",
                                     vocab == model.end() ? "nothing" : DescribeJson(*vocab))};
  }
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= UINT32_MAX) {
      return Error{Code::kCorrupt, Cat(where, ": model.vocab: ", Quoted(text),
                                       ": expected an id, found ", DescribeJson(id))};
    }
    const AddedToken token = {id.get<uint32_t>(), text, false};
    if (token.id < vocabulary.types.size() && vocabulary.types[token.id] != TokenType::kUnused) {
      return Error{Code::kCorrupt,
                   Cat(where, ": model.vocab: id ", token.id, ": expected one token, found ",
                       Quoted(vocabulary.tokens[token.id]), " and ", Quoted(text))};
    }
    SHARD_CHECK(SetToken(where, token, type(text), vocabulary));
  }
  return Ok();
}

size_t CountPadding(const Vocabulary& vocabulary) {
  size_t count = 0;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    count += vocabulary.tokens[id] == PadText(id) ? 1 : 0;
  }
  return count;
}

Status CheckDistinct(const std::string& where, const Vocabulary& vocabulary) {
  TextMap<std::string_view, size_t> seen;
  seen.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    // The runtime numbers empty texts itself.
    if (text.empty()) continue;
    const auto [first, is_new] = seen.try_emplace(text, id);
    if (is_new) continue;
    return Error{Code::kCorrupt, Cat(where, ": token ", Quoted(text), ": expected one id, found ",
                                     first->second, " and ", id)};
  }
  return Ok();
}

void AddVocabulary(const Vocabulary& vocabulary, GgufMetadata& metadata) {
  metadata.Set("tokenizer.ggml.model", GgufValue::String(vocabulary.model));
  if (!vocabulary.pre.empty()) {
    metadata.Set("tokenizer.ggml.pre", GgufValue::String(vocabulary.pre));
  }
  metadata.Set("tokenizer.ggml.tokens", GgufValue::Strings(vocabulary.tokens));
  if (!vocabulary.scores.empty()) {
    metadata.Set("tokenizer.ggml.scores", GgufValue::F32s(vocabulary.scores));
  }
  std::vector<int32_t> types;
  types.reserve(vocabulary.types.size());
  for (const TokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
  metadata.Set("tokenizer.ggml.token_type", GgufValue::I32s(types));
  if (vocabulary.model != "llama") {
    metadata.Set("tokenizer.ggml.merges", GgufValue::Strings(vocabulary.merges));
  }
}

}  // namespace moepack
