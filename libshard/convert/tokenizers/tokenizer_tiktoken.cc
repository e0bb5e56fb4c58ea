// tiktoken.model: a line of base64 and a rank per token. Merges are not stored and are recovered
// from the ranks: a token consists of the two pieces that remain when its bytes are merged as far
// as the tokens before it allow. This is what llama.cpp's converter does for Kimi and for Hunyuan,
// whose file is hy.tiktoken.
#include <algorithm>
#include <optional>
#include <string>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/convert/tokenizers/tokenizer.h"

namespace moepack {
namespace {

constexpr const char* kRanksFile = "tiktoken.model";
constexpr uint64_t kMaxTiktokenBytes = 256u << 20;
constexpr size_t kMaxTokenBytes = 1024;  // merging takes quadratic time; real ones stay below 256
// Ids after the ranks that Kimi's tokenizers call <|reserved_token_N|> if nothing else names them.
constexpr uint32_t kReserved = 256 + 2;

constexpr const char* kHunyuanRanksFile = "hy.tiktoken";
// The tokens that the code of Hunyuan's tokenizer has after the ranks, before <|extra_0|> and
// following.
constexpr const char* kHunyuanSpecial[] = {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>",
                                           "<|pad|>"};
constexpr uint32_t kHunyuanExtra = 205;

using Ranks = TextMap<std::string_view, uint32_t>;

struct RankedToken {
  std::string bytes;
  uint32_t rank = 0;
};

Result<RankedToken> ParseLine(const std::string& where, std::string_view line, uint32_t tokens) {
  const size_t space = line.find(' ');
  const std::optional<uint64_t> rank =
      space == std::string_view::npos ? std::nullopt : ParseUint(line.substr(space + 1));
  if (!rank || *rank >= tokens) {
    return Error{Code::kCorrupt, Cat(where, ": expected a token and a rank below ", tokens,
                                     " (rows of the embedding), found ", Quoted(line))};
  }
  const std::string_view digits = line.substr(0, space);
  std::optional<std::string> bytes = DecodeBase64(digits);
  if (!bytes || bytes->empty())
    return Error{Code::kCorrupt, Cat(where, ": expected base64, found ", Quoted(digits))};
  if (bytes->size() > kMaxTokenBytes) {
    return Error{Code::kUnsupported, Cat(where, ": token: expected at most ", kMaxTokenBytes,
                                         " bytes, found ", bytes->size())};
  }
  return RankedToken{*std::move(bytes), static_cast<uint32_t>(*rank)};
}

Result<std::vector<RankedToken>> ReadRanks(const SourceTree& tree, const char* name,
                                           uint32_t tokens) {
  const std::string path = tree.NameOf(name);
  SHARD_TRY(const std::string text, tree.ReadText(name, kMaxTiktokenBytes));
  std::vector<RankedToken> ranked;
  size_t number = 0;
  for (std::string& line : Split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    SHARD_TRY(RankedToken token, ParseLine(Cat(path, ": line ", number), line, tokens));
    ranked.push_back(std::move(token));
  }
  if (!ranked.empty()) return ranked;
  return Error{Code::kCorrupt, Cat(path, ": expected tokens, found none")};
}

// Hunyuan's tokenizer numbers tokens by line, ignoring the ranks in the file, and skips duplicates.
void RankByLine(std::vector<RankedToken>& ranked) {
  TextSet<std::string> seen;
  std::erase_if(ranked, [&](const RankedToken& token) { return !seen.insert(token.bytes).second; });
  for (size_t i = 0; i < ranked.size(); ++i) ranked[i].rank = static_cast<uint32_t>(i);
}

// Where the pieces of `bytes` begin once every merge to a token below `limit` has been made, lowest
// rank first.
std::vector<size_t> StartsOfPieces(const Ranks& ranks, std::string_view bytes, uint32_t limit) {
  std::vector<size_t> starts(bytes.size() + 1);
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = i;
  while (starts.size() > 2) {
    uint32_t lowest = limit;
    size_t at = 0;
    for (size_t i = 0; i + 2 < starts.size(); ++i) {
      const auto found = ranks.find(bytes.substr(starts[i], starts[i + 2] - starts[i]));
      if (found == ranks.end() || found->second >= lowest) continue;
      lowest = found->second;
      at = i;
    }
    if (lowest == limit) break;
    starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  starts.pop_back();
  return starts;
}

Result<Ranks> Index(const std::string& path, const std::vector<RankedToken>& ranked) {
  Ranks ranks;
  ranks.reserve(ranked.size());
  for (const RankedToken& token : ranked) {
    const auto [first, is_new] = ranks.try_emplace(token.bytes, token.rank);
    if (is_new) continue;
    return Error{Code::kCorrupt,
                 Cat(path, ": token ", Quoted(token.bytes), ": expected one rank, found ",
                     first->second, " and ", token.rank)};
  }
  return ranks;
}

Status AddRanked(const std::string& path, const std::vector<RankedToken>& ranked,
                 Vocabulary& vocabulary) {
  SHARD_TRY(const Ranks ranks, Index(path, ranked));
  for (const RankedToken& token : ranked) {
    if (vocabulary.types[token.rank] != TokenType::kUnused) {
      return Error{Code::kCorrupt, Cat(path, ": rank ", token.rank, ": expected one token, found ",
                                       Quoted(vocabulary.tokens[token.rank]), " and ",
                                       Quoted(SpellBytes(token.bytes)))};
    }
    const AddedToken spelled = {token.rank, SpellBytes(token.bytes), false};
    SHARD_CHECK(SetToken(path, spelled, TokenType::kNormal, vocabulary));
    if (token.bytes.size() == 1) continue;
    const std::vector<size_t> starts = StartsOfPieces(ranks, token.bytes, token.rank);
    // Skips tokens that no merge produces: they are matched whole.
    if (starts.size() != 2) continue;
    const std::string_view bytes = token.bytes;
    vocabulary.merges.push_back(
        Cat(SpellBytes(bytes.substr(0, starts[1])), " ", SpellBytes(bytes.substr(starts[1]))));
  }
  return Ok();
}

// Ids after the ranks. All of them are control tokens, whatever their flag says.
Status AddSpecial(const TokenizerFiles& files, uint32_t first, Vocabulary& vocabulary) {
  const std::string where = files.PathOf("tokenizer_config.json");
  const auto count = static_cast<uint32_t>(vocabulary.tokens.size());
  for (uint32_t id = first; id < std::min(count, first + kReserved); ++id) {
    if (vocabulary.types[id] != TokenType::kUnused) continue;
    const AddedToken reserved = {id, Cat("<|reserved_token_", id, "|>"), true};
    SHARD_CHECK(SetToken(where, reserved, TokenType::kControl, vocabulary));
  }
  for (const AddedToken& token : files.decoder()) {
    if (token.id < count && vocabulary.types[token.id] == TokenType::kNormal) {
      return Error{Code::kCorrupt, Cat(where, ": added_tokens_decoder: ", Quoted(token.text),
                                       ": expected an id without a rank, found ", token.id)};
    }
    SHARD_CHECK(SetToken(where, token, TokenType::kControl, vocabulary));
  }
  return Ok();
}

Status AddHunyuanSpecial(const std::string& path, uint32_t first, Vocabulary& vocabulary) {
  uint32_t id = first;
  const auto add = [&](std::string text) {
    return SetToken(path, {id++, std::move(text), true}, TokenType::kControl, vocabulary);
  };
  for (const char* text : kHunyuanSpecial) SHARD_CHECK(add(text));
  for (uint32_t i = 0; i < kHunyuanExtra; ++i) SHARD_CHECK(add(Cat("<|extra_", i, "|>")));
  return Ok();
}

Result<Vocabulary> VocabularyOf(const VocabularyRequest& request, const std::string& path,
                                const std::vector<RankedToken>& ranked) {
  Vocabulary vocabulary = PaddedVocabulary(request.tokens);
  vocabulary.model = "gpt2";
  vocabulary.pre = request.given_pre.empty() ? std::string(request.family_pre) : request.given_pre;
  SHARD_CHECK(AddRanked(path, ranked, vocabulary));
  return vocabulary;
}

}  // namespace

Result<Vocabulary> ReadTiktokenOrBpe(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  if (files.tokenizer() != nullptr || !files.HasFile(kRanksFile)) return ReadBpe(request);
  const std::string path = files.PathOf(kRanksFile);
  SHARD_TRY(const std::vector<RankedToken> ranked,
            ReadRanks(files.tree(), kRanksFile, request.tokens));
  SHARD_TRY(Vocabulary vocabulary, VocabularyOf(request, path, ranked));
  SHARD_CHECK(AddSpecial(files, static_cast<uint32_t>(ranked.size()), vocabulary));
  return vocabulary;
}

Result<Vocabulary> ReadHunyuanRanksOrBpe(const VocabularyRequest& request) {
  const TokenizerFiles& files = request.files;
  if (files.tokenizer() != nullptr || !files.HasFile(kHunyuanRanksFile)) return ReadBpe(request);
  const std::string path = files.PathOf(kHunyuanRanksFile);
  SHARD_TRY(std::vector<RankedToken> ranked,
            ReadRanks(files.tree(), kHunyuanRanksFile, request.tokens));
  RankByLine(ranked);
  SHARD_TRY(Vocabulary vocabulary, VocabularyOf(request, path, ranked));
  SHARD_CHECK(AddHunyuanSpecial(path, static_cast<uint32_t>(ranked.size()), vocabulary));
  return vocabulary;
}

}  // namespace moepack
