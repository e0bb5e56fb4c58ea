// OpenTokenizer of the runtime on the metadata of any GGUF: byte-level BPE, BPE of characters and
// SentencePiece.
#include "libshard/format/gguf.h"
#include "runtime-shim/tokenizer/tokenizer.h"
#include "tests/fuzz/gguf_structure.h"
#include "tests/fuzz/target.h"
#include "tests/runtime-shim/tokenizer/metadata.h"

namespace gguf_tokenizer_target {

using moepack::Cat;
using moepack::GgufMetadata;
using moepack::GgufValue;
using moepack::TokenType;
using moepack::runtime::Tokenizer;

constexpr const char* kPath = "damaged.gguf";
constexpr std::string_view kText = "Hello, <|x|>a world:\n\n 42 \xc3\xa9";

std::string FileOf(const GgufMetadata& metadata) {
  return moepack::BuildGgufHeader(metadata, {}, moepack::kGgufDefaultAlignment);
}

GgufMetadata Characters() {
  std::vector<moepack::runtime::TestToken> tokens = {{"<bos>", TokenType::kControl},
                                                     {"<|x|>", TokenType::kUserDefined}};
  for (char c = ' '; c < '\x7f'; ++c) tokens.push_back({c == ' ' ? "\u2581" : std::string(1, c)});
  for (const char* text : {"\n", "\n\n", "el", "lo", "ello", "\u00e9"}) tokens.push_back({text});
  GgufMetadata metadata =
      moepack::runtime::TestMetadata("gemma4", "default", tokens, {"e l", "l o", "el lo"});
  metadata.Set("tokenizer.ggml.bos_token_id", GgufValue::U32(0));
  return metadata;
}

std::vector<std::string> Seeds() {
  GgufMetadata bpe = moepack::runtime::TestBpe(
      "qwen2", {{"he"}, {"ll"}, {"<|x|>", TokenType::kControl}, {"</s>", TokenType::kControl}},
      {"h e", "l l"});
  bpe.Set("tokenizer.ggml.eos_token_id", GgufValue::U32(259));
  bpe.Set("tokenizer.ggml.add_eos_token", GgufValue::Bool(true));
  GgufMetadata pieces = moepack::runtime::TestSpm({{"\u2581", TokenType::kNormal, -1},
                                                   {"l", TokenType::kNormal, -2},
                                                   {"o", TokenType::kNormal, -3},
                                                   {"lo", TokenType::kNormal, -4},
                                                   {"<|x|>", TokenType::kUserDefined}});
  pieces.Set("tokenizer.ggml.add_space_prefix", GgufValue::Bool(false));
  return {FileOf(bpe), FileOf(moepack::runtime::TestBpe("llama-bpe", {})), FileOf(pieces),
          FileOf(Characters())};
}

std::vector<std::string> Refused() {
  return {FileOf(moepack::runtime::TestBpe("no-such-pre-tokenizer", {})),
          FileOf(moepack::runtime::TestBpe("qwen2", {}, {"one"})),
          FileOf(moepack::runtime::TestBpe("qwen2", {{"a"}})),
          FileOf(moepack::runtime::TestMetadata("llama", "default", {{"a"}}))};
}

moepack::Result<std::unique_ptr<Tokenizer>> Open(std::string_view input) {
  SHARD_TRY(const moepack::GgufHeader header,
            moepack::ParseGguf(kPath, std::as_bytes(std::span(input)), input.size()));
  return moepack::runtime::OpenTokenizer(kPath, header.metadata);
}

std::string TextProblem(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.Encode(text, {special, special});
    if (!ids) return fuzz::ErrorProblem(ids.error(), "text");
    for (const uint32_t id : *ids)
      if (id >= tokenizer.size()) return Cat("token ", id, " of ", tokenizer.size());
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto opened = Open(input);
  if (!opened) return fuzz::ErrorProblem(opened.error(), kPath);
  const Tokenizer& tokenizer = **opened;
  if (tokenizer.size() == 0) return "a vocabulary of nothing";
  for (const auto id : {tokenizer.bos(), tokenizer.eos()})
    if (id && *id >= tokenizer.size()) return Cat("a special token ", *id);
  if (tokenizer.IsEnd(tokenizer.size()) || !tokenizer.Piece(tokenizer.size()).empty())
    return "a token outside the vocabulary";
  size_t bytes = 0;
  for (uint32_t id = 0; id < tokenizer.size(); ++id) bytes += tokenizer.Piece(id).size();
  // "[EMPTY_<id>]" is the longest name that is not in the file.
  if (bytes > input.size() + 24u * tokenizer.size()) return "more text than the file holds";
  for (const std::string_view text : {kText, std::string_view("\x80\xff\xed\xa0\x80\0 a", 8)}) {
    if (std::string problem = TextProblem(tokenizer, text); !problem.empty()) return problem;
  }
  return "";
}

// The text comes back, so every byte of it has a token.
bool Accepts(std::string_view input) {
  const auto opened = Open(input);
  if (!opened) return false;
  const auto ids = (*opened)->Encode(kText, {false, false});
  std::string text;
  for (const uint32_t id : ids ? *ids : std::vector<uint32_t>()) text += (*opened)->Piece(id);
  return text == kText;
}

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 1000,
                               .restructure = fuzz::ChangeGguf,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace gguf_tokenizer_target

FUZZ_STRUCTURE_TARGET(FuzzGgufTokenizer, gguf_tokenizer_target::kTarget)
