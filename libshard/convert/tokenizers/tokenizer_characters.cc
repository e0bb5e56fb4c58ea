// Gemma-4's tokenizer.json: BPE over characters, with byte tokens for characters that are not in
// the vocabulary.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

// These are always shown, because parsers of answers look for them; llama.cpp's converter lists
// them for Gemma-4.
constexpr std::array<std::string_view, 7> kVisible = {
    "<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
    "<|tool_response>", "<tool_response|>", "<|\"|>"};

bool IsCharacterBpe(const Json* model) {
  if (model == nullptr || !model->is_object() || TextMember(*model, "type") != "BPE") return false;
  const auto fallback = model->find("byte_fallback");
  return fallback != model->end() && *fallback == true;
}

// The texts of the special tokens in tokenizer_config.json: of all keys that end in "_token", and
// of the lists of additional ones.
std::set<std::string> SpecialTexts(const TokenizerFiles& files) {
  std::set<std::string> texts;
  if (files.config() == nullptr) return texts;
  const auto add = [&](const Json& value) {
    if (value.is_string()) texts.insert(value.get<std::string>());
    if (value.is_object()) texts.insert(TextMember(value, "content"));
  };
  for (const auto& [key, value] : files.config()->items()) {
    if (key.ends_with("_token")) add(value);
    if (key != "extra_special_tokens" && key != "additional_special_tokens") continue;
    if (!value.is_array()) continue;
    for (const Json& text : value) add(text);
  }
  return texts;
}

// Tokens beside the actual vocabulary are user-defined; control tokens are those that the config
// names, whatever tokenizer.json says about them.
Status AddBeside(const TokenizerFiles& files, const std::string& where, Vocabulary& vocabulary) {
  for (const AddedToken& token : files.added()) {
    const bool known =
        token.id < vocabulary.types.size() && vocabulary.types[token.id] != TokenType::kUnused;
    if (!known) SHARD_CHECK(SetToken(where, token, TokenType::kUserDefined, vocabulary));
  }
  const std::set<std::string> specials = SpecialTexts(files);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    const bool visible = std::find(kVisible.begin(), kVisible.end(), text) != kVisible.end();
    if (visible) {
      vocabulary.types[id] = TokenType::kUserDefined;
    } else if (specials.contains(text)) {
      vocabulary.types[id] = TokenType::kControl;
    }
  }
  return Ok();
}

}  // namespace

Result<Vocabulary> ReadCharacterBpe(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  const std::string where = files.PathOf("tokenizer.json");
  if (files.tokenizer() == nullptr) {
    return Error{Code::kNotFound, Cat(where, ": expected the tokenizer, found no such file"),
                 "download tokenizer.json and tokenizer_config.json of the model"};
  }
  const Json* model = files.Tokenizer("model");
  if (!IsCharacterBpe(model)) {
    return Error{Code::kUnsupported,
                 Cat(where, ": model: expected BPE with byte fallback, as Gemma-4 has, found ",
                     model == nullptr ? "none" : "another")};
  }
  Vocabulary vocabulary = PaddedVocabulary(request.tokens);
  vocabulary.model = "gemma4";
  vocabulary.pre = request.given_pre;
  SHARD_CHECK(SetVocab(where, *model, NormalOrByte, vocabulary));
  SHARD_CHECK(AddBeside(files, where, vocabulary));
  SHARD_TRY(vocabulary.merges, ReadMerges(files, *model));
  vocabulary.scores.assign(vocabulary.tokens.size(), kLostScore);
  return vocabulary;
}

}  // namespace moepack
