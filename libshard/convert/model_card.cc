#include "libshard/convert/model_card.h"

#include <algorithm>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxCardBytes = 16u << 20;
constexpr const char* kCard = "README.md";
constexpr std::string_view kFence = "---";
constexpr std::string_view kBlank = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Returns a scalar without quotes and comment; "" for anything else (a map, an anchor, block text).
std::string Scalar(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return {};
  const char quote = text.front();
  if (quote == '"' || quote == '\'') {
    const size_t end = text.find(quote, 1);
    return end == std::string_view::npos ? std::string() : std::string(text.substr(1, end - 1));
  }
  if (std::string_view("[]{}|>&*!%@`").find(quote) != std::string_view::npos) return {};
  if (const size_t comment = text.find(" #"); comment != std::string_view::npos) {
    text = Trim(text.substr(0, comment));
  }
  const bool map = text.find(": ") != std::string_view::npos || text.ends_with(':');
  return map || text == "null" || text == "~" ? std::string() : std::string(text);
}

void AddScalar(std::string_view text, std::vector<std::string>& out) {
  const std::string scalar = Scalar(text);
  if (!scalar.empty()) out.push_back(ShownUnlessUtf8(scalar));
}

// Returns where the first item of a list ends: at the first comma outside quotes.
size_t ItemEnd(std::string_view list) {
  const std::string_view item = Trim(list);
  size_t start = 0;
  if (item.starts_with('"') || item.starts_with('\'')) {
    const size_t quote = list.find(item.front());
    start = std::min(list.find(item.front(), quote + 1), list.size());
  }
  return std::min(list.find(',', start), list.size());
}

// Adds what follows "key:", which may be a list in brackets.
void AddValue(std::string_view text, std::vector<std::string>& out) {
  text = Trim(text);
  if (!text.starts_with('[') || !text.ends_with(']')) return AddScalar(text, out);
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t end = ItemEnd(text);
    AddScalar(text.substr(0, end), out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

ModelCard ParseModelCard(std::string_view text) {
  ModelCard card;
  const std::vector<std::string> lines = Split(text, '\n');
  if (Trim(lines.front()) != kFence) return card;
  const auto fence = [](const std::string& line) { return Trim(line) == kFence; };
  const auto end = std::find_if(lines.begin() + 1, lines.end(), fence);
  if (end == lines.end()) return card;
  std::vector<std::string>* open = nullptr;  // the list that "- " lines are added to
  for (auto line = lines.begin() + 1; line != end; ++line) {
    const std::string_view trimmed = Trim(*line);
    if (trimmed.empty() || trimmed.starts_with('#')) continue;
    if (trimmed.starts_with("- ")) {
      if (open != nullptr) AddScalar(trimmed.substr(2), *open);
      continue;
    }
    // Indented lines belong to something nested.
    const bool top = line->front() != ' ' && line->front() != '\t';
    const size_t colon = trimmed.find(':');
    open = nullptr;
    if (!top || colon == std::string_view::npos) continue;
    std::vector<std::string>& values = card[std::string(trimmed.substr(0, colon))];
    const std::string_view value = trimmed.substr(colon + 1);
    AddValue(value, values);
    if (Trim(value).empty()) open = &values;
  }
  return card;
}

Result<ModelCard> ReadModelCard(const SourceTree& tree) {
  // A server may refuse to serve a missing file, so the tree's list decides whether it is absent.
  SHARD_TRY(const std::vector<std::string> cards, tree.List("", kCard));
  if (std::find(cards.begin(), cards.end(), kCard) == cards.end()) return ModelCard();
  SHARD_TRY(const std::string text, tree.ReadText(kCard, kMaxCardBytes));
  return ParseModelCard(text);
}

}  // namespace moepack
