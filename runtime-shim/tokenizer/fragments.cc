#include "runtime-shim/tokenizer/fragments.h"

#include <algorithm>

namespace runtime {
namespace {

using shard::TokenType;

// Appends `fragment` cut at every occurrence of the token.
void Cut(const Fragment& fragment, uint32_t token, std::string_view needle,
         std::vector<Fragment>& out) {
  std::string_view rest = fragment.text;
  size_t at = 0;
  while ((at = rest.find(needle)) != std::string_view::npos) {
    if (at > 0) out.push_back({rest.substr(0, at), std::nullopt});
    out.push_back({{}, token});
    rest.remove_prefix(at + needle.size());
  }
  if (!rest.empty()) out.push_back({rest, std::nullopt});
}

}  // namespace

FragmentSplitter::FragmentSplitter(const TokenTable& table) : table_(table) {
  for (uint32_t id = 0; id < table.size(); ++id) {
    const TokenType type = table.type(id);
    if (type == TokenType::kControl || type == TokenType::kUnknown ||
        type == TokenType::kUserDefined) {
      special_.push_back(id);
    }
  }
  std::stable_sort(special_.begin(), special_.end(), [&](uint32_t a, uint32_t b) {
    return table.text(a).size() > table.text(b).size();
  });
}

std::vector<Fragment> FragmentSplitter::Split(std::string_view text, bool parse_special) const {
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text, std::nullopt});
  for (const uint32_t id : special_) {
    if (!parse_special && table_.type(id) != TokenType::kUserDefined) continue;
    const std::string& needle = table_.text(id);
    if (text.find(needle) == std::string_view::npos) continue;
    std::vector<Fragment> cut;
    for (const Fragment& fragment : fragments) {
      if (fragment.token) {
        cut.push_back(fragment);
      } else {
        Cut(fragment, id, needle, cut);
      }
    }
    fragments = std::move(cut);
  }
  return fragments;
}

}  // namespace runtime
