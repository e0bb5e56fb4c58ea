#include "tests/peer/tokenizer_vocabulary.h"

#include <algorithm>
#include <random>
#include <set>

#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace peer {
namespace {

using moepack::Cat;
using moepack::TokenType;

constexpr std::string_view kMark = "\u2581";

std::vector<std::string> Characters(std::string_view text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((c & 0xc0) != 0x80 || characters.empty()) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

// Characters and pairs of neighbours, shuffled.
struct Parts {
  std::vector<std::string> characters;
  std::vector<std::pair<std::string, std::string>> pairs;
};

Parts PartsOf(const std::vector<std::string>& texts, std::mt19937& random) {
  std::set<std::string> characters;
  std::set<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) {
    std::vector<std::string> list = Characters(text);
    // llama.cpp ends texts at these tokens; in byte-level BPE no token has this text.
    std::erase(list, std::string(1, '\0'));
    characters.insert(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i) pairs.insert({list[i - 1], list[i]});
  }
  Parts parts{{characters.begin(), characters.end()}, {pairs.begin(), pairs.end()}};
  std::shuffle(parts.pairs.begin(), parts.pairs.end(), random);
  return parts;
}

std::string Marked(const std::string& text) { return text == " " ? std::string(kMark) : text; }

class Builder {
 public:
  explicit Builder(uint32_t seed) : random_(seed) {}

  void Add(const std::string& text, TokenType type = TokenType::kNormal, float score = 0) {
    if (!seen_.insert(text).second) return;
    vocabulary_.tokens.push_back(text);
    vocabulary_.types.push_back(type);
    vocabulary_.scores.push_back(score);
  }
  // A merge of two spelled pieces, and its result.
  void Merge(const std::string& left, const std::string& right) {
    Add(left + right);
    if (merged_.insert(Cat(left, " ", right)).second) {
      vocabulary_.merges.push_back(Cat(left, " ", right));
    }
  }
  // The three that SentencePiece begins with, and a token for each byte.
  void AddBytes() {
    Add("<unk>", TokenType::kUnknown);
    Add("<s>", TokenType::kControl);
    Add("</s>", TokenType::kControl);
    for (int byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<unsigned char>(byte);
      std::string hex = moepack::Hex(&value, 1);
      std::transform(hex.begin(), hex.end(), hex.begin(), ::toupper);
      Add(Cat("<0x", hex, ">"), TokenType::kByte);
    }
  }
  bool Chance(uint32_t percent) { return random_() % 100 < percent; }

  void AddSpecial() {
    for (const char* text : {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
                             "<|flush|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "[EOS]",
                             "<|end_of_text|>", "<|tool_response>", "<eos>", "<|file_sep|>",
                             "<|message|>", "<|start|>", "<|fim_pad|>", "<reponame>"}) {
      if (!Chance(60)) continue;
      Add(text, Chance(50) ? TokenType::kControl : TokenType::kNormal);
    }
    control_ = size();
    Add("<|control|>", TokenType::kControl);
    Add("<|control|>er", TokenType::kControl);
    for (const char* text : {"<tool>", "  ", "\u65e5\u672c", "no", "    ", "</tool"}) {
      if (Chance(60)) Add(text, TokenType::kUserDefined);
    }
    Add("[PAD]-unused", TokenType::kUnused);
  }

  std::mt19937& random() { return random_; }
  uint32_t size() const { return static_cast<uint32_t>(vocabulary_.tokens.size()); }
  moepack::GgufMetadata Finish(std::string_view model, std::string_view pre) {
    vocabulary_.model = model;
    vocabulary_.pre = pre;
    if (model == "gpt2") vocabulary_.scores.clear();
    moepack::GgufMetadata metadata;
    metadata.Set("general.architecture", moepack::GgufValue::String("llama"));
    moepack::AddVocabulary(vocabulary_, metadata);
    // llama.cpp shows special ids to its users only for control tokens.
    for (const char* kind : {"bos", "eos"}) {
      metadata.Set(Cat("tokenizer.ggml.", kind, "_token_id"), moepack::GgufValue::U32(control_));
      if (Chance(50)) continue;
      metadata.Set(Cat("tokenizer.ggml.add_", kind, "_token"),
                   moepack::GgufValue::Bool(Chance(50)));
    }
    return metadata;
  }

 private:
  std::mt19937 random_;
  uint32_t control_ = 0;
  moepack::Vocabulary vocabulary_;
  std::set<std::string> seen_, merged_;
};

}  // namespace

moepack::GgufMetadata BpeVocabulary(std::string_view pre, const std::vector<std::string>& texts,
                                    uint32_t seed) {
  Builder builder(seed);
  for (const std::string& text : moepack::ByteAlphabet()) builder.Add(text);
  const Parts parts = PartsOf(texts, builder.random());
  for (const std::string& character : parts.characters) {
    std::string done = moepack::SpellBytes(character.substr(0, 1));
    for (size_t i = 1; i < character.size(); ++i) {
      const std::string next = moepack::SpellBytes(character.substr(i, 1));
      builder.Merge(done, next);
      done += next;
    }
  }
  for (const auto& [left, right] : parts.pairs) {
    builder.Merge(moepack::SpellBytes(left), moepack::SpellBytes(right));
  }
  builder.AddSpecial();
  // Whole words, which are found where merges do not count.
  for (const char* word : {"Hello", " world", "jumps", " over"}) {
    builder.Add(moepack::SpellBytes(word));
  }
  return builder.Finish("gpt2", pre);
}

moepack::GgufMetadata SpmVocabulary(bool space_prefix, const std::vector<std::string>& texts,
                                    uint32_t seed) {
  Builder builder(seed);
  builder.AddBytes();
  const Parts parts = PartsOf(texts, builder.random());
  for (const std::string& character : parts.characters) {
    if (builder.Chance(80)) builder.Add(Marked(character), TokenType::kNormal, -1000);
  }
  for (const auto& [left, right] : parts.pairs) {
    const auto score = -static_cast<float>(builder.random()() % 300);
    const TokenType type = builder.Chance(5) ? TokenType::kUnused : TokenType::kNormal;
    builder.Add(Marked(left) + Marked(right), type, score);
  }
  for (const char* word : {"the", "\u2581the", "<s", "ing", "\u2581\u2581\u2581\u2581", "<unk"}) {
    builder.Add(word, TokenType::kNormal, -5);
  }
  builder.AddSpecial();
  moepack::GgufMetadata metadata = builder.Finish("llama", "default");
  metadata.Set("tokenizer.ggml.add_space_prefix", moepack::GgufValue::Bool(space_prefix));
  return metadata;
}

moepack::GgufMetadata CharacterVocabulary(const std::vector<std::string>& texts, uint32_t seed) {
  Builder builder(seed);
  builder.AddBytes();
  // llama.cpp aborts at a longer run, since no merge may contain a line break.
  for (size_t count = 1; count < 64; ++count) builder.Add(std::string(count, '\n'));
  const Parts parts = PartsOf(texts, builder.random());
  for (const std::string& character : parts.characters) {
    if (builder.Chance(80)) builder.Add(Marked(character));
  }
  for (const auto& [left, right] : parts.pairs) {
    if (left != "\n" && right != "\n") builder.Merge(Marked(left), Marked(right));
  }
  // A second step of merges.
  builder.Merge("th", "e");
  builder.Merge("\u2581t", "he");
  builder.AddSpecial();
  return builder.Finish("gemma4", "");
}

}  // namespace peer
