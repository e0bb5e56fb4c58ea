#include "runtime-shim/tokenizer/bpe.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "libshard/base/files/sentencepiece_space.h"
#include "libshard/base/text/byte_spelling.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "runtime-shim/tokenizer/pre_tokenizer.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kMaxMerges = 1u << 24;
constexpr const char* kKey = "tokenizer.ggml.merges";

uint64_t PairOf(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

// A word while its symbols are merged: a list through an array, and the pairs that can be merged in
// a heap. Pairs with a symbol that has changed since stay in the heap and are skipped.
class Merges::Word {
 public:
  Word(const Merges& merges, std::span<const uint32_t> symbols)
      : merges_(merges), nodes_(symbols.size()) {
    const auto count = static_cast<uint32_t>(symbols.size());
    for (uint32_t i = 0; i < count; ++i)
      nodes_[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    for (uint32_t i = 0; i < count; ++i) Consider(i);
  }

  std::vector<uint32_t> Merge() {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      Node& left = nodes_[best.at];
      const bool current = left.symbol != kNone && left.next != kNone &&
                           PairOf(left.symbol, nodes_[left.next].symbol) == best.rule->pair;
      if (!current) continue;
      nodes_[left.next].symbol = kNone;
      left.symbol = best.rule->result;
      left.next = nodes_[left.next].next;
      if (left.next != kNone) nodes_[left.next].previous = best.at;
      if (left.previous != kNone) Consider(left.previous);
      Consider(best.at);
    }
    std::vector<uint32_t> symbols;
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) symbols.push_back(nodes_[i].symbol);
    return symbols;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t symbol, previous, next;
  };
  struct Candidate {
    const Rule* rule;
    uint32_t at;
    // std::priority_queue has the largest on top.
    bool operator<(const Candidate& other) const {
      return rule->rank != other.rule->rank ? rule->rank > other.rule->rank : at > other.at;
    }
  };

  void Consider(uint32_t at) {
    if (nodes_[at].next == kNone) return;
    const Rule* rule = merges_.Find(nodes_[at].symbol, nodes_[nodes_[at].next].symbol);
    if (rule != nullptr) heap_.push({rule, at});
  }

  const Merges& merges_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate> heap_;
};

Result<Merges> Merges::Read(const std::string& path, const GgufMetadata& metadata,
                            const TokenTable& table, bool required) {
  Merges merges;
  merges.tokens_ = table.size();
  for (const std::string& text : ByteAlphabet()) {
    merges.bytes_.push_back(merges.SymbolOf(table, text));
  }
  const std::string where = Cat(path, ": ", kKey);
  const GgufValue* value = metadata.Find(kKey);
  if (value == nullptr && !required) return merges;
  if (value == nullptr || value->ElementType() != GgufType::kString) {
    return Error{Code::kCorrupt, Cat(where, ": expected a list of strings, found ",
                                     value == nullptr ? "nothing" : "another type")};
  }
  if (value->Count() > kMaxMerges) {
    return Error{Code::kUnsupported,
                 Cat(where, ": expected at most ", kMaxMerges, " merges, found ", value->Count())};
  }
  const std::vector<std::string_view> texts = *value->AsStrings();
  for (const std::string_view merge : texts) {
    SHARD_CHECK(merges.Add(where, table, merge));
  }
  // Equal pairs keep their order, and Find takes the first.
  std::stable_sort(merges.rules_.begin(), merges.rules_.end(),
                   [](const Rule& a, const Rule& b) { return a.pair < b.pair; });
  return merges;
}

uint32_t Merges::SymbolOf(const TokenTable& table, std::string_view text) {
  if (const std::optional<uint32_t> token = table.Find(text)) return *token;
  const auto next = static_cast<uint32_t>(tokens_ + texts_.size());
  const auto [found, is_new] = symbols_.try_emplace(std::string(text), next);
  if (is_new) texts_.emplace_back(text);
  return found->second;
}

Status Merges::Add(const std::string& where, const TokenTable& table, std::string_view merge) {
  const auto rank = static_cast<uint32_t>(rules_.size());
  const size_t space = merge.find(' ');
  const bool pair = space != std::string_view::npos && space > 0 && space + 1 < merge.size() &&
                    merge.find(' ', space + 1) == std::string_view::npos;
  if (!pair) {
    return Error{Code::kCorrupt,
                 Cat(where, ": merge ", rank, ": expected two pieces with a space between, found ",
                     Quoted(merge))};
  }
  const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
  const uint32_t result = SymbolOf(table, Cat(left, right));
  rules_.push_back({PairOf(SymbolOf(table, left), SymbolOf(table, right)), rank, result});
  return Ok();
}

const Merges::Rule* Merges::Find(uint32_t left, uint32_t right) const {
  const uint64_t pair = PairOf(left, right);
  const auto found = std::lower_bound(rules_.begin(), rules_.end(), pair,
                                      [](const Rule& rule, uint64_t p) { return rule.pair < p; });
  return found == rules_.end() || found->pair != pair ? nullptr : &*found;
}

std::vector<uint32_t> Merges::Apply(std::string_view word) const {
  std::vector<uint32_t> symbols;
  symbols.reserve(word.size());
  for (const char byte : word) symbols.push_back(bytes_[static_cast<unsigned char>(byte)]);
  return Apply(symbols);
}

std::vector<uint32_t> Merges::Apply(std::span<const uint32_t> symbols) const {
  if (symbols.empty()) return {};
  return Word(*this, symbols).Merge();
}

std::optional<uint32_t> Merges::Find(const TokenTable& table, std::string_view piece) const {
  if (const std::optional<uint32_t> token = table.Find(piece)) return token;
  const auto found = symbols_.find(piece);
  return found == symbols_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

// llama.cpp's defaults, for files that name none.
constexpr uint32_t kDefaultSpecial = 11;

class Bpe : public Tokenizer {
 public:
  Bpe(TokenTable table, PreTokenizer words, Merges merges)
      : Tokenizer(std::move(table)), words_(std::move(words)), merges_(std::move(merges)) {}

 private:
  Status EncodeText(std::string_view text, bool, std::vector<uint32_t>& ids) const override {
    SHARD_TRY(const auto words, words_.Split(text));
    for (const std::string_view word : words) {
      if (words_.traits().whole_words) {
        if (const auto whole = table().Find(SpellBytes(word))) {
          ids.push_back(*whole);
          continue;
        }
      }
      for (const uint32_t symbol : merges_.Apply(word)) Append(symbol, ids);
    }
    return Ok();
  }

  // A symbol that is not a token is replaced by the tokens of the bytes of its spelling, as far as
  // they exist; the rest is lost. Vocabularies with the whole alphabet have a token for everything.
  void Append(uint32_t symbol, std::vector<uint32_t>& ids) const {
    if (symbol < size()) {
      ids.push_back(symbol);
      return;
    }
    for (const char& c : merges_.text(symbol)) {
      if (const auto token = table().Find(std::string_view(&c, 1))) ids.push_back(*token);
    }
  }

  std::string Bytes(const std::string& text) const override { return UnspellBytes(text); }

  PreTokenizer words_;
  Merges merges_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> OpenBpe(const std::string& path, const GgufMetadata& metadata) {
  const GgufValue* value = metadata.Find("tokenizer.ggml.pre");
  const auto id = metadata.String("tokenizer.ggml.pre");
  if (value != nullptr && !id) {
    return Error{Code::kCorrupt, Cat(path, ": tokenizer.ggml.pre: expected a string, found ",
                                     GgufTypeName(value->type))};
  }
  auto found = PreTokenizer::Find(id.value_or("default"));
  if (!found) return std::move(found).error().Within(path);
  PreTokenizer words = std::move(found).value();
  TokenDefaults defaults{kDefaultSpecial, kDefaultSpecial, words.traits().add_bos};
  if (!words.traits().default_bos) defaults.bos.reset();
  SHARD_TRY(TokenTable table, TokenTable::Read(path, metadata, defaults));
  SHARD_TRY(Merges merges, Merges::Read(path, metadata, table, words.traits().needs_merges));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<Bpe>(std::move(table), std::move(words), std::move(merges)));
}

// Source: llama.cpp v0.5.0, src/llama-vocab.cpp (LLAMA_VOCAB_PRE_TYPE_GEMMA4): spaces become
// U+2581, runs of line breaks are separated from the text between them, merges run over characters,
// and a piece that is not a token becomes tokens of its bytes.

namespace {

class CharacterBpe : public Tokenizer {
 public:
  CharacterBpe(TokenTable table, Merges merges)
      : Tokenizer(std::move(table)), merges_(std::move(merges)) {}

 private:
  Status EncodeText(std::string_view text, bool, std::vector<uint32_t>& ids) const override {
    std::string marked;
    for (const char c : text) {
      if (c == ' ') {
        marked += kSpaceMark;
      } else {
        marked += c;
      }
    }
    for (size_t at = 0; at < marked.size();) {
      const bool breaks = marked[at] == '\n';
      const size_t found = breaks ? marked.find_first_not_of('\n', at) : marked.find('\n', at);
      const size_t end = std::min(found, marked.size());
      EncodeRun(std::string_view(marked).substr(at, end - at), breaks, ids);
      at = end;
    }
    return Ok();
  }

  void EncodeRun(std::string_view run, bool breaks, std::vector<uint32_t>& ids) const {
    if (const auto whole = breaks ? table().Find(run) : std::nullopt) {
      ids.push_back(*whole);
      return;
    }
    std::vector<uint32_t> symbols;
    for (size_t at = 0; at < run.size();) {
      const std::string_view character = run.substr(at, FirstCharacter(run.substr(at)).bytes);
      at += character.size();
      if (const auto symbol = merges_.Find(table(), character)) {
        symbols.push_back(*symbol);
        continue;
      }
      // No merge has this character, so the text on its two sides stays separate.
      Flush(symbols, ids);
      AppendBytes(character, ids);
    }
    Flush(symbols, ids);
  }

  void Flush(std::vector<uint32_t>& symbols, std::vector<uint32_t>& ids) const {
    for (const uint32_t symbol : merges_.Apply(std::span<const uint32_t>(symbols))) {
      if (symbol < size()) {
        ids.push_back(symbol);
      } else {
        AppendBytes(merges_.text(symbol), ids);
      }
    }
    symbols.clear();
  }

  // Bytes without a token are lost.
  void AppendBytes(std::string_view piece, std::vector<uint32_t>& ids) const {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (const char c : piece) {
      const auto byte = static_cast<unsigned char>(c);
      const std::string text = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
      if (const auto token = table().Find(text)) ids.push_back(*token);
    }
  }

  std::string Bytes(const std::string& text) const override { return MarksToSpaces(text); }

  Merges merges_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> OpenCharacterBpe(const std::string& path,
                                                    const GgufMetadata& metadata) {
  // llama.cpp adds the beginning-of-text token to every text, and knows no ids on its own.
  const TokenDefaults defaults{{}, {}, /*add_bos=*/true, /*always_bos=*/true};
  SHARD_TRY(TokenTable table, TokenTable::Read(path, metadata, defaults));
  SHARD_TRY(Merges merges, Merges::Read(path, metadata, table, /*required=*/true));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<CharacterBpe>(std::move(table), std::move(merges)));
}

}  // namespace moepack::runtime
