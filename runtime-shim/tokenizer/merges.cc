#include "runtime-shim/tokenizer/merges.h"

#include <algorithm>
#include <queue>

#include "libshard/base/text/byte_alphabet.h"
#include "libshard/base/text/text.h"

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

}  // namespace moepack::runtime
