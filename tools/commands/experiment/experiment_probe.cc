#include "tools/commands/experiment/experiment_probe.h"

#include <algorithm>
#include <chrono>

namespace moepack::cli {
namespace {

// Enough for a batch like those of an evaluation, and done in seconds.
constexpr size_t kProbedTokens = 256;

uint64_t BytesOf(const runtime::Weights& weights) {
  uint64_t bytes = 0;
  for (const runtime::LoadedPart& part : weights.parts) bytes += part.bytes;
  return bytes;
}

}  // namespace

Result<ProbedSpeed> ProbeSpeed(const ExperimentArguments& arguments, const TokenSession& session) {
  SHARD_TRY(const auto executor, OpenExecutor(arguments.runtime));
  SHARD_TRY(const LoadedModel loaded,
            LoadModel(arguments.runtime.source, arguments.runtime, executor));
  const size_t count =
      std::min({kProbedTokens, session.tokens.size(), static_cast<size_t>(arguments.eval.context)});
  const auto tokens = std::span(session.tokens).first(count);
  runtime::SessionOptions options;
  options.context = static_cast<uint32_t>(count);
  SHARD_TRY(
      const auto opened,
      runtime::Session::Open(
          *loaded.model, runtime::EligibleExperts(*loaded.weights, std::nullopt, true), options));
  const auto begun = std::chrono::steady_clock::now();
  SHARD_TRY(const std::vector<float> logits, opened->Feed(tokens, runtime::LogitsOf::kLast));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return ProbedSpeed{count, took.count() / static_cast<double>(count), BytesOf(*loaded.weights)};
}

}  // namespace moepack::cli
