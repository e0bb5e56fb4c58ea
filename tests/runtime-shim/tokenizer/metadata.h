// Small vocabularies as GGUF metadata, for the tests of the tokenizers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libshard/base/text/byte_spelling.h"
#include "libshard/convert/tokenizers/tokenizer.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack::runtime {

struct TestToken {
  std::string text;
  TokenType type = TokenType::kNormal;
  float score = 0;
};

inline GgufMetadata TestMetadata(const std::string& model, const std::string& pre,
                                 const std::vector<TestToken>& tokens,
                                 std::vector<std::string> merges = {}) {
  Vocabulary vocabulary;
  vocabulary.model = model;
  vocabulary.pre = pre;
  vocabulary.merges = std::move(merges);
  for (const TestToken& token : tokens) {
    vocabulary.tokens.push_back(token.text);
    vocabulary.types.push_back(token.type);
    vocabulary.scores.push_back(token.score);
  }
  GgufMetadata metadata;
  AddVocabulary(vocabulary, metadata);
  return metadata;
}

// Ids 0 to 255 are the bytes, followed by `more`.
inline GgufMetadata TestBpe(const std::string& pre, const std::vector<TestToken>& more,
                            std::vector<std::string> merges = {}) {
  std::vector<TestToken> tokens;
  for (const std::string& text : ByteAlphabet()) tokens.push_back({text});
  tokens.insert(tokens.end(), more.begin(), more.end());
  return TestMetadata("gpt2", pre, tokens, std::move(merges));
}

// Ids 0 to 2 are <unk>, <s> and </s>, 3 to 258 the bytes, followed by `more`.
inline GgufMetadata TestSpm(const std::vector<TestToken>& more) {
  using moepack::TokenType;
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::vector<TestToken> tokens = {
      {"<unk>", TokenType::kUnknown}, {"<s>", TokenType::kControl}, {"</s>", TokenType::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(
        {{'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'}, TokenType::kByte});
  }
  tokens.insert(tokens.end(), more.begin(), more.end());
  return TestMetadata("llama", "default", tokens);
}

}  // namespace moepack::runtime
