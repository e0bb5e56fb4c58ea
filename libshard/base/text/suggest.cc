#include "libshard/base/text/suggest.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kMaxWord = 64;  // longer ones are not typing mistakes
constexpr size_t kLeastBeginning = 2;
constexpr size_t kMostSuggestions = 4;

// Damerau's distance in its restricted form: letters that are added, left out, replaced or swapped
// with their neighbour. Three rows are enough.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] != b[j]), last[j + 1] + 1, row[j] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before = last;
    last.swap(row);
  }
  return last[b.size()];
}

// How many changes are a typing mistake in a word of this length.
size_t MostChanges(size_t letters) { return letters < 2 ? 0 : std::max<size_t>(letters / 4, 1); }

// What is compared: Q4_K_M, q4-k-m and Q4KM are one word.
std::string Folded(std::string_view word) {
  std::string folded = Lower(word);
  std::erase_if(folded, [](char c) { return c == '-' || c == '_'; });
  return folded;
}

// All that are as close as the closest, in their order.
std::vector<std::string> ClosestWords(std::string_view word,
                                      const std::vector<std::string>& known) {
  std::vector<std::string> best;
  const std::string typed = Folded(word);
  if (word.size() > kMaxWord || typed.empty()) return best;
  size_t best_distance = MostChanges(word.size());
  for (const std::string& candidate : known) {
    const std::string right = Folded(candidate);
    // A correctly typed beginning counts as close: "list" for "list-tensors".
    const bool begins = word.size() >= kLeastBeginning && right.starts_with(typed);
    const size_t distance =
        begins ? std::min<size_t>(right.size() - typed.size(), 1) : EditDistance(typed, right);
    if (distance > best_distance) continue;
    if (distance < best_distance) best.clear();
    best.push_back(candidate);
    best_distance = distance;
  }
  return best;
}

// "Q4_0, Q4_1 or Q4_K".
std::string JoinWithOr(std::vector<std::string> words) {
  const std::string last = std::move(words.back());
  words.pop_back();
  return words.empty() ? last : Cat(Join(words, ", "), " or ", last);
}

}  // namespace

std::string ClosestWord(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string> closest = ClosestWords(word, known);
  return closest.empty() ? "" : closest.front();
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string> closest = ClosestWords(word, known);
  if (closest.empty() || closest.size() > kMostSuggestions) return "";
  return Cat("did you mean ", JoinWithOr(closest), "?");
}

Error NotOneOf(std::string_view what, const std::vector<std::string>& known,
               std::string_view word) {
  return {Code::kInvalidArgument,
          Cat(what, what.empty() ? "" : ": ", "expected one of ", Join(known, ", "), ", found ",
              Quoted(word)),
          DidYouMean(word, known)};
}

}  // namespace moepack
