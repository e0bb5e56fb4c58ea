// The runtime shim's log-probabilities of the next token after each token of a sequence, for the
// comparison with llama.cpp (logits.mjs).
// usage: print-logits MODEL EXECUTOR ID...
// EXECUTOR "cpu-rounded" is the CPU with activations rounded as llama.cpp does.
// prints one JSON array of natural logarithms per token.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/session/session.h"

namespace {

std::vector<double> LogProbabilities(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<double> values;
  for (const float logit : logits) values.push_back(logit - largest - std::log(sum));
  return values;
}

moepack::Status Print(const std::string& path, const std::string& executor_name,
                      std::span<const uint32_t> tokens) {
  moepack::runtime::ExecutorOptions executor_options;
  executor_options.round_activations = executor_name == "cpu-rounded";
  const std::string kind = executor_name.substr(0, executor_name.find('-'));
  SHARD_TRY(const auto executor, moepack::runtime::OpenExecutor(kind, executor_options));
  SHARD_TRY(auto weights, moepack::runtime::LoadWeights(path, {}));
  const moepack::LayerExperts eligible =
      moepack::runtime::EligibleExperts(*weights, std::nullopt, true);
  SHARD_TRY(const auto model, moepack::runtime::Model::Load(std::move(weights), *executor));
  moepack::runtime::SessionOptions options;
  options.context = std::min(512u, model->spec().context);
  SHARD_TRY(const auto session, moepack::runtime::Session::Open(*model, eligible, options));
  // Half of them at once, the rest one by one: both paths of an executor.
  const size_t at_once = tokens.size() / 2;
  for (size_t first = 0; first < tokens.size();) {
    const size_t count = first == 0 && at_once > 0 ? at_once : 1;
    SHARD_TRY(const std::vector<float> logits,
              session->Feed(tokens.subspan(first, count), moepack::runtime::LogitsOf::kAll));
    const size_t width = model->vocabulary();
    for (size_t row = 0; row < count; ++row)
      std::cout << nlohmann::json(LogProbabilities(std::span(logits).subspan(row * width, width)))
                << "\n";
    first += count;
  }
  return moepack::Ok();
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) {
    std::cerr << "usage: print-logits MODEL EXECUTOR ID...\n";
    return 2;
  }
  std::vector<uint32_t> tokens;
  for (int i = 3; i < count; ++i)
    tokens.push_back(static_cast<uint32_t>(std::strtoul(words[i], nullptr, 10)));
  const moepack::Status status = Print(words[1], words[2], tokens);
  if (status) return 0;
  std::cerr << status.error().message << "\n";
  return 1;
}
