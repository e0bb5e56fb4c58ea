#include "runtime-shim/tokenizer/fragments.h"

#include <algorithm>
#include <array>
#include <map>

#include "libshard/base/text_map.h"

namespace moepack::runtime {
namespace {

// Longer token texts are looked up by this many leading bytes.
constexpr size_t kProbe = 64;

struct Occurrence {
  size_t at = 0, size = 0;
  uint32_t token = 0;
};

// Finds where tokens occur in a text, in time that grows with the bytes of both, not with their
// product: a vocabulary may have millions of tokens, all of them special.
class TokenFinder {
 public:
  TokenFinder(const TokenTable& table, std::string_view text)
      : table_(table), text_(text), taken_(text.size(), false) {}

  void Add(uint32_t token) {
    const std::string_view needle = table_.text(token);
    probes_[std::min(needle.size(), kProbe)][needle.substr(0, kProbe)].push_back(token);
  }

  // In the order of the text; occurrences do not overlap. The longest are taken first; among equal
  // lengths, the lower id; for one token, those on the left.
  std::vector<Occurrence> Take() {
    for (auto probe = probes_.rbegin(); probe != probes_.rend(); ++probe) {
      std::vector<Occurrence> found = Find(probe->first, probe->second);
      std::sort(found.begin(), found.end(), [](const Occurrence& a, const Occurrence& b) {
        if (a.size != b.size) return a.size > b.size;
        return a.token != b.token ? a.token < b.token : a.at < b.at;
      });
      for (const Occurrence& occurrence : found) Claim(occurrence);
    }
    std::sort(claimed_.begin(), claimed_.end(),
              [](const Occurrence& a, const Occurrence& b) { return a.at < b.at; });
    return std::move(claimed_);
  }

 private:
  using Starts = TextMap<std::string_view, std::vector<uint32_t>>;

  std::vector<Occurrence> Find(size_t length, const Starts& starts) const {
    std::array<bool, 256> first{};  // usually few bytes begin a token
    for (const auto& [start, tokens] : starts) first[static_cast<unsigned char>(start[0])] = true;
    std::vector<Occurrence> found;
    for (size_t at = 0; at + length <= text_.size(); ++at) {
      if (!first[static_cast<unsigned char>(text_[at])]) continue;
      const auto start = starts.find(text_.substr(at, length));
      if (start == starts.end()) continue;
      for (const uint32_t token : start->second) {
        const std::string& needle = table_.text(token);
        if (text_.substr(at, needle.size()) == needle) found.push_back({at, needle.size(), token});
      }
    }
    return found;
  }

  // Those already taken are no shorter: one that overlaps has its first or its last byte in them.
  void Claim(const Occurrence& occurrence) {
    const size_t end = occurrence.at + occurrence.size;
    if (taken_[occurrence.at] || taken_[end - 1]) return;
    std::fill(taken_.begin() + static_cast<ptrdiff_t>(occurrence.at),
              taken_.begin() + static_cast<ptrdiff_t>(end), true);
    claimed_.push_back(occurrence);
  }

  const TokenTable& table_;
  std::string_view text_;
  std::map<size_t, Starts> probes_;  // by length
  std::vector<bool> taken_;
  std::vector<Occurrence> claimed_;
};

}  // namespace

FragmentSplitter::FragmentSplitter(const TokenTable& table) : table_(table) {
  for (uint32_t id = 0; id < table.size(); ++id) {
    const TokenType type = table.type(id);
    if (type == TokenType::kControl || type == TokenType::kUnknown ||
        type == TokenType::kUserDefined) {
      special_.push_back(id);
    }
  }
}

std::vector<Fragment> FragmentSplitter::Split(std::string_view text, bool parse_special) const {
  TokenFinder finder(table_, text);
  for (const uint32_t id : special_) {
    if (parse_special || table_.type(id) == TokenType::kUserDefined) finder.Add(id);
  }
  std::vector<Fragment> fragments;
  size_t done = 0;
  for (const Occurrence& occurrence : finder.Take()) {
    if (occurrence.at > done)
      fragments.push_back({text.substr(done, occurrence.at - done), std::nullopt});
    fragments.push_back({{}, occurrence.token});
    done = occurrence.at + occurrence.size;
  }
  if (done < text.size()) fragments.push_back({text.substr(done), std::nullopt});
  return fragments;
}

}  // namespace moepack::runtime
