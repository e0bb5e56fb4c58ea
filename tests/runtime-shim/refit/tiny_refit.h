// Refits of tiny models on random tokens.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/strategies/split_mix.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/refit/refit.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {

inline constexpr uint32_t kTinyVocabulary = 40, kTokensOfText = 600;

inline std::vector<uint32_t> RandomTokens(uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> tokens(kTokensOfText);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random.Below(kTinyVocabulary));
  return tokens;
}

// Two groups of four of the eight experts of each layer that has any.
inline Plan HalvesOf(const Weights& weights) {
  Plan plan;
  plan.scheme = "halves";
  plan.layers = weights.moe_layers;
  plan.groups.resize(2);
  for (const auto& [layer, count] : weights.moe_layers) {
    plan.groups[0].owned[layer] = {0, 1, 4, 5};
    plan.groups[1].owned[layer] = {2, 3, 6, 7};
  }
  return plan;
}

// All steps, with few updates.
inline RefitOptions SmallOptions() {
  RefitOptions options;
  options.steps = {kRidgeStep, kRefillStep, kRouterStep, kRidgeStep, kTuneStep};
  options.updates = 5;
  options.context = 16;
  options.least_tokens = 20;
  options.fold = 4;
  return options;
}

// Every file of a directory with its bytes.
inline std::map<std::string, std::string> FilesOf(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename().string()] = fixtures::ReadFile(entry.path());
  }
  return files;
}

// A refit of a tiny model on random tokens.
class TinyRefit {
 public:
  explicit TinyRefit(const std::string& architecture, uint32_t threads = 1,
                     std::string executor = "cpu")
      : weights(TinyWeights(architecture)), threads_(threads), kind_(std::move(executor)) {}

  Result<RefitRecord> Run(const std::filesystem::path& directory, const RefitOptions& options,
                          const RefitEvents& events = {}) {
    SHARD_CHECK(Open());
    RefitRecord record;
    RecordOptions(options, record);
    record.model = std::string(16, '1');
    record.plan = RefitPlanDigest(plan);
    record.calibration = {{"made", "", std::string(64, '0'), kTokensOfText}};
    SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(directory, record));
    RefitOptions used = options;
    used.jobs = threads_;
    SHARD_CHECK(RefitModel(input(), used, events, store, directory));
    return store.record();
  }
  Status Open() {
    ExecutorOptions device;
    device.threads = threads_;
    SHARD_TRY(executor_, OpenExecutor(kind_, device));
    SHARD_TRY(model_, Model::Load(weights, *executor_));
    if (plan.groups.empty()) plan = HalvesOf(*weights);
    return Ok();
  }
  RefitInput input() const { return {*model_, plan, sessions_, std::nullopt}; }

  std::shared_ptr<Weights> weights;
  Plan plan;

 private:
  uint32_t threads_;
  std::string kind_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Model> model_;
  const std::vector<uint32_t> first_ = RandomTokens(1), second_ = RandomTokens(2);
  const std::vector<TokenSession> sessions_ = {{"one", "", first_, {}}, {"two", "", second_, {}}};
};

inline RefitRecord MustRun(TinyRefit& refit, const std::filesystem::path& directory,
                           const RefitOptions& options = SmallOptions()) {
  auto record = refit.Run(directory, options);
  EXPECT_TRUE(record) << record.error().message;
  return record ? *std::move(record) : RefitRecord();
}

}  // namespace moepack::runtime
