#include "runtime-shim/eval/window_scores.h"

#include <algorithm>
#include <iterator>

#include "runtime-shim/eval/token_scores.h"

namespace moepack::runtime {
namespace {

using Scores = std::vector<TokenScores>;  // of rows; they borrow the logits

// Rows of a chunk that are scored.
struct ScoredRows {
  uint32_t first, end;
};

// The scores of `rows`; `logits` begins with the row `start` of the chunk.
Scores ScoresOf(const ScoredRows& rows, uint32_t start, std::span<const float> logits,
                size_t vocabulary) {
  Scores scores;
  for (uint32_t row = rows.first; row < rows.end; ++row)
    scores.emplace_back(logits.subspan((row - start) * vocabulary, vocabulary));
  return scores;
}

void Compare(const Scores& from, const Scores& to, Comparison& comparison) {
  for (size_t row = 0; row < from.size(); ++row) {
    comparison.divergence.push_back(from[row].DivergenceTo(to[row]));
    comparison.agreements += from[row].best() == to[row].best();
  }
}

void AddLogProbabilities(std::span<const uint32_t> targets, const Scores& scores,
                         std::vector<double>& log_probabilities) {
  for (size_t i = 0; i < scores.size(); ++i)
    log_probabilities.push_back(scores[i].LogProbability(targets[i]));
}

template <class T>
void MoveBehind(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void MoveBehind(Comparison& from, Comparison& to) {
  MoveBehind(from.divergence, to.divergence);
  to.agreements += from.agreements;
}

void MoveBehind(LayerCapture& from, LayerCapture& to) {
  to.resize(std::max(from.size(), to.size()));
  for (size_t layer = 0; layer < from.size(); ++layer) MoveBehind(from[layer], to[layer]);
}

}  // namespace

Chunk CutChunk(const Window& window, uint32_t first, uint32_t most) {
  const auto size = static_cast<uint32_t>(window.tokens.size());
  const uint32_t end = std::min(size, first + most);
  Chunk chunk;
  chunk.tokens = std::span(window.tokens).subspan(first, end - first);
  // Row t predicts the token at t + 1.
  const uint32_t from = std::max(first, window.first_scored - 1);
  // The last row of a window predicts a token that is not there.
  const uint32_t to = std::min(end, size - 1);
  if (from >= to) return chunk;
  chunk.first_row = from - first;
  chunk.end_row = to - first;
  chunk.targets = std::span(window.tokens).subspan(from + 1, to - from);
  return chunk;
}

void AddScores(const Chunk& chunk, const ChunkLogits& logits, SessionMeasure& measure) {
  const std::span<const float> rows_of = logits.own.empty() ? logits.reference : logits.own.front();
  const auto count = static_cast<uint32_t>(rows_of.size() / logits.width);
  const ScoredRows rows = {std::max(logits.first, chunk.first_row),
                           std::min(logits.first + count, chunk.end_row)};
  if (rows.first >= rows.end) return;
  const auto targets = chunk.targets.subspan(rows.first - chunk.first_row);
  Scores from_reference, full;
  if (!logits.reference.empty()) {
    from_reference = ScoresOf(rows, 0, logits.reference, logits.width);
    AddLogProbabilities(targets, from_reference, measure.reference);
  }
  auto own = logits.own.begin();
  if (logits.full) {
    full = ScoresOf(rows, logits.first, *own++, logits.width);
    AddLogProbabilities(targets, full, measure.full);
    Compare(from_reference, full, measure.quantization);
  }
  for (GroupMeasure& group : measure.groups) {
    const Scores masked = ScoresOf(rows, logits.first, *own++, logits.width);
    AddLogProbabilities(targets, masked, group.log_probability);
    Compare(full, masked, group.from_full);
    Compare(from_reference, masked, group.from_reference);
  }
}

void Append(SessionMeasure&& window, SessionMeasure& session) {
  MoveBehind(window.reference, session.reference);
  MoveBehind(window.full, session.full);
  MoveBehind(window.quantization, session.quantization);
  for (size_t i = 0; i < window.groups.size(); ++i) {
    GroupMeasure &from = window.groups[i], &to = session.groups[i];
    MoveBehind(from.log_probability, to.log_probability);
    MoveBehind(from.from_full, to.from_full);
    MoveBehind(from.from_reference, to.from_reference);
    MoveBehind(from.teacher, to.teacher);
    MoveBehind(from.on_policy, to.on_policy);
  }
}

}  // namespace moepack::runtime
