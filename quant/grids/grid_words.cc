#include "quant/grids/grid_words.h"

#include <span>

#include "quant/grids/points.h"

namespace quant {
namespace {

template <class Grid, class Word>
std::vector<Word> WordsOf(std::span<const uint16_t> points,
                          const std::array<int8_t, Grid::kLevels>& values) {
  static_assert(sizeof(Word) == Grid::kSize);
  std::vector<Word> words;
  words.reserve(points.size());
  for (const uint16_t point : points) {
    Word word = 0;
    for (size_t i = 0; i < Grid::kSize; ++i) {
      word |= static_cast<Word>(values[Grid::LevelOf(point, i)]) << 8 * i;
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

const Grid8Words& Iq2XxsWords() {
  static const Grid8Words words = WordsOf<Grid8, uint64_t>(kIq2XxsPoints, kIq2Values);
  return words;
}

const Grid8Words& Iq2XsWords() {
  static const Grid8Words words = WordsOf<Grid8, uint64_t>(kIq2XsPoints, kIq2Values);
  return words;
}

const Grid8Words& Iq2SWords() {
  static const Grid8Words words = WordsOf<Grid8, uint64_t>(kIq2SPoints, kIq2Values);
  return words;
}

const Grid4Words& Iq3XxsWords() {
  static const Grid4Words words = WordsOf<Grid4, uint32_t>(kIq3XxsPoints, kIq3XxsValues);
  return words;
}

const Grid4Words& Iq3SWords() {
  static const Grid4Words words = WordsOf<Grid4, uint32_t>(kIq3SPoints, kIq3SValues);
  return words;
}

}  // namespace quant
