#include "runtime-shim/eval/race_groups.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "runtime-shim/eval/token_scores.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kRaceChunk = 32;  // tokens whose logits are held at once

Result<std::vector<double>> ScoreRunner(const Model& model, const LayerExperts& eligible,
                                        std::span<const uint32_t> tokens) {
  SessionOptions options;
  options.context = static_cast<uint32_t>(tokens.size());
  SHARD_TRY(const std::unique_ptr<Session> session, Session::Open(model, eligible, options));
  std::vector<double> log_probabilities;
  // The last token is only a target.
  for (size_t first = 0; first + 1 < tokens.size(); first += kRaceChunk) {
    const size_t count = std::min<size_t>(kRaceChunk, tokens.size() - 1 - first);
    SHARD_TRY(const std::vector<float> logits,
              session->Feed(tokens.subspan(first, count), LogitsOf::kAll));
    const size_t vocabulary = logits.size() / count;
    for (size_t row = 0; row < count; ++row) {
      const std::span<const float> all = logits;
      const TokenScores scores(all.subspan(row * vocabulary, vocabulary));
      log_probabilities.push_back(scores.LogProbability(tokens[first + row + 1]));
    }
  }
  return log_probabilities;
}

}  // namespace

Result<RaceResult> RaceGroups(const Model& model, std::span<const LayerExperts> groups,
                              std::span<const uint32_t> tokens, uint32_t race_tokens) {
  if (groups.empty()) return Error{Code::kInvalidArgument, "race: expected groups, found none"};
  if (tokens.size() < 2)
    return Error{Code::kInvalidArgument,
                 Cat("race: expected at least 2 tokens, found ", tokens.size())};
  const uint32_t vocabulary = model.vocabulary();
  for (const uint32_t token : tokens) {
    if (token >= vocabulary)
      return Error{Code::kInvalidArgument,
                   Cat("race: token: expected an id below ", vocabulary, ", found ", token)};
  }
  // One more than is raced, because a token is scored by the logits of the one before it.
  tokens = tokens.first(std::min<size_t>(tokens.size(), size_t{race_tokens} + 1));
  std::vector<std::vector<double>> runners;
  for (const LayerExperts& eligible : groups) {
    SHARD_TRY(std::vector<double> runner, ScoreRunner(model, eligible, tokens));
    runners.push_back(std::move(runner));
  }
  return RunRace(runners, race_tokens);
}

}  // namespace moepack::runtime
